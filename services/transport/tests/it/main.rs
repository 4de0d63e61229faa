//! Behaviour of the transport crate over in-process connections and Unix sockets.

mod backoff;
mod channel;
mod host_link;
mod in_process;
mod link;
mod service;
mod unix;

use std::{future::Future, time::Duration};

/// The machine may be busy; nothing here is about speed.
pub const LONG: Duration = Duration::from_secs(60);

/// Runs `future`, which must end.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(LONG, future)
        .await
        .unwrap_or_else(|_| panic!("{what} did not come"))
}

/// Waits until `condition` holds.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
