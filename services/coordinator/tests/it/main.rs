//! The coordinator's tests, in one binary.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "every function here is part of a test, helpers too"
)]

mod agent;
mod app;
mod feed;
mod rpc;
mod serve;
mod sessions;
mod store;
mod world;
