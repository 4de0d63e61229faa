//! Commands of a world: how they are started, waited for, and judged.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::wait::{DEADLINE, eventually, now, within};
use crate::world::World;

/// A command of a world, not started yet.
#[derive(Debug)]
pub struct Invocation<'w> {
    world: &'w World,
    command: Command,
    shown: String,
    limit: Duration,
}

impl<'w> Invocation<'w> {
    pub(crate) fn new(world: &'w World, program: &str, args: Vec<OsString>) -> Self {
        let mut shown: String = Path::new(program)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for arg in &args {
            let arg: String = arg.to_string_lossy().chars().take(80).collect();
            shown.push_str(&format!(" {arg:?}"));
        }
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(world.env())
            .current_dir(world.home());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self {
            world,
            command,
            shown,
            limit: DEADLINE * 2,
        }
    }

    /// Adds a variable for this command alone.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it elsewhere than in the home.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Gives it up later, or sooner, than two deadlines.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it to its end, and to the end of its output: a daemon that keeps the pipe open fails the test, since it
    /// would hang `$(muster …)` as well.
    ///
    /// # Panics
    /// When it does not start or does not end.
    #[track_caller]
    pub fn output(self) -> Outcome {
        let limit = self.limit;
        self.start().finish(limit)
    }

    /// Starts it and lets it run.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(mut self) -> Running<'w> {
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", self.shown));
        let stdout = Collector::new(child.stdout.take().expect("stdout is piped"));
        let stderr = Collector::new(child.stderr.take().expect("stderr is piped"));
        Running {
            world: self.world,
            child,
            shown: self.shown,
            stdout,
            stderr,
        }
    }

    /// Starts it with the caller reading its standard output: for output too large to keep.
    ///
    /// # Panics
    /// When it does not start.
    pub fn stream(mut self) -> (Child, std::process::ChildStdout) {
        self.command.stderr(Stdio::null());
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", self.shown));
        let stdout = child.stdout.take().expect("stdout is piped");
        (child, stdout)
    }
}

/// Reads a pipe to its end in a thread of its own.
#[derive(Debug)]
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Collector {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(size @ 1..) = pipe.read(&mut buffer) {
                shared
                    .lock()
                    .expect("no reader panics")
                    .extend_from_slice(&buffer[..size]);
            }
        });
        Self { bytes, thread }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().expect("no reader panics").clone()
    }
}

/// A command of a world that runs. Dropping it kills the command itself, not what it started.
#[derive(Debug)]
pub struct Running<'w> {
    world: &'w World,
    child: Child,
    shown: String,
    stdout: Collector,
    stderr: Collector,
}

impl Running<'_> {
    /// Its process id.
    ///
    /// # Panics
    /// Never: process ids are positive and fit.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids fit into 31 bits")
    }

    /// What it has printed until now.
    #[must_use]
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.stdout.so_far()).into_owned()
    }

    /// What it has said on standard error until now.
    #[must_use]
    pub fn complained(&self) -> String {
        String::from_utf8_lossy(&self.stderr.so_far()).into_owned()
    }

    /// Waits until `text` stands in its output.
    ///
    /// # Panics
    /// When it never does.
    #[track_caller]
    pub fn await_output(&self, text: &str) {
        eventually(&format!("{} prints {text:?}", self.shown), || {
            self.printed().contains(text).then_some(())
        });
    }

    /// Waits until `text` stands in what it says on standard error.
    ///
    /// # Panics
    /// When it never does.
    #[track_caller]
    pub fn await_complaint(&self, text: &str) {
        eventually(&format!("{} says {text:?}", self.shown), || {
            self.complained().contains(text).then_some(())
        });
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// When the system does not say.
    pub fn has_ended(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("ask for an own child")
            .is_some()
    }

    /// Sends a signal to the command itself.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("an own child that was not waited for");
    }

    /// Waits for its end and the end of its output.
    ///
    /// # Panics
    /// When either does not come within `limit`.
    #[track_caller]
    pub fn finish(mut self, limit: Duration) -> Outcome {
        let start = now();
        let status = within(limit, || {
            self.child.try_wait().expect("ask for an own child")
        });
        let closed = |limit| {
            let done = || {
                (self.stdout.thread.is_finished() && self.stderr.thread.is_finished()).then_some(())
            };
            within(limit, done).is_some()
        };
        let closed = status.is_some() && closed(Duration::from_secs(20));
        let outcome = Outcome::new(
            &self.shown,
            status,
            self.stdout.so_far(),
            &self.stderr.so_far(),
        );
        self.world
            .note(format!("{outcome} after {:?}", start.elapsed()));
        assert!(status.is_some(), "did not end within {limit:?}: {outcome}");
        assert!(
            closed,
            "ended, but something that it started holds its output open: {outcome}"
        );
        outcome
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a command ended and what it said.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command, for messages.
    pub shown: String,
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Outcome {
    fn new(shown: &str, status: Option<ExitStatus>, stdout: Vec<u8>, stderr: &[u8]) -> Self {
        Self {
            shown: shown.to_owned(),
            code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            stdout,
            stderr: String::from_utf8_lossy(stderr).into_owned(),
        }
    }

    #[track_caller]
    fn demanded(self, code: i32) -> Self {
        assert!(
            self.code == Some(code),
            "exit code {code} was expected: {self}"
        );
        self
    }

    /// Demands exit code 0.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.demanded(0)
    }

    /// Demands this exit code.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        self.demanded(code)
    }

    /// Demands that standard error contains `text`.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.stderr.contains(text),
            "{text:?} was expected on standard error: {self}"
        );
        self
    }

    /// Standard output as text without the last newline.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout)
            .trim_end_matches('\n')
            .to_owned()
    }

    /// Standard output as one JSON document.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {self}"))
    }

    /// Standard output as one JSON document a line.
    ///
    /// # Panics
    /// When a line is none.
    #[must_use]
    #[track_caller]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let text = self.text();
        let parse = |line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON ({error}): {line:?}"))
        };
        text.lines().map(parse).collect()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ended = match (self.code, self.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "still runs".to_owned(),
        };
        let cut = |text: &str| -> String { text.chars().take(1_500).collect() };
        write!(f, "{} -> {ended}", self.shown)?;
        if !self.stdout.is_empty() {
            write!(
                f,
                "\n    out: {}",
                cut(&String::from_utf8_lossy(&self.stdout)).replace('\n', "\n         ")
            )?;
        }
        if !self.stderr.is_empty() {
            write!(
                f,
                "\n    err: {}",
                cut(&self.stderr).replace('\n', "\n         ")
            )?;
        }
        Ok(())
    }
}
