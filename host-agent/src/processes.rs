//! Runs on this host: started under keepers, told from their folders, watched, ended.
//!
//! Nothing about a run is kept here that its folder does not say: an agent that starts anew
//! finds all of it again (H12). The folder and the keeper decide; this module asks them.

mod ending;
mod facts;
mod folderless;
mod start;
mod stdin;
mod supervise;
mod watch;

pub(crate) use stdin::Input;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use muster_domain::{Fault, Reason, limits};
use muster_proto::agent::{
    DeliveryEnded, FindProcessesResponse, FoundProcess, ListRunsRequest, ListRunsResponse,
    ProcessIdentity, RunFacts, RunState,
};
use muster_runtime::{Clock, Tasks};
use tokio::sync::{Semaphore, broadcast};
use uuid::Uuid;

use crate::{
    files::Roots,
    host::DiskFloor,
    keeper_client::Launcher,
    proc,
    run_dir::{ExitLook, Home, RunDir, RunKey},
    spawn::LoginEnv,
};

/// Events that wait for one watcher; one that falls behind further begins anew.
const WATCH_CAPACITY: usize = 1_024;
const PAGE_DEFAULT: u32 = 500;
const PAGE_MAX: u32 = 2_000;

/// What it takes to run programs.
#[derive(Debug)]
pub(crate) struct ProcessesConfig {
    pub(crate) home: Home,
    pub(crate) boot_id: String,
    pub(crate) user_home: PathBuf,
    pub(crate) roots: Arc<Roots>,
    pub(crate) launcher: Launcher,
    pub(crate) disk_floor: DiskFloor,
    /// Soft and hard limit of open files that programs get: those that the agent found.
    pub(crate) open_files: (u64, u64),
}

/// All runs of the host. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ProcessesConfig,
    login: LoginEnv,
    clock: Clock,
    tasks: Tasks,
    events: broadcast::Sender<Arc<RunEvent>>,
    /// One start at a time per session.
    starts: Mutex<HashMap<Uuid, Arc<tokio::sync::Mutex<()>>>>,
    supervised: Mutex<HashSet<RunKey>>,
    /// Runs without a folder whose processes are being ended.
    ladders: Mutex<HashSet<RunKey>>,
    deliveries: Semaphore,
}

/// What watchers are told.
#[derive(Debug)]
enum RunEvent {
    Facts(Box<RunFacts>),
    DeliveryEnded(DeliveryEnded),
}

impl Processes {
    /// Takes up every run that has not ended. Reads the folders: blocking.
    ///
    /// # Errors
    /// The folders cannot be read: nothing may be concluded then.
    pub(crate) fn open(
        config: ProcessesConfig,
        clock: Clock,
        tasks: &Tasks,
    ) -> std::io::Result<Self> {
        let scan = config.home.scan()?;
        for foreign in &scan.foreign {
            tracing::warn!(path = %foreign.display(), "no session or run of ours: left alone");
        }
        let processes = Self {
            inner: Arc::new(Inner {
                login: LoginEnv::new(config.user_home.clone(), tasks.clone()),
                config,
                clock,
                tasks: tasks.clone(),
                events: broadcast::Sender::new(WATCH_CAPACITY),
                starts: Mutex::default(),
                supervised: Mutex::default(),
                ladders: Mutex::default(),
                deliveries: Semaphore::new(limits::DELIVERIES_AT_ONCE),
            }),
        };
        for key in scan.runs {
            let dir = processes.home().open_run(key)?;
            // What has ended needs nobody, but for its survivors; watchers read it from its
            // folder.
            if dir.is_some_and(|dir| !is_settled(&dir)) {
                processes.supervise(key, None);
            }
        }
        Ok(processes)
    }

    pub(crate) fn home(&self) -> &Home {
        &self.inner.config.home
    }

    /// Facts of one run. Where its folder is gone, its processes are looked for: by marker,
    /// and the one that was `told` of it by identity. Blocking.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND` when there is neither a folder nor a process; `INTERNAL` when that
    /// cannot be seen.
    pub(crate) fn get(
        &self,
        key: RunKey,
        told: Option<&ProcessIdentity>,
    ) -> Result<RunFacts, Fault> {
        let boot = &self.inner.config.boot_id;
        let failed = |error: std::io::Error| broken(key, &error);
        if let Some(dir) = self.home().open_run(key).map_err(failed)? {
            let facts = facts::read(&dir, key, boot).map_err(failed)?;
            // It may have been read while somebody removed it.
            let removed = facts.state() == RunState::NeverStarted
                && self.home().open_run(key).map_err(failed)?.is_none();
            if !removed {
                return Ok(facts);
            }
        }
        let facts = facts::without_folder(key, boot, told).map_err(failed)?;
        facts.ok_or_else(|| no_run(key))
    }

