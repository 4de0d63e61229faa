//! The command line against a real coordinator, as far as it is the command line's own doing.
#![allow(
    clippy::unwrap_used,
    reason = "every function here is part of a test, helpers too"
)]

mod alone;
mod completion;
mod output;
mod words;
mod world;
