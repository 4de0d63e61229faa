//! The agent as a server: one per user and home, on a Unix socket that only its user reaches.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use muster_domain::Timestamp;
use muster_runtime::{
    Clock, ServerBuilder, ServerWindows, Tasks,
    lock::LockFile,
    server::{PeerListener, PeerPolicy},
    socket,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    files::{Roots, RootsConfig},
    host::{Audit, DiskFloor, Epochs, HostFacts},
    keeper_client::Launcher,
    pipes::Pipes,
    proc,
    processes::{Processes, ProcessesConfig},
    rpc::{Services, Shared},
    run_dir::Home,
    tails::Tails,
};

/// How long running calls may end after the agent was told to. Streams end at once.
const DRAIN: Duration = Duration::from_secs(5);

/// What an agent serves. Paths are absolute.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The agent's own folder, 0700; made when missing.
    pub home: PathBuf,
    /// Where it listens.
    pub socket: PathBuf,
    /// What `~` means.
    pub user_home: PathBuf,
    /// Further folders that clients may read below.
    pub roots: Vec<PathBuf>,
    /// Folders that are neither read nor written.
    pub hidden: Vec<PathBuf>,
    /// Folders that are never written.
    pub protected: Vec<PathBuf>,
    /// Whether root may connect to the agent of another user.
    pub allow_root: bool,
    /// Free space below which no program is started, in bytes and in percent of the disk.
    pub disk_floor: (u64, u64),
    /// How keepers are started.
    pub launcher: Launcher,
}

/// An agent that is about to serve: it has its lock and its socket.
#[derive(Debug)]
pub struct Agent {
    services: Services,
    listener: PeerListener,
    tasks: Tasks,
    _socket: socket::SocketGuard,
    _lock: LockFile,
}

impl Agent {
    /// Takes the lock of the home, reads what earlier agents left, and listens.
    ///
    /// # Errors
    /// [`muster_runtime::lock::LockError::Locked`] at the root of the error when another agent
    /// serves this home; anything else that keeps this one from serving.
    pub async fn open(config: AgentConfig, clock: Clock, tasks: &Tasks) -> anyhow::Result<Self> {
        let prepared = {
            let (config, clock, tasks) = (config.clone(), clock.clone(), tasks.clone());
            let prepare = move || prepare(&config, clock, &tasks);
            tasks_blocking(prepare).await??
        };
        let (services, lock) = prepared;
        let (listener, guard) = socket::bind(&config.socket).await.context("listen")?;
        let policy = PeerPolicy {
            allow_root: config.allow_root,
            ..PeerPolicy::own_user()
        };
        Ok(Self {
            services,
            listener: PeerListener::new(listener, policy),
            tasks: tasks.clone(),
            _socket: guard,
            _lock: lock,
        })
    }

    /// Serves until the group's token is cancelled; then streams end with `MOVED`, running
    /// calls get 5 s, and the sessions go on.
    ///
    /// # Errors
    /// The server cannot go on.
    pub async fn serve(self) -> anyhow::Result<()> {
        let server = ServerBuilder::new(ServerWindows::default());
        let server = self.services.register(server);
        let health = server.health();
        health.set_serving(true).await;
        let incoming = self.listener.into_incoming();
        server
            .serve(incoming, self.tasks.token(), DRAIN)
            .await
            .context("serve")
    }
}

async fn tasks_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .context("prepare the agent")
}

fn prepare(
    config: &AgentConfig,
    clock: Clock,
    tasks: &Tasks,
) -> anyhow::Result<(Services, LockFile)> {
    muster_runtime::files::private_dir(&config.home).context("the agent's home")?;
    let lock = LockFile::acquire(&config.home.join("lock"))?;
    let open_files = raise_open_files();
    let home = Home::new(&config.home);
    let disk_floor = DiskFloor {
        bytes: config.disk_floor.0,
        percent: config.disk_floor.1,
    };
    let mut hidden = config.hidden.clone();
    hidden.push(config.socket.clone());
    let roots = Arc::new(Roots::open(&RootsConfig {
        user_home: config.user_home.clone(),
        agent_home: config.home.clone(),
        roots: config.roots.clone(),
        hidden,
        protected: config.protected.clone(),
    }));
    let boot_id = proc::boot_id().context("read the boot id")?;
    let processes = Processes::open(
        ProcessesConfig {
            home,
            boot_id: boot_id.clone(),
            user_home: config.user_home.clone(),
            roots: roots.clone(),
            launcher: config.launcher.clone(),
            disk_floor,
            open_files,
        },
        clock.clone(),
        tasks,
    )
    .context("read the session folders")?;
    let shared = Shared {
        tasks: tasks.clone(),
        roots,
        facts: HostFacts {
            instance_id: uuid::Uuid::new_v4().hyphenated().to_string(),
            boot_id,
            started_at: Timestamp::from_micros(clock.now_micros()),
            user_home: config.user_home.clone(),
            agent_home: config.home.clone(),
            disk_floor,
        },
        epochs: Epochs::open(&config.home.join("epoch")).context("read the epoch")?,
        audit: Audit::open(&config.home.join("audit.jsonl")).context("open the audit")?,
        tails: Tails::new(clock.clone(), tasks),
        pipes: Pipes::new(clock.clone()),
        processes,
        clock,
    };
    let services = Services {
        shared: Arc::new(shared),
    };
    Ok((services, lock))
}

/// Many tails need many files: the agent takes what it may have. Gives the limits as they were,
/// which programs get back.
fn raise_open_files() -> (u64, u64) {
    let found = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: found.maximum,
        maximum: found.maximum,
    };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%errno, "the limit of open files stays as it is");
    }
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    (number(found.current), number(found.maximum))
}
