//! A store that fails when it is told to, and keeps commits waiting.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_trait::async_trait;
use muster_coordinator::store::{
    Batch, Bounds, Hosts, Keep, MemoryStore, Messages, Outbox, Result, SessionFilter,
    SessionSnapshot, Sessions, SnapshotKey, SnapshotPage, Store, StoredSession, Tasks,
};
use muster_domain::{
    HostId, MessageId, SessionId, TaskId, WorkspaceId,
    changeset::{Changeset, Committed, Conflict},
    host::Host,
    message::Message,
    page::{Page, Request},
    session::{State, Turn},
    task::{Phase, Task},
};
use muster_runtime::Clock;
use tokio::sync::watch;

/// See the module.
#[derive(Debug)]
pub struct Flaky {
    inner: MemoryStore,
    /// Commits so far, failed ones included.
    commits: AtomicU64,
    /// The number of the commit that fails; 0 = none.
    fails: AtomicU64,
    full: AtomicBool,
    open: watch::Sender<bool>,
}

impl Flaky {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(Clock::system()),
            commits: AtomicU64::new(0),
            fails: AtomicU64::new(0),
            full: AtomicBool::new(false),
            open: watch::Sender::new(true),
        })
    }

    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// The `n`-th commit from now on, from 1, is not written.
    pub fn fail(&self, n: u64) {
        self.fails.store(self.commits() + n, Ordering::SeqCst);
    }

    /// No commit is written, as on a full disk, or they are again.
    pub fn fill(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// Commits wait, or go on.
    pub fn let_through(&self, open: bool) {
        self.open.send_replace(open);
    }
}

#[async_trait]
impl Store for Flaky {
    async fn commit(
        &self,
        changesets: Vec<Changeset>,
    ) -> Vec<std::result::Result<Committed, Conflict>> {
        let _ = self.open.subscribe().wait_for(|open| *open).await;
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.fails.load(Ordering::SeqCst) || self.full.load(Ordering::SeqCst) {
            let failed = |_| Err(Conflict::Unavailable("asked to fail".to_owned()));
            return changesets.iter().map(failed).collect();
        }
        self.inner.commit(changesets).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl Sessions for Flaky {
    async fn load(&self, id: SessionId) -> Result<Option<StoredSession>> {
        self.inner.load(id).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<State>> {
        self.inner.session(id).await
    }

    async fn sessions_by_prefix(
        &self,
        workspace: &WorkspaceId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<SessionId>> {
        self.inner
            .sessions_by_prefix(workspace, prefix, limit)
            .await
    }

    async fn session_by_client_key(
        &self,
        workspace: &WorkspaceId,
        key: &str,
    ) -> Result<Option<State>> {
        self.inner.session_by_client_key(workspace, key).await
    }

    async fn sessions(
        &self,
        workspace: &WorkspaceId,
        filter: SessionFilter,
        page: &Request,
    ) -> Result<Page<State>> {
        self.inner.sessions(workspace, filter, page).await
    }

    async fn live_sessions(&self, workspace: &WorkspaceId) -> Result<Vec<SessionId>> {
        self.inner.live_sessions(workspace).await
    }

    async fn turns(&self, session: SessionId, limit: u32) -> Result<Vec<Turn>> {
        self.inner.turns(session, limit).await
    }

    async fn session_snapshot(
        &self,
        session: SessionId,
        limit: u32,
    ) -> Result<Option<SessionSnapshot>> {
        self.inner.session_snapshot(session, limit).await
    }
}

#[async_trait]
impl Messages for Flaky {
    async fn message(&self, id: MessageId) -> Result<Option<Message>> {
        self.inner.message(id).await
    }

    async fn message_by_client_key(
        &self,
        session: SessionId,
        key: &str,
    ) -> Result<Option<Message>> {
        self.inner.message_by_client_key(session, key).await
    }

    async fn messages(&self, session: SessionId, page: &Request) -> Result<Page<Message>> {
        self.inner.messages(session, page).await
    }

    async fn said_last(&self, session: SessionId, run: u32, bytes: u64) -> Result<Vec<Message>> {
        self.inner.said_last(session, run, bytes).await
    }
}

#[async_trait]
impl Tasks for Flaky {
    async fn task(&self, id: TaskId) -> Result<Option<Task>> {
        self.inner.task(id).await
    }

    async fn tasks_by_prefix(
        &self,
        workspace: &WorkspaceId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<TaskId>> {
        self.inner.tasks_by_prefix(workspace, prefix, limit).await
    }

    async fn task_by_client_key(&self, workspace: &WorkspaceId, key: &str) -> Result<Option<Task>> {
        self.inner.task_by_client_key(workspace, key).await
    }

    async fn tasks(
        &self,
        workspace: &WorkspaceId,
        phase: Option<&Phase>,
        page: &Request,
    ) -> Result<Page<Task>> {
        self.inner.tasks(workspace, phase, page).await
    }
}

#[async_trait]
impl Hosts for Flaky {
    async fn hosts(&self) -> Result<Vec<Host>> {
        self.inner.hosts().await
    }

    async fn host(&self, id: HostId) -> Result<Option<Host>> {
        self.inner.host(id).await
    }

    async fn host_by_name(&self, name: &str) -> Result<Option<Host>> {
        self.inner.host_by_name(name).await
    }
}

#[async_trait]
impl Outbox for Flaky {
    async fn outbox(&self, workspace: &WorkspaceId, after: u64, limit: u32) -> Result<Batch> {
        self.inner.outbox(workspace, after, limit).await
    }

    async fn bounds(&self, workspace: &WorkspaceId) -> Result<Bounds> {
        self.inner.bounds(workspace).await
    }

    fn heads(&self, workspace: &WorkspaceId) -> watch::Receiver<u64> {
        self.inner.heads(workspace)
    }

    async fn prune(&self, workspace: &WorkspaceId, keep: Keep) -> Result<u64> {
        self.inner.prune(workspace, keep).await
    }

    async fn snapshot(
        &self,
        workspace: &WorkspaceId,
        from: Option<&SnapshotKey>,
        limit: u32,
    ) -> Result<SnapshotPage> {
        self.inner.snapshot(workspace, from, limit).await
    }
}
