//! What all subscribers share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use muster_domain::WorkspaceId;
use muster_runtime::{Clock, Tasks};
use tokio::sync::watch;

use super::{ring::Ring, subscriber::Subscriber};
use crate::{
    app::Views,
    sessions::api::SessionsApi,
    store::{self, Revised},
};

/// Commits that are read from the store at once.
pub(super) const BATCH: u32 = 128;
/// How long the hub waits before it reads a failing store again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// The feed of one workspace. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) workspace: WorkspaceId,
    pub(super) store: store::Handle,
    pub(super) sessions: Arc<dyn SessionsApi>,
    pub(super) views: Views,
    pub(super) clock: Clock,
    ring: Mutex<Ring>,
    ready: watch::Receiver<u64>,
}

/// Commits after a revision, or the news that some are gone.
#[derive(Debug)]
pub(super) enum Pulled {
    Commits(Vec<Arc<Revised>>),
    Compacted { oldest: u64 },
}

impl Feed {
    /// Begins to follow the outbox of `workspace` from its present head.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        tasks: &Tasks,
        clock: Clock,
        workspace: WorkspaceId,
        store: store::Handle,
        sessions: Arc<dyn SessionsApi>,
        views: Views,
    ) -> store::Result<Self> {
        let head = store.bounds(&workspace).await?.head;
        let heads = store.heads(&workspace);
        let (announce, ready) = watch::channel(head);
        let shared = Arc::new(Shared {
            workspace,
            store,
            sessions,
            views,
            clock,
            ring: Mutex::new(Ring::new(head)),
            ready,
        });
        tasks.spawn(
            "feed",
            follow(shared.clone(), heads, announce, tasks.token()),
        );
        Ok(Self { shared })
    }

    /// A subscriber that has asked for nothing yet.
    pub fn subscriber(&self) -> Subscriber {
        Subscriber::new(self.shared.clone())
    }
}

impl Shared {
    /// Moves to each new revision once it can be pulled.
    pub(super) fn ready(&self) -> watch::Receiver<u64> {
        self.ready.clone()
    }

    pub(super) async fn pull(&self, after: u64) -> store::Result<Pulled> {
        if let Some(commits) = self.ring().after(after, BATCH as usize) {
            return Ok(Pulled::Commits(commits));
        }
        let batch = self.store.outbox(&self.workspace, after, BATCH).await?;
        if after < batch.bounds.compacted {
            return Ok(Pulled::Compacted {
                oldest: batch.bounds.compacted,
            });
        }
        Ok(Pulled::Commits(
            batch.commits.into_iter().map(Arc::new).collect(),
        ))
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(
    shared: Arc<Shared>,
    mut heads: watch::Receiver<u64>,
    announce: watch::Sender<u64>,
    ended: tokio_util::sync::CancellationToken,
) {
    loop {
        heads.borrow_and_update();
        if let Err(error) = fill(&shared, &announce).await {
            tracing::warn!(%error, "the feed cannot read the outbox");
            tokio::select! {
                () = shared.clock.sleep(AGAIN_AFTER) => continue,
                () = ended.cancelled() => return,
            }
        }
        tokio::select! {
            changed = heads.changed() => if changed.is_err() { return },
            () = ended.cancelled() => return,
        }
    }
}

/// Reads what the ring does not have yet.
async fn fill(shared: &Shared, announce: &watch::Sender<u64>) -> store::Result<()> {
    loop {
        let after = shared.ring().head();
        let batch = shared.store.outbox(&shared.workspace, after, BATCH).await?;
        if batch.commits.is_empty() {
            return Ok(());
        }
        let head = {
            let mut ring = shared.ring();
            if after < batch.bounds.compacted {
                ring.restart(batch.bounds.compacted);
            }
            for commit in batch.commits {
                ring.push(commit);
            }
            ring.head()
        };
        announce.send_replace(head);
    }
}
