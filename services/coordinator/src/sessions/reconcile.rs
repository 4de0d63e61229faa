//! Start-up: which restored sessions are not loaded, or not reported by their host (S35).

use muster_domain::session::{Link, Process, State};
use tokio::sync::watch;

/// Counts restored sessions that something is still to come of.
#[derive(Debug, Clone, Default)]
pub(super) struct Outstanding {
    left: watch::Sender<usize>,
}

impl Outstanding {
    /// One more, until the mark is dropped.
    pub(super) fn mark(&self) -> Mark {
        self.left.send_modify(|left| *left += 1);
        Mark {
            left: self.left.clone(),
        }
    }

    pub(super) async fn done(&self) {
        let mut left = self.left.subscribe();
        // The sender lives in `self`.
        let _ = left.wait_for(|left| *left == 0).await;
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Mark {
    left: watch::Sender<usize>,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.left.send_modify(|left| *left -= 1);
    }
}

/// The session's host has said how it stands, or cannot be asked.
pub(super) fn is_reconciled(state: &State) -> bool {
    state.is_over()
        || match state.link.value {
            Link::Connecting => false,
            Link::Unreachable => true,
            Link::Connected | Link::Suspect => state.run.process.value != Process::Unknown,
        }
}
