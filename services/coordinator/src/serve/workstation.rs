//! The machine that the coordinator runs on: a host like every other, whose dialler is a
//! Unix socket and whose agent is started where none answers (H1).

use std::{collections::BTreeMap, sync::Arc};

use muster_domain::{
    HostId, Timestamp, WorkspaceId,
    changeset::Changeset,
    feed::{Audience, Change, Event},
    host::{Dialler, Host as Row},
};
use muster_runtime::{Clock, Tasks};
use muster_transport::{LinkConfig, Unix};

use super::{Config, StartError};
use crate::{
    hosts::{HostParts, StartAgent},
    store,
};

/// The workstation's place in the configuration.
#[derive(Debug, Clone)]
pub struct Workstation {
    /// The coordinator's configuration.
    pub config: Config,
}

/// What is to be reached, but for the tasks that own it.
#[derive(Debug)]
pub struct Reachable {
    pub(super) row: Row,
    config: Config,
}

impl Workstation {
    /// Its name.
    pub const NAME: &'static str = "local";

    /// Commits its row, made at the first start, with the next epoch.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn host(self, store: &store::Handle, clock: &Clock) -> Result<Reachable, StartError> {
        let now = Timestamp::from_micros(clock.now_micros());
        let found = store.host_by_name(Self::NAME).await?;
        let mut row = found.unwrap_or_else(|| Row {
            id: HostId::new(uuid::Uuid::now_v7()),
            name: Self::NAME.to_owned(),
            dialler: Dialler::Unix(String::new()),
            epoch: 0,
            boot: None,
            created_at: now,
        });
        // The agent remembers the highest epoch. With a new database beside an old agent
        // counting from one would be refused for ever; the time is ahead of every counter.
        let seconds = u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0);
        row.epoch = (row.epoch + 1).max(seconds);
        let socket = self.config.agent_socket().to_string_lossy().into_owned();
        row.dialler = Dialler::Unix(socket);
        let mut changeset = Changeset::new(WorkspaceId::main());
        changeset.hosts.push(row.clone());
        changeset.events.push(Event {
            audience: Audience::Workspace(None),
            change: Change::Host(row.id),
        });
        for answer in store.commit(vec![changeset]).await {
            answer?;
        }
        Ok(Reachable {
            row,
            config: self.config,
        })
    }
}

impl Reachable {
    pub(super) fn parts(self, coordinator: &str, tasks: &Tasks) -> HostParts {
        let Self { row, config } = self;
        let bootstrap = StartAgent {
            program: config.agent_program.clone(),
            args: config.agent_args.clone(),
            env: config.agent_env.clone(),
            log: config.agent_home.join("agent.log"),
            tasks: tasks.clone(),
        };
        HostParts {
            dial: Arc::new(Unix::new(config.agent_socket())),
            bootstrap: Some(Arc::new(bootstrap)),
            workspace: WorkspaceId::main(),
            coordinator: coordinator.to_owned(),
            spawn_env: BTreeMap::from([("MUSTER_ADDR".to_owned(), config.address())]),
            config: LinkConfig { ..config.link },
            host: row,
        }
    }
}
