//! The life of one actor: begin, run, begin again after a failed commit, end.

mod act;
mod calls;
mod commit;
mod obey;
mod publish;
mod reach;
mod replies;
mod running;
mod tail;

use std::sync::Arc;

use muster_domain::{
    Fault, Reason, SessionId,
    changeset::Versioned,
    limits,
    session::{Fold, State, fold::Stored},
    task::Task,
};
use muster_runtime::Clock;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    reconcile::{self, Mark},
    registry::{Entry, Inbox},
    wall::Wall,
};
use crate::store::{self, Handle, StoredSession};
pub(super) use calls::{CALL, stop_call};
pub(super) use reach::link_of;
use running::{End, Running};

/// What an actor begins with.
pub(super) enum Seed {
    /// What the store has.
    Stored,
    /// A session that is not in the store yet.
    New {
        /// Its fold; the first commit inserts it.
        fold: Box<Fold>,
        /// Its task as it shall be.
        task: Option<Box<Versioned<Task>>>,
        /// Answered after the first commit.
        reply: oneshot::Sender<Result<State, Fault>>,
    },
}

/// Where an actor stands. Dropping it takes the actor off the list, whatever ended it.
pub(super) struct Place {
    shared: Arc<Shared>,
    id: SessionId,
    entry: Arc<Entry>,
    /// Its session was not loaded since the start of the coordinator.
    unloaded: Option<Mark>,
    /// Nor reconciled.
    unreconciled: Option<Mark>,
    wall: Wall,
    ended: CancellationToken,
}

impl Place {
    pub(super) fn new(shared: &Arc<Shared>, id: SessionId, entry: &Arc<Entry>) -> Self {
        Self {
            shared: shared.clone(),
            id,
            entry: entry.clone(),
            unloaded: None,
            unreconciled: None,
            wall: Wall::new(shared.clock.clone()),
            ended: shared.tasks.token(),
        }
    }

    /// One of those that the start of the coordinator waits for.
    pub(super) fn restored(mut self) -> Self {
        self.unloaded = Some(self.shared.loading.mark());
        self.unreconciled = Some(self.shared.reconciling.mark());
        self
    }

    pub(super) fn name(&self) -> String {
        format!("session {}", self.id)
    }

    fn store(&self) -> &Handle {
        &self.shared.store
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    fn see(&mut self, state: &State) {
        self.unloaded = None;
        if self.unreconciled.is_some() && reconcile::is_reconciled(state) {
            self.unreconciled = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.registry.remove(self.id, &self.entry);
    }
}

/// Runs the actor until nothing more will come of its session, or the group ends.
pub(super) async fn run(mut place: Place, mut inbox: Inbox, seed: Seed) {
    let mut running = match seed {
        Seed::New { fold, task, reply } => {
            Box::new(Running::new(&place, *fold, task.map(|task| *task), reply))
        }
        Seed::Stored => match load(&mut place, &mut inbox, None).await {
            Some(running) => running,
            None => return,
        },
    };
    let mut failures = 0;
    loop {
        let end = running.run(&mut place, &mut inbox).await;
        failures = if running.has_committed() {
            1
        } else {
            failures + 1
        };
        // The fold goes first: it is ahead of what is known.
        drop(running);
        let fault = match end {
            End::Over => return,
            End::Failed(fault) => fault,
        };
        let again = Again { fault, failures };
        running = match load(&mut place, &mut inbox, Some(again)).await {
            Some(running) => running,
            None => return,
        };
    }
}

/// Why a session is loaded anew.
struct Again {
    fault: Fault,
    failures: u32,
}

/// Loads the session; as often as it takes while the store does not answer. `None`: there is
/// no such session, or the group ends.
async fn load(place: &mut Place, inbox: &mut Inbox, again: Option<Again>) -> Option<Box<Running>> {
    let mut attempts = again.as_ref().map_or(0, |again| again.failures);
    let mut fault = again.map(|again| again.fault);
    loop {
        if let Some(fault) = &fault {
            pause(place, inbox, fault, attempts).await?;
        }
        let stored = match read(place).await? {
            Ok(stored) => stored,
            Err(error) => {
                let lasting = !matches!(error, store::Error::Unavailable(_));
                tracing::warn!(session = %place.id, %error, "the session cannot be loaded");
                let cause = Fault::from(error);
                if lasting {
                    refuse(inbox, &cause);
                    return None;
                }
                attempts += 1;
                fault = Some(cause);
                continue;
            }
        };
        let Some(stored) = stored else {
            refuse(inbox, &super::commands::not_found(place.id));
            return None;
        };
        let now = place.wall.now();
        let committed = stored.state.clone();
        let fold = Fold::restore(as_stored(stored), now);
        return Some(Box::new(Running::restored(place, fold, committed)));
    }
}

/// `None`: the group ends.
async fn read(place: &Place) -> Option<store::Result<Option<StoredSession>>> {
    tokio::select! {
        () = place.ended.cancelled() => None,
        result = async {
            // Never closed.
            let _permit = place.shared.loads.acquire().await.ok();
            place.store().load(place.id).await
        } => Some(result),
    }
}

/// Waits before the next attempt; commands are told why. `None`: the group ends.
async fn pause(place: &Place, inbox: &mut Inbox, fault: &Fault, attempts: u32) -> Option<()> {
    let full = limits::RETRY_FIRST.saturating_mul(1 << attempts.saturating_sub(1).min(10));
    let full = full.min(limits::RETRY_CAP);
    // Many actors fail together when the store does; they need not come back together.
    let wait = full.mul_f64(0.5 + 0.5 * fastrand::f64());
    let end = place.clock().boottime() + wait;
    loop {
        tokio::select! {
            () = place.ended.cancelled() => return None,
            () = place.clock().sleep_until(end) => return Some(()),
            Some(request) = inbox.recv() => {
                let _ = request.reply.send(Err(fault.clone()));
            }
        }
    }
}

/// Answers every command that waits.
fn refuse(inbox: &mut Inbox, fault: &Fault) {
    inbox.close();
    while let Ok(request) = inbox.try_recv() {
        let _ = request.reply.send(Err(fault.clone()));
    }
}

fn as_stored(stored: StoredSession) -> Stored {
    Stored {
        state: stored.state,
        waiting: stored.waiting,
        deliveries: stored.deliveries,
        growing: stored.growing,
    }
}

/// The fault for a store that did not commit.
fn unavailable(cause: impl std::fmt::Display) -> Fault {
    Fault::new(Reason::StoreUnavailable, "the store cannot be written")
        .with_hint("check the disk that holds the data folder")
        .with_internal(cause)
}
