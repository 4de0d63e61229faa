//! One actor per session: it owns the session's fold, and is the only one that writes its row.
//!
//! An actor is one task. It takes commands, what hosts report, what the program prints and
//! the passing of time; gives them to the fold; commits what the fold decided; and only then
//! answers and acts (R2, R3). A commit that fails takes the actor's fold with it: it begins
//! again from the store.
//!
//! Whoever sends the first command to a session starts its actor, which loads itself; so
//! there is one loader per session. An actor of which nothing more will come ends.

mod actor;
pub mod api;
mod commands;
mod owner;
mod reconcile;
mod registry;
#[cfg(test)]
mod tests;
mod urgent;
mod wall;

use std::{fmt, sync::Arc, time::Duration};

use muster_domain::{SessionId, WorkspaceId};
use muster_runtime::{Clock, Tasks, Unfinished};
use tokio::sync::Semaphore;

use crate::{
    hosts::api::HostsApi,
    store::{self, Handle},
};
use actor::{Place, Seed};
use reconcile::Outstanding;
use registry::{Entry, Registry};

/// Sessions that are loaded at once.
const LOADS_AT_ONCE: usize = 32;

/// What actors need.
#[derive(Debug)]
pub struct Parts {
    /// Where everything is stored.
    pub store: Handle,
    /// The machines.
    pub hosts: Arc<dyn HostsApi>,
    /// Time.
    pub clock: Clock,
    /// Owner of the actors' tasks. When it is cancelled, actors commit what they have in
    /// hand, and end.
    pub tasks: Tasks,
}

/// All actors. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

/// What all actors have in common.
struct Shared {
    store: Handle,
    hosts: Arc<dyn HostsApi>,
    clock: Clock,
    tasks: Tasks,
    registry: Registry,
    loads: Semaphore,
    loading: Outstanding,
    reconciling: Outstanding,
}

impl Sessions {
    /// No actor yet.
    pub fn new(parts: Parts) -> Self {
        let shared = Shared {
            store: parts.store,
            hosts: parts.hosts,
            clock: parts.clock,
            tasks: parts.tasks.child("sessions"),
            registry: Registry::default(),
            loads: Semaphore::new(LOADS_AT_ONCE),
            loading: Outstanding::default(),
            reconciling: Outstanding::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Starts an actor for every session of the workspace that is not over, and waits until
    /// they are loaded; gives how many. What their hosts say of them comes later; see
    /// [`Sessions::reconciled`]. Cancel safe: the actors go on.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn restore(&self, workspace: &WorkspaceId) -> store::Result<usize> {
        let ids = self.shared.store.live_sessions(workspace).await?;
        let found = ids.len();
        for id in ids {
            self.shared.restore(id);
        }
        self.shared.loading.done().await;
        Ok(found)
    }

    /// How many actors run.
    pub fn len(&self) -> usize {
        self.shared.registry.len()
    }

    /// No actor runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until each restored session was reported by its host, or its host proved
    /// unreachable (S35). For ever, if a host stays silent: the caller has a deadline. Cancel
    /// safe.
    pub async fn reconciled(&self) {
        self.shared.reconciling.done().await;
    }

    /// Ends all actors once they have committed what they know, at the latest after `grace`.
    /// Nothing is told to programs or hosts.
    ///
    /// # Errors
    /// [`Unfinished`] names the actors whose last output is not committed. It is read again
    /// after the next start.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), Unfinished> {
        self.shared.tasks.shutdown(grace).await
    }
}

impl Shared {
    /// The actor of this session, which may not exist.
    fn entry(self: &Arc<Self>, id: SessionId) -> Arc<Entry> {
        self.registry.get_or_insert(id, |entry, inbox| {
            self.spawn(Place::new(self, id, entry), inbox, Seed::Stored);
        })
    }

    fn restore(self: &Arc<Self>, id: SessionId) {
        self.registry.get_or_insert(id, |entry, inbox| {
            let place = Place::new(self, id, entry).restored();
            self.spawn(place, inbox, Seed::Stored);
        });
    }

    fn spawn(&self, place: Place, inbox: registry::Inbox, seed: Seed) {
        let name = place.name();
        self.tasks.spawn(name, actor::run(place, inbox, seed));
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("actors", &self.len())
            .finish_non_exhaustive()
    }
}
