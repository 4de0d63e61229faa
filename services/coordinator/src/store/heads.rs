//! Tells readers of the outbox that there is something to read.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use muster_domain::WorkspaceId;
use tokio::sync::watch;

/// The head revision of every workspace.
#[derive(Debug, Default)]
pub(super) struct Heads(Mutex<HashMap<WorkspaceId, watch::Sender<u64>>>);

impl Heads {
    /// Sees each new head.
    pub(super) fn subscribe(&self, workspace: &WorkspaceId) -> watch::Receiver<u64> {
        self.with(workspace, watch::Sender::subscribe)
    }

    /// Moves the head; it never goes back.
    pub(super) fn advance(&self, workspace: &WorkspaceId, revision: u64) {
        self.with(workspace, |sender| {
            sender.send_if_modified(|head| {
                let moves = revision > *head;
                *head = revision.max(*head);
                moves
            });
        });
    }

    fn with<T>(&self, workspace: &WorkspaceId, act: impl FnOnce(&watch::Sender<u64>) -> T) -> T {
        let mut heads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = heads.get(workspace) {
            return act(sender);
        }
        act(heads
            .entry(workspace.clone())
            .or_insert_with(|| watch::Sender::new(0)))
    }
}
