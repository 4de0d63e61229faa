//! Following files as they grow.
//!
//! `reader` decides what is sent, `mark` makes positions that survive a reconnect, `source`
//! opens real files, `watcher` says when to look, `follow` makes the stream.

mod follow;
mod mark;
mod reader;
mod source;
mod watcher;

pub(crate) use follow::{Ending, Tails, Wanted, moved};
pub(crate) use mark::{HASH_BYTES, Head, Identity, generation};
pub(crate) use reader::{Framing, Start};
pub(crate) use source::RootedName;
