//! Which sessions have an actor.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use muster_domain::{
    Fault, HostId, SessionId,
    session::{
        State,
        fold::{Accepted, Command},
    },
};
use tokio::sync::{mpsc, oneshot, watch};

use super::api::Live;

/// Commands that wait for one actor; further callers wait before the queue.
const INBOX: usize = 64;

/// A command on its way to an actor. Dropped without an answer, it was not taken: the caller
/// asks anew.
pub(super) struct Request {
    pub(super) command: Command,
    /// The host was asked about the runs up to this one, and nothing of them lives (S9).
    pub(super) free_after: Option<u32>,
    pub(super) reply: Reply,
}

/// Where an actor answers, after the commit.
pub(super) type Reply = oneshot::Sender<Result<Answer, Fault>>;

/// A command was taken, and is committed.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) accepted: Accepted,
    /// The session after it.
    pub(super) state: State,
}

/// The actor's end of its commands.
pub(super) type Inbox = mpsc::Receiver<Request>;

/// How an actor is reached.
pub(super) struct Entry {
    inbox: mpsc::Sender<Request>,
    live: OnceLock<watch::Sender<Arc<Live>>>,
}

impl Entry {
    fn new() -> (Arc<Self>, Inbox) {
        let (sender, receiver) = mpsc::channel(INBOX);
        let entry = Self {
            inbox: sender,
            live: OnceLock::new(),
        };
        (Arc::new(entry), receiver)
    }

    /// Hands a command over; waits while the actor's queue is full. `false`: the actor ended.
    pub(super) async fn send(&self, request: Request) -> bool {
        self.inbox.send(request).await.is_ok()
    }

    /// Shows what the actor has in hand now.
    pub(super) fn publish(&self, live: Live) {
        let live = Arc::new(live);
        match self.live.get() {
            Some(sender) => {
                sender.send_replace(live);
            }
            None => {
                // Only the actor publishes: nobody else can have set it meanwhile.
                let _ = self.live.set(watch::Sender::new(live));
            }
        }
    }

    pub(super) fn live(&self) -> Option<watch::Receiver<Arc<Live>>> {
        self.live.get().map(watch::Sender::subscribe)
    }

    fn lives_on(&self, host: HostId) -> bool {
        self.live.get().is_some_and(|live| {
            let state = &live.borrow().state;
            state.spec.host == host && !state.is_over()
        })
    }
}

/// The actors by session.
#[derive(Default)]
pub(super) struct Registry {
    entries: Mutex<HashMap<SessionId, Arc<Entry>>>,
}

impl Registry {
    /// The actor of this session; `start` starts it where there is none.
    pub(super) fn get_or_insert(
        &self,
        id: SessionId,
        start: impl FnOnce(&Arc<Entry>, Inbox),
    ) -> Arc<Entry> {
        let (entry, inbox) = {
            let mut entries = self.lock();
            if let Some(entry) = entries.get(&id) {
                return entry.clone();
            }
            let (entry, inbox) = Entry::new();
            entries.insert(id, entry.clone());
            (entry, inbox)
        };
        start(&entry, inbox);
        entry
    }

    /// Starts the actor of a session that is new. `false`: it has one.
    pub(super) fn insert(&self, id: SessionId, start: impl FnOnce(&Arc<Entry>, Inbox)) -> bool {
        let mut fresh = false;
        self.get_or_insert(id, |entry, inbox| {
            fresh = true;
            start(entry, inbox);
        });
        fresh
    }

    pub(super) fn get(&self, id: SessionId) -> Option<Arc<Entry>> {
        self.lock().get(&id).cloned()
    }

    /// Takes an actor off the list, unless commands wait for it. `false`: they do.
    pub(super) fn leave(&self, id: SessionId, entry: &Arc<Entry>, inbox: &Inbox) -> bool {
        let mut entries = self.lock();
        if !inbox.is_empty() {
            return false;
        }
        remove(&mut entries, id, entry);
        true
    }

    /// Takes an actor off the list that has ended in any way.
    pub(super) fn remove(&self, id: SessionId, entry: &Arc<Entry>) {
        remove(&mut self.lock(), id, entry);
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Sessions of this host that are not over.
    pub(super) fn count(&self, host: HostId) -> u32 {
        let entries = self.lock();
        let live = entries.values().filter(|entry| entry.lives_on(host));
        u32::try_from(live.count()).unwrap_or(u32::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove(entries: &mut HashMap<SessionId, Arc<Entry>>, id: SessionId, entry: &Arc<Entry>) {
    if entries
        .get(&id)
        .is_some_and(|found| Arc::ptr_eq(found, entry))
    {
        entries.remove(&id);
    }
}
