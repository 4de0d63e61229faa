//! Starting a run: everything is checked before anything is made, and nothing is started twice.

use std::{path::Path, sync::Arc, time::Duration};

use muster_domain::{Fault, Reason};
use muster_proto::{
    agent::{RunFacts, RunState, SpawnRequest, SpawnResponse, StdinMode},
    keeper::{self, SpawnFailure, SpawnFailureReason},
};

use super::{
    Processes, RunEvent, broken,
    facts::{START_FAILURE, StartFailure},
};
use crate::{
    keeper_client::{self, StartError},
    run_dir::{META, Meta, RunDir, RunKey, STDERR, StdinKind},
    spawn,
};

const START_DEADLINE: Duration = Duration::from_secs(30);
const STDERR_TAIL_BYTES: u64 = 2 * 1024;

impl Processes {
    /// Starts a run, or says how it is when it was started before. The work goes on when the
    /// future is dropped; asking again with the same key then finds it.
    ///
    /// # Errors
    /// `CWD_MISSING`, `PROGRAM_NOT_FOUND`, `NOT_EXECUTABLE`, `SPAWN_FAILED`, `SESSION_ALIVE`,
    /// `DISK_FULL`, `INVALID`.
    pub(crate) async fn spawn(
        &self,
        key: RunKey,
        request: SpawnRequest,
    ) -> Result<SpawnResponse, Fault> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let this = self.clone();
        self.inner.tasks.spawn("spawn", async move {
            let _ = answer.send(this.spawn_in_turn(key, request).await);
        });
        answered
            .await
            .unwrap_or_else(|_| Err(crate::tails::moved()))
    }

    async fn spawn_in_turn(
        &self,
        key: RunKey,
        request: SpawnRequest,
    ) -> Result<SpawnResponse, Fault> {
        let turn = self.inner.starts().entry(key.session).or_default().clone();
        let result = {
            let _turn = turn.lock().await;
            self.spawn_once(key, request).await
        };
        let mut starts = self.inner.starts();
        // Ours and the table's: nobody waits for this session.
        if Arc::strong_count(&turn) == 2 {
            starts.remove(&key.session);
        }
        result
    }

    async fn spawn_once(&self, key: RunKey, request: SpawnRequest) -> Result<SpawnResponse, Fault> {
        let stdin = stdin_kind(request.stdin_mode())?;
        spawn::check_command(&request.argv, &request.env)?;
        if let Some(facts) = self.blocking(move |this| this.started_before(key)).await? {
            self.supervise(key, None);
            return Ok(SpawnResponse {
                facts: Some(facts),
                replayed: true,
            });
        }
        let cwd = request.cwd.clone();
        let cwd = self.blocking(move |this| this.check_place(&cwd)).await?;
        let env = self.inner.login.for_run(key, &request.env).await;
        let spec = self.spec(key, &request, &cwd, stdin, env);
        let meta = self.meta(&spec, stdin);
        let dir = self.blocking(move |this| this.prepare(key, &meta)).await?;
        let inner = &self.inner;
        let started =
            keeper_client::start(&inner.config.launcher, &inner.tasks, spec, START_DEADLINE).await;
        self.conclude(key, dir, started).await
    }

    /// The run as it is, when there is anything of it; else whether it may be started.
    fn started_before(&self, key: RunKey) -> Result<Option<RunFacts>, Fault> {
        match self.get(key, None) {
            Ok(facts) if facts.state() != RunState::NeverStarted => return Ok(Some(facts)),
            Err(fault) if fault.reason() != Reason::RunNotFound => return Err(fault),
            _ => {}
        }
        for other in self.home().runs_of(key.session).map_err(Fault::internal)? {
            let facts = self.get(other, None)?;
            if matches!(facts.state(), RunState::Alive | RunState::Starting) {
                let why = format!("run {} of session {} lives", other.run, key.session);
                return Err(Fault::new(Reason::SessionAlive, why).with("run", other.run));
            }
        }
        Ok(None)
    }

    /// The working directory, absolute; it need not lie below a root.
    fn check_place(&self, cwd: &str) -> Result<String, Fault> {
        let config = &self.inner.config;
        config.disk_floor.check(config.home.path())?;
        let absolute = config.roots.expand(cwd)?;
        let cwd = absolute.to_string_lossy().into_owned();
        match std::fs::metadata(&absolute) {
            Ok(metadata) if metadata.is_dir() => Ok(cwd),
            Ok(_) => Err(no_cwd(&cwd, "is no folder")),
            Err(error) => Err(no_cwd(&cwd, &error.kind().to_string())),
        }
    }

    fn spec(
        &self,
        key: RunKey,
        request: &SpawnRequest,
        cwd: &str,
        stdin: StdinKind,
        env: Vec<keeper::EnvVar>,
    ) -> keeper::RunSpec {
        let config = &self.inner.config;
        keeper::RunSpec {
            session_id: key.session.hyphenated().to_string(),
            run: key.run,
            argv: request.argv.clone(),
            cwd: cwd.to_owned(),
            env,
            stdin_mode: keeper::StdinMode::from(stdin).into(),
            nofile_soft: config.open_files.0,
            nofile_hard: config.open_files.1,
            run_dir: config.home.run_path(key).to_string_lossy().into_owned(),
        }
    }

    fn meta(&self, spec: &keeper::RunSpec, stdin: StdinKind) -> Meta {
        Meta {
            session_id: spec.session_id.clone(),
            run: spec.run,
            argv: spec.argv.clone(),
            cwd: spec.cwd.clone(),
            env_names: spec.env.iter().map(|var| var.name.clone()).collect(),
            stdin,
            created_at_us: self.inner.clock.now_micros(),
        }
    }

    /// Makes the folder and says in it what is about to be started.
    fn prepare(&self, key: RunKey, meta: &Meta) -> Result<RunDir, Fault> {
        let made = || {
            let dir = self.home().create_run(key)?;
            dir.remove(START_FAILURE)?;
            dir.write(META, meta)?;
            Ok(dir)
        };
        made().map_err(|error: std::io::Error| {
            if crate::run_dir::is_full(&error) {
                return Fault::new(Reason::DiskFull, "the disk of the agent's home is full");
            }
            broken(key, &error)
        })
    }

    async fn conclude(
        &self,
        key: RunKey,
        dir: RunDir,
        started: Result<keeper::Status, StartError>,
    ) -> Result<SpawnResponse, Fault> {
        let (replayed, failure) = match started {
            Ok(_) => (false, None),
            Err(StartError::Refused(failure)) => match failure.reason() {
                SpawnFailureReason::Locked | SpawnFailureReason::StartedBefore => (true, None),
                _ => (false, Some(failure)),
            },
            // The folder says what became of it.
            Err(StartError::Unknown(error)) => (false, Some(unknown(&error))),
        };
        let facts = self.facts(key).await?;
        if facts.state() == RunState::NeverStarted {
            let failure = failure.unwrap_or_default();
            let fault = self.blocking(move |_| Ok(failed(&dir, &failure))).await?;
            let facts = self.facts(key).await?;
            self.publish(RunEvent::Facts(Box::new(facts)));
            return Err(fault);
        }
        self.supervise(key, None);
        Ok(SpawnResponse {
            facts: Some(facts),
            replayed,
        })
    }
}

