//! One subscription of one client.

use std::sync::Arc;

use muster_domain::SessionId;
use tokio::sync::watch;

use super::growth::Growth;
use crate::{sessions::api::Live, store::SnapshotKey};

/// How far a subscription is.
#[derive(Debug)]
pub(super) enum Stage {
    /// The snapshot was not begun.
    Wanted,
    /// The workspace's snapshot goes on here; `u64` is its revision.
    Paged(SnapshotKey, u64),
    /// Events up to this revision were sent.
    Live(u64),
}

/// The workspace's subscription.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) stage: Stage,
}

/// A session's subscription.
#[derive(Debug)]
pub(super) struct Session {
    /// Name of its host.
    pub(super) host: Arc<str>,
    pub(super) stage: Stage,
    pub(super) growth: Growth,
    pub(super) live: Option<watch::Receiver<Arc<Live>>>,
    /// What is in `live` was not looked at.
    pub(super) unseen: bool,
}

impl Session {
    pub(super) fn new(stage: Stage, host: Arc<str>) -> Self {
        Self {
            host,
            stage,
            growth: Growth::default(),
            live: None,
            unseen: true,
        }
    }
}

impl Stage {
    /// From where events are wanted.
    pub(super) fn cursor(&self) -> Option<u64> {
        match self {
            Self::Live(revision) => Some(*revision),
            Self::Wanted | Self::Paged(..) => None,
        }
    }

    /// Whether an event of this revision is still to be sent; from then on it is not.
    pub(super) fn passes(&self, revision: u64) -> bool {
        matches!(self, Self::Live(cursor) if *cursor < revision)
    }

    pub(super) fn advance(&mut self, revision: u64) {
        if let Self::Live(cursor) = self {
            *cursor = (*cursor).max(revision);
        }
    }
}

/// A session whose live value changed, by its id.
pub(super) async fn changed(id: SessionId, live: &mut watch::Receiver<Arc<Live>>) -> SessionId {
    // An ended actor counts as a change: whoever waits looks for its successor.
    let _ = live.changed().await;
    id
}
