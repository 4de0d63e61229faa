//! Conversions between the wire and the domain.
//!
//! To the wire they cannot fail (`From`, or a function where the message needs more than
//! one value). From the wire everything is checked (`TryFrom`, with a [`Fault`] that names
//! the field): enums that are unspecified or unknown are refused unless the contract's
//! comment gives them a meaning.
//!
//! [`Fault`]: muster_domain::Fault

pub mod delivery;
pub mod enums;
pub mod feed;
pub mod host;
pub mod id;
pub mod interaction;
pub mod message;
pub mod page;
pub mod run;
pub mod session;
pub mod tail;
pub mod task;
pub mod time;
