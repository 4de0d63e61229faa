//! Everything that decides: pure functions and values, no runtime, no clock, no files.
//!
//! Ids and times are arguments. What is here can be replayed, and is tested by replaying.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod changeset;
pub mod delivery;
pub mod fault;
pub mod feed;
pub mod host;
pub mod id;
pub mod interaction;
pub mod limits;
pub mod message;
pub mod page;
pub mod scanner;
pub mod session;
pub mod task;
pub mod time;

pub use fault::{Fault, Kind, Reason};
pub use id::{
    DeliveryId, HostId, InteractionId, MessageId, SessionId, TaskId, TurnId, WorkspaceId,
};
pub use time::Timestamp;
