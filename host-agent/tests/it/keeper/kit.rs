//! A private run folder with whatever runs in it; everything ends with it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use muster_host_agent::{
    keeper::Launcher,
    keeper_client::KeeperClient,
    proc::{Identity, boot_id, find_marked, signal_identity, signal_of},
    run_dir::{ExitRecord, Home, JournalRecord, RunDir, RunKey, read_journal},
};
use muster_proto::keeper::{
    self as wire, Deliver, EnvVar, Outcome, RunSpec, SpawnFailure, SpawnResult, Status, StdinMode,
    deliver::Payload, spawn_result,
};
use uuid::Uuid;

/// Every wait of these tests: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_muster-agent")
}

pub(crate) struct Run {
    pub(crate) home: tempfile::TempDir,
    pub(crate) session: String,
    pub(crate) dir: RunDir,
    pub(crate) spec: RunSpec,
    pub(crate) keepers: Vec<Identity>,
}

impl Run {
    /// A shell script, not started yet.
    pub(crate) fn script(mode: StdinMode, script: &str) -> Self {
        Self::argv(mode, &["sh", "-c", script])
    }

    pub(crate) fn argv(mode: StdinMode, argv: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_owned();
        Self::below(home, &path, mode, argv)
    }

    pub(crate) fn below(
        home: tempfile::TempDir,
        agent_home: &Path,
        mode: StdinMode,
        argv: &[&str],
    ) -> Self {
        let session = Uuid::new_v4();
        let dir = Home::new(agent_home)
            .create_run(RunKey { session, run: 1 })
            .unwrap();
        let session = session.hyphenated().to_string();
        let variable = |name: &str, value: String| EnvVar {
            name: name.into(),
            value: value.into(),
        };
        let spec = RunSpec {
            session_id: session.clone(),
            run: 1,
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            cwd: home.path().to_str().unwrap().to_owned(),
            env: vec![variable("PATH", std::env::var("PATH").unwrap())],
            stdin_mode: mode.into(),
            run_dir: dir.path().to_str().unwrap().to_owned(),
            ..RunSpec::default()
        };
        Self {
            home,
            session,
            dir,
            spec,
            keepers: Vec::new(),
        }
    }

    pub(crate) fn try_start(&mut self) -> Result<Status, SpawnFailure> {
        self.start_with(&Launcher::of(binary())).unwrap()
    }

    pub(crate) fn start_with(
        &mut self,
        launcher: &Launcher,
    ) -> std::io::Result<Result<Status, SpawnFailure>> {
        let result = launcher.start(&self.spec)?;
        Ok(self.note(result))
    }

    fn note(&mut self, result: SpawnResult) -> Result<Status, SpawnFailure> {
        match result.result.unwrap() {
            spawn_result::Result::Started(status) => {
                self.keepers.push(status.keeper.unwrap().into());
                Ok(status)
            }
            spawn_result::Result::Failure(failure) => Err(failure),
        }
    }

    pub(crate) fn start(&mut self) -> Status {
        self.try_start().unwrap()
    }

    pub(crate) fn adopt(&mut self) -> Result<Status, SpawnFailure> {
        let result = Launcher::of(binary()).adopt(self.dir.path()).unwrap();
        self.note(result)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) async fn client(&self) -> KeeperClient {
        KeeperClient::connect(&self.dir, PATIENCE).await.unwrap()
    }

    pub(crate) async fn deliver(&self, id: &str, text: &str) -> Outcome {
        let call = inline(id, text, 2_000);
        let client = self.client().await;
        client.deliver(call, PATIENCE).await.unwrap()
    }

    pub(crate) async fn status(&self) -> Status {
        self.client().await.status(PATIENCE).await.unwrap()
    }

    pub(crate) async fn stop(&self, rungs: Vec<wire::Rung>) -> wire::StopStarted {
        let stop = wire::Stop {
            stop_id: "stop".into(),
            rungs,
            requested: true,
        };
        self.client().await.stop(stop, PATIENCE).await.unwrap()
    }

    pub(crate) async fn exit(&self) -> ExitRecord {
        eventually("exit.json", || self.dir.exit().unwrap()).await
    }

    /// Waits until the stream contains `text`.
    pub(crate) async fn says(&self, text: &str) {
        eventually(text, || {
            self.text("stream.jsonl").contains(text).then_some(())
        })
        .await;
    }

    pub(crate) fn journal(&self) -> Vec<JournalRecord> {
        let mut records = Vec::new();
        read_journal(&self.dir, |_, record| records.push(record)).unwrap();
        records
    }

    /// SIGKILL to exactly one process, and until it is gone.
    pub(crate) async fn kill(&self, identity: Identity) {
        kill(identity);
        eventually("the end of a killed process", || {
            (!identity.is_alive().unwrap()).then_some(())
        })
        .await;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for keeper in &self.keepers {
            kill(*keeper);
        }
        let record = self.dir.proc().ok().flatten();
        if let Some(record) = record {
            kill(record.keeper);
            kill(record.process);
        }
        for found in find_marked(&self.session, None).unwrap_or_default() {
            kill(found.identity);
        }
    }
}

fn kill(identity: Identity) {
    let boot = boot_id().unwrap();
    let _ = signal_identity(&boot, identity, signal_of(9).unwrap());
}

pub(crate) fn inline(id: &str, text: &str, wait_ms: u32) -> Deliver {
    Deliver {
        delivery_id: id.into(),
        payload: Some(Payload::Inline(text.to_owned().into())),
        wait_ms,
        single_line: false,
    }
}

pub(crate) fn signal_rung(signal: i32, wait_ms: u32) -> wire::Rung {
    wire::Rung {
        action: Some(wire::rung::Action::Signal(signal)),
        wait_ms,
    }
}

/// Asks again and again, with patience.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    match waited.await {
        Ok(found) => found,
        Err(_) => panic!("waited in vain for {what}"),
    }
}