/// Says and records why a run was not started.
fn failed(dir: &RunDir, failure: &SpawnFailure) -> Fault {
    let reason = match failure.reason() {
        SpawnFailureReason::CwdMissing => Reason::CwdMissing,
        SpawnFailureReason::ProgramNotFound => Reason::ProgramNotFound,
        SpawnFailureReason::NotExecutable => Reason::NotExecutable,
        SpawnFailureReason::DiskFull => Reason::DiskFull,
        _ => Reason::SpawnFailed,
    };
    let text = match failure.message.as_str() {
        "" => "the program was not started",
        text => text,
    };
    let record = StartFailure {
        reason: reason.as_str().to_owned(),
        text: text.to_owned(),
    };
    if let Err(error) = dir.write(START_FAILURE, &record) {
        tracing::warn!(path = %dir.path().display(), %error, "the failed start is not recorded");
    }
    let fault = Fault::new(reason, text);
    match stderr_tail(&dir.path().join(STDERR)) {
        Some(tail) if reason == Reason::SpawnFailed => fault.with("stderr_tail", tail),
        _ => fault,
    }
}

fn stderr_tail(path: &Path) -> Option<String> {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let from = size.saturating_sub(STDERR_TAIL_BYTES);
    let mut tail = vec![0; usize::try_from(size - from).ok()?];
    file.read_exact_at(&mut tail, from).ok()?;
    let tail = String::from_utf8_lossy(&tail).trim().to_owned();
    (!tail.is_empty()).then_some(tail)
}

fn unknown(error: &std::io::Error) -> SpawnFailure {
    SpawnFailure {
        reason: SpawnFailureReason::SpawnFailed.into(),
        message: format!("the keeper gave no answer: {error}"),
    }
}

fn stdin_kind(mode: StdinMode) -> Result<StdinKind, Fault> {
    match mode {
        StdinMode::Held => Ok(StdinKind::Held),
        StdinMode::Closable => Ok(StdinKind::Closable),
        StdinMode::Unspecified => Err(Fault::missing("stdin_mode")),
    }
}

fn no_cwd(cwd: &str, why: &str) -> Fault {
    Fault::new(
        Reason::CwdMissing,
        format!("working directory `{cwd}`: {why}"),
    )
}
