//! The coordinator as a process: what is opened in which order, and what is closed.
//!
//! Start: lock → migrate → listen (not serving yet; reads and messages work) → load sessions,
//! dial hosts → ready, at the latest after five seconds. End: streams end, calls get a few
//! seconds, actors commit what they have in hand, the store is closed, the lock is freed.

mod background;
mod core;
mod error;
mod workstation;

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use muster_domain::WorkspaceId;
use muster_runtime::{
    Clock, Tasks,
    files::private_dir,
    lock::LockFile,
    server::{PeerListener, PeerPolicy},
    socket,
};
use muster_transport::LinkConfig;

use crate::{
    app::About,
    store::{self, SqliteStore},
};

pub use self::core::{Core, CoreParts};
pub use error::StartError;
pub use workstation::Workstation;

/// Where a coordinator lives and what it starts. Paths are absolute.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its data folder, 0700; made when missing.
    pub data_dir: PathBuf,
    /// Home of the workstation's agent.
    pub agent_home: PathBuf,
    /// The executable that carries the agent; `None` = this one.
    pub agent_program: Option<PathBuf>,
    /// Arguments that make it an agent.
    pub agent_args: Vec<OsString>,
    /// What the agent gets in its environment.
    pub agent_env: Vec<(OsString, OsString)>,
    /// Times of links.
    pub link: LinkConfig,
}

impl Config {
    /// Where clients connect.
    pub fn socket(&self) -> PathBuf {
        self.data_dir.join("coordinator.sock")
    }

    /// The same as an address.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// Where the agent listens.
    pub fn agent_socket(&self) -> PathBuf {
        self.agent_home.join("agent.sock")
    }
}

/// Runs a coordinator until `end` is cancelled, here or by a client. `ready` is called once,
/// with the address, when the start is over.
///
/// # Errors
/// [`StartError`]; nothing of another coordinator was touched.
pub async fn run(
    config: Config,
    clock: Clock,
    tasks: &Tasks,
    end: tokio_util::sync::CancellationToken,
    ready: impl FnOnce(&str),
) -> Result<(), StartError> {
    let _lock = lock(&config, tasks).await?;
    let database = config.data_dir.join("muster.db");
    let store = SqliteStore::open(&database, clock.clone()).await?;
    let store: store::Handle = Arc::new(store);
    let ran = Box::pin(run_on(&store, config, clock, tasks, end, ready)).await;
    // Also after a start that came to nothing: the lock is freed only when no write is left.
    store.close().await;
    ran
}

async fn run_on(
    store: &store::Handle,
    config: Config,
    clock: Clock,
    tasks: &Tasks,
    end: tokio_util::sync::CancellationToken,
    ready: impl FnOnce(&str),
) -> Result<(), StartError> {
    let (listener, _socket) = socket::bind(&config.socket()).await?;
    let address = config.address();
    let core = Core::open(CoreParts {
        store: store.clone(),
        clock: clock.clone(),
        tasks: tasks.child("core"),
        workspace: WorkspaceId::main(),
        workstation: Workstation::NAME.to_owned(),
        about: About {
            address: address.clone(),
            database: "sqlite".to_owned(),
            data_dir: config.data_dir.clone(),
        },
        end,
    })
    .await?;
    core.reach(Workstation { config }.host(store, &clock).await?, tasks);
    let incoming = PeerListener::new(listener, PeerPolicy::own_user()).into_incoming();
    let served = Box::pin(core.serve(incoming, || ready(&address))).await;
    core.close().await;
    served
}

async fn lock(config: &Config, tasks: &Tasks) -> Result<LockFile, StartError> {
    let folder = config.data_dir.clone();
    let locked = tasks.spawn_blocking("lock the data folder", move || {
        private_dir(&folder)?;
        Ok(LockFile::acquire(&folder.join("lock"))?)
    });
    locked.await.map_err(|error| StartError::Failed {
        text: error.to_string(),
    })?
}
