//! What the coordinator remembers.
//!
//! One write: [`Store::commit`]. Everything else reads. No transaction leaves the store;
//! read-modify-write is optimistic, by the versions in a `Changeset`.
//!
//! All futures are cancel safe for reads. A dropped `commit` is not undone: whether it was
//! written is unknown then, and the caller reloads.

use std::sync::Arc;

use async_trait::async_trait;
use muster_domain::{
    HostId, MessageId, SessionId, TaskId, Timestamp, WorkspaceId,
    changeset::{Changeset, Committed, Conflict},
    delivery::Delivery,
    feed::Event,
    host::Host,
    message::Message,
    page::{Page, Request},
    session::{State, Turn},
    task::{Phase, Task},
};
use tokio::sync::watch;

mod error;
mod heads;
mod memory;
mod model;
mod sqlite;
mod token;
mod writer;

pub use error::Error;
pub use memory::MemoryStore;
pub use sqlite::SqliteStore;

/// What a read gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Cheap to clone, as every component holds one.
pub type Handle = Arc<dyn Store>;

/// The whole store.
#[async_trait]
pub trait Store: Sessions + Messages + Tasks + Hosts + Outbox + std::fmt::Debug {
    /// Writes each changeset whole or not at all; the answers are in the order of the
    /// changesets. A conflict of one does not touch the others. They are applied in order,
    /// not necessarily in one transaction.
    ///
    /// Answered after the rows are on the disk (R3). Waits while the writer's queue is full.
    /// A dropped future does not take back what was handed over.
    async fn commit(
        &self,
        changesets: Vec<Changeset>,
    ) -> Vec<std::result::Result<Committed, Conflict>>;

    /// Ends the writer after what it was given, and closes the files. Later calls fail with
    /// [`Error::Unavailable`] or [`Conflict::Unavailable`].
    async fn close(&self);
}

/// A session with everything that its actor needs to go on after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// Its row.
    pub state: State,
    /// User messages whose delivery is not final, in order of acceptance.
    pub waiting: Vec<Message>,
    /// Deliveries of which nobody has said yet how they ended, oldest first.
    pub deliveries: Vec<Delivery>,
    /// The latest message that is not complete, with its text so far.
    pub growing: Option<Message>,
}

/// Which sessions a list gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// Only those whose process has not ended.
    pub live: bool,
    /// Internal ones too.
    pub internal: bool,
    /// Only those of this task.
    pub task: Option<TaskId>,
}

/// Reads of sessions.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// The session with what its actor needs.
    async fn load(&self, id: SessionId) -> Result<Option<StoredSession>>;

    /// The session's row alone.
    async fn session(&self, id: SessionId) -> Result<Option<State>>;

    /// Ids in canonical form that begin with `prefix`, in order, at most `limit`.
    async fn sessions_by_prefix(
        &self,
        workspace: &WorkspaceId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<SessionId>>;

    /// The session that was started under this client key.
    async fn session_by_client_key(
        &self,
        workspace: &WorkspaceId,
        key: &str,
    ) -> Result<Option<State>>;

    /// Newest first. A page also ends where its rows become large.
    async fn sessions(
        &self,
        workspace: &WorkspaceId,
        filter: SessionFilter,
        page: &Request,
    ) -> Result<Page<State>>;

    /// Sessions of which the process has not ended, or that have messages waiting, oldest
    /// first.
    async fn live_sessions(&self, workspace: &WorkspaceId) -> Result<Vec<SessionId>>;

    /// The newest turns, newest first, at most `limit`.
    async fn turns(&self, session: SessionId, limit: u32) -> Result<Vec<Turn>>;

    /// The session's row and its last messages, oldest first, growing text included, all as
    /// of one revision: the events of the session after it continue them without a seam.
    /// At most `limit` messages, fewer where they are large.
    async fn session_snapshot(
        &self,
        session: SessionId,
        limit: u32,
    ) -> Result<Option<SessionSnapshot>>;
}

/// A session as of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSnapshot {
    /// Feed revision of its workspace.
    pub revision: u64,
    /// The row.
    pub state: State,
    /// Its last messages, oldest first.
    pub messages: Vec<Message>,
}

/// Reads of messages. Texts come whole, assembled from their chunks.
#[async_trait]
pub trait Messages: Send + Sync {
    /// One message.
    async fn message(&self, id: MessageId) -> Result<Option<Message>>;

