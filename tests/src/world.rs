//! A private world for one test: folders, environment, the real binaries, and the end of every process in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::invocation::Invocation;
use crate::processes::{self, Process};
use crate::wait::{DEADLINE, within};

/// The binaries under test, as cargo names them to a test.
#[derive(Clone, Copy, Debug)]
pub struct Binaries {
    /// Carries command line, coordinator, agent and keeper.
    pub muster: &'static str,
    /// The scriptable program (`fake-program`).
    pub program: &'static str,
}

/// One test's own home, data folder and agent folder. Its end kills every process that works below them.
#[derive(Debug)]
pub struct World {
    root: PathBuf,
    binaries: Binaries,
    env: BTreeMap<OsString, OsString>,
    said: Mutex<Vec<String>>,
    /// Removes the folder, after the processes are gone.
    _folder: tempfile::TempDir,
}

impl World {
    /// A world in a fresh temporary folder. Nothing runs in it yet.
    ///
    /// # Panics
    /// When the folder cannot be made.
    #[must_use]
    pub fn new(binaries: Binaries) -> Self {
        Self::with_prefix(binaries, "m-")
    }

    /// The same, with the start of the folder's name given: for long paths.
    ///
    /// # Panics
    /// When the folder cannot be made.
    #[must_use]
    pub fn with_prefix(binaries: Binaries, prefix: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir()
            .expect("make a temporary folder");
        let root = folder
            .path()
            .canonicalize()
            .expect("the folder was just made");
        let mut env = BTreeMap::new();
        for (name, place) in [
            ("HOME", "home"),
            ("MUSTER_HOME", "data"),
            ("MUSTER_AGENT_HOME", "agent"),
        ] {
            env.insert(name.into(), root.join(place).into_os_string());
        }
        for name in ["PATH", "TMPDIR", "LANG", "USER", "LOGNAME", "SHELL"] {
            if let Some(value) = std::env::var_os(name) {
                env.insert(name.into(), value);
            }
        }
        env.insert("RUST_BACKTRACE".into(), "1".into());
        // Tests run on small and on nearly full disks.
        env.insert("MUSTER_AGENT_DISK_FLOOR_BYTES".into(), "0".into());
        env.insert("MUSTER_AGENT_DISK_FLOOR_PERCENT".into(), "0".into());
        fs::create_dir(root.join("home")).expect("make the private home");
        Self {
            root,
            binaries,
            env,
            said: Mutex::default(),
            _folder: folder,
        }
    }

    /// The folder that holds everything.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The user's home in this world: also the working directory of commands.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The coordinator's data folder (`MUSTER_HOME`).
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The agent's folder (`MUSTER_AGENT_HOME`).
    #[must_use]
    pub fn agent(&self) -> PathBuf {
        self.root.join("agent")
    }

    /// A run's folder.
    #[must_use]
    pub fn run_folder(&self, session: &str, run: u32) -> PathBuf {
        self.agent().join(format!("sessions/{session}/runs/{run}"))
    }