    /// As [`Processes::get`] for the coordinator, which may be the only one that knows of a
    /// run without a folder: it is watched from now on.
    pub(crate) fn look_up(
        &self,
        key: RunKey,
        told: Option<&ProcessIdentity>,
    ) -> Result<RunFacts, Fault> {
        let facts = self.get(key, told)?;
        if facts.folder_missing {
            self.supervise(key, facts.process.clone());
        }
        Ok(facts)
    }

    /// One page of runs. Blocking.
    pub(crate) fn list(&self, request: &ListRunsRequest) -> Result<ListRunsResponse, Fault> {
        let after = parse_token(&request.page_token)?;
        let size = match request.page_size {
            0 => PAGE_DEFAULT,
            size => size.min(PAGE_MAX),
        } as usize;
        let keys = if request.session_id.is_empty() {
            self.home().scan().map(|scan| scan.runs)
        } else {
            let session: muster_domain::SessionId =
                muster_proto::convert::id::id("session_id", &request.session_id)?;
            self.home().runs_of(session.as_uuid())
        };
        let mut keys = keys.map_err(Fault::internal)?;
        keys.retain(|key| after.is_none_or(|after| *key > after));
        let more = keys.len() > size;
        keys.truncate(size);
        let next_page_token = match keys.last() {
            Some(last) if more => format!("{}/{}", last.session.hyphenated(), last.run),
            _ => String::new(),
        };
        let runs = keys
            .into_iter()
            .filter_map(|key| match self.get(key, None) {
                Err(fault) if fault.reason() == Reason::RunNotFound => None,
                facts => Some(facts),
            });
        Ok(ListRunsResponse {
            runs: runs.collect::<Result<_, _>>()?,
            next_page_token,
        })
    }

    /// Processes that carry a session's marker. Blocking.
    pub(crate) fn find(&self, session: Uuid) -> Result<FindProcessesResponse, Fault> {
        let session = session.hyphenated().to_string();
        let found = proc::find_marked(&session, None).map_err(Fault::internal)?;
        let processes = found.into_iter().map(|found| FoundProcess {
            identity: Some(facts::identity(&self.inner.config.boot_id, found.identity)),
            run: found.run,
            name: found.name,
        });
        Ok(FindProcessesResponse {
            processes: processes.collect(),
        })
    }

    fn run(&self, key: RunKey) -> Result<RunDir, Fault> {
        let dir = self
            .home()
            .open_run(key)
            .map_err(|error| broken(key, &error))?;
        dir.ok_or_else(|| no_run(key))
    }

    /// As [`Processes::run`], off the runtime's threads.
    async fn run_dir(&self, key: RunKey) -> Result<Arc<RunDir>, Fault> {
        self.blocking(move |this| this.run(key).map(Arc::new)).await
    }

    /// As [`Processes::get`], off the runtime's threads.
    async fn facts(&self, key: RunKey) -> Result<RunFacts, Fault> {
        self.blocking(move |this| this.get(key, None)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let this = self.clone();
        let done = self
            .inner
            .tasks
            .spawn_blocking("run folder", move || work(&this));
        done.await.map_err(Fault::internal)?
    }

    fn publish(&self, event: RunEvent) {
        // Without a watcher the event is not wanted: the next one begins with a snapshot.
        let _ = self.inner.events.send(Arc::new(event));
    }
}

impl Inner {
    fn starts(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<tokio::sync::Mutex<()>>>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ladders(&self) -> MutexGuard<'_, HashSet<RunKey>> {
        self.ladders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn supervised(&self) -> MutexGuard<'_, HashSet<RunKey>> {
        self.supervised
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing of this run can change any more. What cannot be read may.
fn is_settled(dir: &RunDir) -> bool {
    match dir.look_at_exit() {
        Ok(ExitLook::Recorded(exit)) => exit.survivors.is_empty(),
        Ok(ExitLook::Missing | ExitLook::Damaged) | Err(_) => false,
    }
}

fn no_run(key: RunKey) -> Fault {
    let why = format!("session {} has no run {} here", key.session, key.run);
    Fault::new(Reason::RunNotFound, why)
}

fn broken(key: RunKey, error: &std::io::Error) -> Fault {
    Fault::internal(format!("run {} of {}: {error}", key.run, key.session))
}

fn parse_token(token: &str) -> Result<Option<RunKey>, Fault> {
    if token.is_empty() {
        return Ok(None);
    }
    let parse = || {
        let (session, run) = token.split_once('/')?;
        Some(RunKey {
            session: Uuid::try_parse(session).ok()?,
            run: run.parse().ok()?,
        })
    };
    let bad = || Fault::new(Reason::BadPageToken, "the page token is not one of ours");
    parse().map(Some).ok_or_else(bad)
}
