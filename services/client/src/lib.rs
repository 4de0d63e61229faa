//! Typed client of the coordinator (`muster.v1`).
//!
//! Every call has a deadline. What must not happen twice is made under a key and may be
//! repeated ([`Client::send_message`], [`Client::start_session`]); streams go on where they
//! were when the coordinator is restarted ([`Client::tail`], [`Client::watch`]).
//!
//! Requests are types of this crate. Resources are those of the contract, in [`api`]: what
//! the coordinator shows is a view, from which no state can be rebuilt.

pub mod api;
mod client;
mod link;
mod methods;
mod requests;
mod settle;
mod tail;
mod wait;
mod watch;

pub use client::{Client, Options};
pub use methods::{Control, FileChunk, Page, ShutDown, pages};
pub use muster_domain::{
    Fault, Kind, Reason, limits,
    page::Request as PageRequest,
    session::{Access, Input, Slot},
    task::Phase,
};
/// Text of a message; empty where its bytes are referenced.
pub use muster_proto::convert::message::text as message_text;
/// The JSON view of a resource, as `--json` prints it.
pub use muster_proto::json::view as json;
pub use requests::{
    CreateTask, Env, ListSessions, SendMessage, SendMode, StartSession, TaskUpdate,
};
pub use settle::Unsettled;
pub use tail::{TailEvent, TailFile, TailFrom, TailRequest};
pub use wait::{WaitFor, WaitMessage};
pub use watch::{Topic, Watch, WatchEvent};

/// A key for a call that may be repeated. Make it once, and keep it for the repeats.
pub fn new_key() -> String {
    uuid::Uuid::new_v4().to_string()
}
