//! A home of its own for one test, and what is run in it.

use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Nothing here is about speed, and the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(60);

/// Ends the coordinator and the agent that it has started, however the test ends.
pub(crate) struct World(TempDir);

impl World {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command, with nothing of this process's environment.
    pub(crate) fn muster(&self, args: &[&str]) -> Command {
        self.command(env!("CARGO_BIN_EXE_muster"), args)
    }

    /// Any command, with nothing of this process's environment.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("MUSTER_HOME", self.path().join("data"))
            .env("MUSTER_AGENT_HOME", self.path().join("agent"))
            .env("MUSTER_AGENT_DISK_FLOOR_BYTES", "0")
            .env("MUSTER_AGENT_DISK_FLOOR_PERCENT", "0")
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended(self.muster(args).output().unwrap())
    }

    /// Starts it with its outputs piped.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.muster(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let folder = self.path().join("agent");
        let _ = self.muster(&["down", "--sessions", "--agent"]).output();
        // The agent answers before it is gone; the folder must not vanish under it.
        let until = now() + DEADLINE;
        while folder.join("agent.sock").exists() && now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Waits until `child` ends.
pub(crate) fn finish(mut child: Child) -> Ended {
    let until = now() + DEADLINE;
    while child.try_wait().unwrap().is_none() {
        if now() > until {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ended(child.wait_with_output().unwrap())
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests wait in real time, for other processes"
)]
fn now() -> Instant {
    Instant::now()
}

/// What a command said.
pub(crate) struct Ended(Output);

impl Ended {
    /// Runs it to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self(command.output().unwrap())
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        let (out, error) = (self.out(), self.error());
        assert_eq!(self.0.status.code(), Some(code), "{out}\n{error}");
        self
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn error(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}