    /// The message that a client sent to this session under this key.
    async fn message_by_client_key(&self, session: SessionId, key: &str)
    -> Result<Option<Message>>;

    /// Oldest first, by their place in the session. A page also ends where its texts become
    /// large; it has at least one message unless it is the last one.
    async fn messages(&self, session: SessionId, page: &Request) -> Result<Page<Message>>;

    /// What was said to a run, the latest first: as many messages as it takes for so many
    /// `bytes` of text and newlines, or all there are.
    async fn said_last(&self, session: SessionId, run: u32, bytes: u64) -> Result<Vec<Message>>;
}

/// Reads of tasks.
#[async_trait]
pub trait Tasks: Send + Sync {
    /// One task.
    async fn task(&self, id: TaskId) -> Result<Option<Task>>;

    /// Ids in canonical form that begin with `prefix`, in order, at most `limit`.
    async fn tasks_by_prefix(
        &self,
        workspace: &WorkspaceId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<TaskId>>;

    /// The task that was made under this client key.
    async fn task_by_client_key(&self, workspace: &WorkspaceId, key: &str) -> Result<Option<Task>>;

    /// Newest first; with a phase only those in it.
    async fn tasks(
        &self,
        workspace: &WorkspaceId,
        phase: Option<&Phase>,
        page: &Request,
    ) -> Result<Page<Task>>;
}

/// Reads of hosts.
#[async_trait]
pub trait Hosts: Send + Sync {
    /// All hosts, by name.
    async fn hosts(&self) -> Result<Vec<Host>>;

    /// One host.
    async fn host(&self, id: HostId) -> Result<Option<Host>>;

    /// The host with this name.
    async fn host_by_name(&self, name: &str) -> Result<Option<Host>>;
}

/// The events of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revised {
    /// Feed revision of their workspace.
    pub revision: u64,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// What the outbox has after a revision, read at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Commits in order of their revision; empty when there is nothing after it.
    pub commits: Vec<Revised>,
    /// See [`Bounds`].
    pub bounds: Bounds,
}

/// Which revisions of a workspace can be resumed from: `compacted..=head`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Events up to this revision are gone: resuming after an older one is impossible.
    pub compacted: u64,
    /// The latest revision.
    pub head: u64,
}

/// What is kept of the outbox (F11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// So many of the newest rows at most.
    pub rows: u64,
    /// Only rows that were written at or after this time.
    pub since: Timestamp,
}

/// A row of a workspace's snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A host.
    Host(Host),
    /// A task.
    Task(Task),
    /// A session that is neither internal nor archived.
    Session(Box<State>),
}

/// Where a snapshot goes on; made by the page before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotKey(pub(crate) String);

/// One page of a workspace's snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotPage {
    /// Feed revision that this page's rows are as of.
    pub revision: u64,
    /// The rows.
    pub rows: Vec<Row>,
    /// `None` on the last page.
    pub next: Option<SnapshotKey>,
}

/// The feed's side of the store.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Commits after `after`, at most `limit`, fewer where they are large, at least one when
    /// there is one. When `after` lies below `bounds.compacted`, events are missing before
    /// the first one: the reader must take a snapshot.
    async fn outbox(&self, workspace: &WorkspaceId, after: u64, limit: u32) -> Result<Batch>;

    /// The revisions that the outbox spans.
    async fn bounds(&self, workspace: &WorkspaceId) -> Result<Bounds>;

    /// Moves to each new head revision once it can be read; a receiver that sleeps sees the
    /// latest. The store's own clock: no polling needed.
    fn heads(&self, workspace: &WorkspaceId) -> watch::Receiver<u64>;

    /// Removes what need not be kept, at most 10,000 rows; gives how many. Call again until
    /// it gives 0.
    async fn prune(&self, workspace: &WorkspaceId, keep: Keep) -> Result<u64>;

    /// A page of everything that workspace subscribers see; `None` = the first.
    ///
    /// Each page is exact as of its own revision; no page holds a read transaction longer
    /// than itself, so that a slow subscriber costs nothing. A snapshot of several pages is
    /// one at the *first* page's revision: rows of later pages may be newer, never older. Who
    /// then applies every event after the first page's revision and ignores rows that are not
    /// newer than what it has (by `version`) ends at the exact state.
    async fn snapshot(
        &self,
        workspace: &WorkspaceId,
        from: Option<&SnapshotKey>,
        limit: u32,
    ) -> Result<SnapshotPage>;
}