    /// The scriptable program's path.
    #[must_use]
    pub fn program(&self) -> &'static str {
        self.binaries.program
    }

    /// Sets a variable for everything that is started from now on.
    pub fn set_env(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.env.insert(name.into(), value.as_ref().to_owned());
    }

    /// A `muster` command, not started yet.
    pub fn muster<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Invocation<'_> {
        self.command(self.binaries.muster, args)
    }

    /// Any command in this world's environment, not started yet.
    pub fn command<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Invocation<'_> {
        let args = args
            .into_iter()
            .map(|arg| arg.as_ref().to_owned())
            .collect();
        Invocation::new(self, program, args)
    }

    /// Starts coordinator and agent in the background and waits until they answer.
    ///
    /// # Panics
    /// When they do not.
    #[track_caller]
    pub fn up(&self) {
        let _ = self.muster(["up", "--detach"]).output().ok();
    }

    /// What `muster ARGS --json` prints: one document.
    ///
    /// # Panics
    /// When the command fails or prints something else.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let mut args = args.to_vec();
        args.push("--json");
        self.muster(args).output().ok().json()
    }

    /// Starts a session in the background and answers its id.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn detached<S: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = S>) -> String {
        let mut args: Vec<OsString> = ["run", "--detach", "--"].map(OsString::from).to_vec();
        args.extend(argv.into_iter().map(|arg| arg.as_ref().to_owned()));
        self.muster(args).output().ok().text()
    }

    /// The session as `session show` prints it.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn session(&self, id: &str) -> serde_json::Value {
        self.json(&["session", "show", id])
    }

    /// Waits until the session has the status.
    ///
    /// # Panics
    /// When it does not get there.
    #[track_caller]
    pub fn await_status(&self, id: &str, status: &str) -> serde_json::Value {
        let mut last = serde_json::Value::Null;
        let found = within(DEADLINE, || {
            last = self.session(id);
            (last["status"] == status).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("session {id} does not become {status}; it is {last}"))
    }

    /// The coordinator's process id, as it says itself; `None` when it does not answer.
    #[must_use]
    pub fn coordinator_pid(&self) -> Option<i32> {
        pid_in(&self.status()?["coordinator"]["pid"])
    }

    /// The workstation's agent's process id; `None` when it is not connected.
    #[must_use]
    pub fn agent_pid(&self) -> Option<i32> {
        pid_in(&self.status()?["hosts"][0]["agent_pid"])
    }

    /// The keeper's process id, from the run's folder: that is written before anything can go wrong.
    #[must_use]
    pub fn keeper_pid(&self, session: &str, run: u32) -> Option<i32> {
        let text = fs::read_to_string(self.run_folder(session, run).join("proc.json")).ok()?;
        let facts: serde_json::Value = serde_json::from_str(&text).ok()?;
        pid_in(&facts["keeper"]["pid"]).or_else(|| pid_in(&facts["keeper_pid"]))
    }

    fn status(&self) -> Option<serde_json::Value> {
        let outcome = self.muster(["status", "--json"]).output();
        (outcome.code == Some(0)).then(|| outcome.json())
    }

    /// Kills one of this world's processes with SIGKILL and waits until it is gone. True when it was there.
    pub fn kill(&self, pid: i32) -> bool {
        processes::kill_and_wait(pid, &self.root)
    }

    /// Every process that works in this world.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        processes::working_in(&self.root)
    }

    pub(crate) fn env(&self) -> &BTreeMap<OsString, OsString> {
        &self.env
    }

    pub(crate) fn note(&self, line: String) {
        self.said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    /// What a reader of a failed test needs: the commands with their outcome, the processes, the ends of the logs.
    fn report(&self) {
        eprintln!("== commands of {}", self.root.display());
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for line in said.iter().skip(said.len().saturating_sub(40)) {
            eprintln!("{line}");
        }
        eprintln!("== processes");
        for process in self.processes() {
            eprintln!("{:>7} {}", process.pid, process.command);
        }
        for folder in [self.data(), self.agent()] {
            print_logs(&folder);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report();
        }
        let left = processes::end_all(&self.root);
        if !left.is_empty() && !std::thread::panicking() {
            panic!("processes of {} do not end: {left:?}", self.root.display());
        }
    }
}

fn pid_in(value: &serde_json::Value) -> Option<i32> {
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    i32::try_from(number).ok().filter(|&pid| pid > 1)
}

fn print_logs(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            print_logs(&path);
        } else if matches!(path.extension().and_then(OsStr::to_str), Some("log")) {
            let bytes = fs::read(&path).unwrap_or_default();
            let tail = &bytes[bytes.len().saturating_sub(6_000)..];
            eprintln!(
                "== end of {}\n{}",
                path.display(),
                String::from_utf8_lossy(tail)
            );
        }
    }
}
