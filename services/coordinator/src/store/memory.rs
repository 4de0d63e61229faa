//! The store without a disk: what tests and simulations use. Same answers as the others.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use muster_domain::{
    DeliveryId, HostId, MessageId, SessionId, TaskId, Timestamp, TurnId, WorkspaceId,
    changeset::{Changeset, Committed, Conflict},
    delivery::Delivery,
    feed::Event,
    host::Host,
    message::{Body, Message},
    session::{State, Turn},
    task::Task,
};
use muster_runtime::Clock;

use super::{
    Error, Result, Store,
    heads::Heads,
    model::{PAGE_BYTES, assemble, chunked},
};

mod commit;
mod outbox;
mod reads;

/// A store in memory.
pub struct MemoryStore {
    rows: Mutex<Rows>,
    heads: Heads,
    clock: Clock,
}

/// All rows.
#[derive(Default)]
struct Rows {
    closed: bool,
    spaces: BTreeMap<WorkspaceId, Space>,
    hosts: BTreeMap<HostId, Host>,
    tasks: BTreeMap<TaskId, (u64, Task)>,
    sessions: BTreeMap<SessionId, (u64, State)>,
    turns: BTreeMap<TurnId, (SessionId, Turn)>,
    messages: BTreeMap<MessageId, Message>,
    chunks: BTreeMap<(MessageId, u64), String>,
    deliveries: BTreeMap<DeliveryId, Delivery>,
}

#[derive(Default)]
struct Space {
    head: u64,
    compacted: u64,
    outbox: BTreeMap<u64, (Timestamp, Vec<Event>)>,
}

impl MemoryStore {
    /// An empty store with the workspace `main`.
    pub fn new(clock: Clock) -> Self {
        let mut rows = Rows::default();
        rows.spaces.insert(WorkspaceId::main(), Space::default());
        Self {
            rows: Mutex::new(rows),
            heads: Heads::default(),
            clock,
        }
    }

    /// The rows, unless closed.
    fn read(&self) -> Result<MutexGuard<'_, Rows>> {
        let rows = self.lock();
        if rows.closed {
            return Err(Error::Unavailable("the store is closed".to_owned()));
        }
        Ok(rows)
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(
        &self,
        changesets: Vec<Changeset>,
    ) -> Vec<std::result::Result<Committed, Conflict>> {
        let now = Timestamp::from_micros(self.clock.now_micros());
        let mut rows = self.lock();
        changesets
            .into_iter()
            .map(|changeset| {
                let workspace = changeset.workspace.clone();
                let committed = rows.commit(changeset, now)?;
                self.heads.advance(&workspace, committed.revision);
                Ok(committed)
            })
            .collect()
    }

    async fn close(&self) {
        self.lock().closed = true;
    }
}

impl Rows {
    /// A message with its text.
    fn whole(&self, message: &Message) -> Message {
        let mut message = message.clone();
        if chunked(&message) {
            let from = (message.id, 0);
            let to = (message.id, u64::MAX);
            let pieces = self.chunks.range(from..=to);
            let text = assemble(pieces.map(|((_, at), text)| (*at, text.as_str())));
            message.body = Body::Text(text);
        }
        message
    }
}

/// The first of `rows` that make a page, and whether more follow.
fn page_of<T>(
    rows: impl Iterator<Item = T>,
    limit: u32,
    weigh: impl Fn(&T) -> usize,
) -> (Vec<T>, bool) {
    let mut taken = Vec::new();
    let mut weight = 0_usize;
    for row in rows {
        weight = weight.saturating_add(weigh(&row));
        if !taken.is_empty() && (taken.len() >= limit as usize || weight > PAGE_BYTES) {
            return (taken, true);
        }
        taken.push(row);
    }
    (taken, false)
}

/// About as much as the document of the row would be.
fn weight<T: serde::Serialize>(row: &T) -> usize {
    serde_json::to_string(row).map_or(0, |doc| doc.len())
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}
