//! The first stage of a keeper's start, as its starter sees it.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use muster_proto::keeper::{RunSpec, SpawnResult};

use super::frame;

/// How a keeper is started: this program itself, unless a test says otherwise.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    env: Vec<(OsString, OsString)>,
}

impl Default for Launcher {
    fn default() -> Self {
        // The file may be replaced by an upgrade while this process runs; this name still
        // means the program that runs.
        Self::of("/proc/self/exe")
    }
}

impl Launcher {
    /// An executable whose `main` calls [`super::dispatch`] first.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            env: Vec::new(),
        }
    }

    /// Adds a variable to the keeper's own environment, which is empty otherwise. The
    /// program never sees it.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts a keeper that starts the program. Blocks until the keeper answered, for as
    /// long as that takes: callers put a deadline around it.
    ///
    /// # Errors
    /// The keeper could not be started, or died before it answered: whether the program was
    /// started is then not known, and the run folder tells.
    pub fn start(&self, spec: &RunSpec) -> io::Result<SpawnResult> {
        self.run(&[], Some(spec))
    }

    /// Starts a keeper that adopts the living program of a run folder. Blocks like
    /// [`Launcher::start`].
    ///
    /// # Errors
    /// The keeper could not be started, or died before it answered.
    pub fn adopt(&self, run_dir: &Path) -> io::Result<SpawnResult> {
        self.run(&["--adopt".into(), run_dir.into()], None)
    }

    fn run(&self, args: &[OsString], spec: Option<&RunSpec>) -> io::Result<SpawnResult> {
        let mut child = self.command(args).spawn()?;
        let answered = converse(child.stdin.take(), child.stdout.take(), spec);
        let said = stage1_ended(child);
        answered.map_err(|error| match said {
            Ok(said) if !said.is_empty() => io::Error::new(error.kind(), said),
            _ => error,
        })
    }

    fn command(&self, args: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(super::SUBCOMMAND).arg(super::STAGE1).args(args);
        // No marker and no secret: the keeper is no part of the session it keeps.
        command.env_clear().envs(self.env.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).current_dir("/");
        command
    }
}

/// Hands the spec over and waits for the one answer.
fn converse(
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    spec: Option<&RunSpec>,
) -> io::Result<SpawnResult> {
    let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) else {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe));
    };
    if let Some(spec) = spec {
        stdin.write_all(&frame::encode(spec))?;
    }
    drop(stdin);
    frame::read_one(&mut stdout)
}

/// Waits for stage one, which ends at once, and for what it or the keeper complained about
/// before the keeper let go of its stderr.
fn stage1_ended(mut child: Child) -> io::Result<String> {
    muster_runtime::process::reap(&mut child)?;
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(4096).read_to_end(&mut said)?;
    }
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}
