//! The client against a coordinator that does what it is told, and is cut everywhere.

#![allow(clippy::unwrap_used)] // helpers of tests are test code too

mod calls;
mod fake;
mod send;
mod tail;
mod wait;
mod watch;

use std::{future::Future, time::Duration};

/// The machine may be busy; nothing here is about speed.
const LONG: Duration = Duration::from_secs(60);

/// Runs `future`, which must end.
async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(LONG, Box::pin(future)).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not come"),
    }
}
