//! The coordinator: it decides, stores and publishes.
//!
//! `rpc` answers calls, `app` has the use cases, `sessions` one actor per session, `hosts` the
//! links to machines, `store` the rows, `feed` what subscribers get, `serve` and `up` the
//! process.

pub mod app;
pub mod feed;
pub mod hosts;
pub mod rpc;
pub mod serve;
pub mod sessions;
pub mod store;
pub mod up;
