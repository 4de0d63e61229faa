//! Rows with what is known beside them.

use std::sync::Arc;

use muster_domain::{
    Fault, Timestamp, host,
    session::{Link, Observed, Process, Source, State},
    task::Phase,
};

use crate::{
    hosts::api::{HostsApi, LinkView},
    sessions::api::SessionsApi,
    store,
};

/// A session as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Its state.
    pub state: State,
    /// Name of its host.
    pub host: String,
    /// The host's link now.
    pub link: Link,
    /// Phase of its task.
    pub task_phase: Option<Phase>,
}

/// Shows rows. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Views {
    store: store::Handle,
    hosts: Arc<dyn HostsApi>,
    sessions: Arc<dyn SessionsApi>,
}

impl Views {
    /// Shows rows of this store.
    pub fn new(
        store: store::Handle,
        hosts: Arc<dyn HostsApi>,
        sessions: Arc<dyn SessionsApi>,
    ) -> Self {
        Self {
            store,
            hosts,
            sessions,
        }
    }

    /// A session with its host's name and its task's phase.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn session(&self, state: State) -> Result<SessionView, Fault> {
        let task_phase = match state.spec.task {
            Some(id) => self.store.task(id).await?.map(|task| task.phase),
            None => None,
        };
        let host = self.hosts.get(state.spec.host);
        Ok(SessionView {
            link: host.map_or(Link::Connecting, |host| host.link().borrow().link),
            host: self.host_name(state.spec.host).await?,
            state,
            task_phase,
        })
    }

    /// The name of a host.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn host_name(&self, id: muster_domain::HostId) -> Result<String, Fault> {
        if let Some(host) = self.hosts.get(id) {
            return Ok(host.name());
        }
        let row = self.store.host(id).await?;
        Ok(row.map_or_else(|| id.to_string(), |row| row.name))
    }

    /// A host with its link as it is now.
    pub fn host(&self, row: host::Host) -> host::View {
        let link = match self.hosts.get(row.id) {
            Some(host) => host.link().borrow().clone(),
            None => LinkView {
                link: Link::Connecting,
                cause: None,
                attempts: 0,
                next_try: None,
                since: row.created_at,
                agent: None,
                connection: 0,
            },
        };
        host::View {
            sessions: self.sessions.count(row.id),
            host: row,
            link: link.link,
            cause: link.cause,
            attempts: link.attempts,
            next_try: link.next_try,
            since: link.since,
            agent: link.agent,
        }
    }
}

/// A session as committed, with what only its actor knows: how the link is, and whether
/// anything can be said of the process. What is not committed is not shown: who sees an end
/// finds everything that was printed before it.
pub fn newest(sessions: &dyn SessionsApi, mut stored: State) -> State {
    let Some(live) = sessions.live(stored.spec.id) else {
        return unattended(stored);
    };
    let live = live.borrow().clone();
    if stored.run.no == live.state.run.no && !is_over(stored.run.process.value) {
        let unknown = |process| matches!(process, Process::Unknown);
        let now = live.state.run.process.value;
        if unknown(now) || (unknown(stored.run.process.value) && !is_over(now)) {
            stored.run.process = live.state.run.process.clone();
        }
    }
    stored.link = live.state.link.clone();
    stored
}

fn is_over(process: Process) -> bool {
    match process {
        Process::Exited | Process::Lost(_) => true,
        Process::Starting | Process::Alive | Process::Unknown => false,
    }
}

/// Nobody looks after this session now (S35): what its row says of a running process is what
/// was so once.
fn unattended(mut state: State) -> State {
    if !is_over(state.run.process.value) {
        let since: Timestamp = state.link.at;
        state.link = Observed::new(Link::Connecting, Source::Link, since, "s35_not_asked");
    }
    state
}
