//! Starting one of our own daemons so that it belongs to nobody.
//!
//! The start has two stages without any unsafe code: the caller runs the executable with a
//! hidden first argument, that stage opens a session of its own, starts the real process and
//! exits, so the daemon is re-parented away and no terminal or process group reaches it.
//! The daemon's standard output is a pipe to the starter until it has announced itself with
//! one line; then it becomes its log.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::{fs::OpenOptionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
};

use crate::{Clock, Tasks};

/// The hidden first argument of stage one.
const STAGE1: &str = "--muster-stage1";
/// Set for a process whose starter waits for its announcement.
const ANNOUNCE: &str = "MUSTER_ANNOUNCE";
const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// A log longer than this is renamed to `<name>.1` before the start.
const LOG_ROTATE_BYTES: u64 = 8 * 1024 * 1024;
/// How much of the log's end is shown when a start fails.
const LOG_TAIL_BYTES: u64 = 4 * 1024;
const LONGEST_ANNOUNCEMENT: usize = 64 * 1024;

/// A daemon to be started.
#[derive(Debug)]
pub struct Detached {
    name: String,
    exe: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    log: PathBuf,
}

/// A daemon that has announced itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its process id.
    pub pid: u32,
    /// What it announced.
    pub text: String,
}

/// A daemon did not come up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It said why.
    #[error("{name} did not start: {text}")]
    Refused {
        /// The daemon's name.
        name: String,
        /// Its own words.
        text: String,
        /// The end of its log.
        log_tail: String,
    },
    /// It ended without a word.
    #[error("{name} ended before it was ready; its log {} ends with:\n{log_tail}", log.display())]
    Died {
        /// The daemon's name.
        name: String,
        /// Where its log is.
        log: PathBuf,
        /// The end of its log.
        log_tail: String,
    },
    /// It said nothing in time. It may still come up.
    #[error("{name} was not ready in {waited:?}; its log {} ends with:\n{log_tail}", log.display())]
    Silent {
        /// The daemon's name.
        name: String,
        /// How long it was waited for.
        waited: Duration,
        /// Where its log is.
        log: PathBuf,
        /// The end of its log.
        log_tail: String,
    },
    /// Its log cannot be written.
    #[error("start {name}: open its log {}", log.display())]
    Log {
        /// The daemon's name.
        name: String,
        /// Where its log should be.
        log: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It could not be started at all.
    #[error("start {name}")]
    Io {
        /// The daemon's name.
        name: String,
        /// The reason.
        source: io::Error,
    },
}

impl Detached {
    /// This program itself, shown as `name` in process lists, with standard error going to
    /// the file `log` (made 0600, rotated above 8 MiB).
    pub fn new(name: impl Into<String>, log: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            exe: PathBuf::from(OWN_EXECUTABLE),
            args: Vec::new(),
            env: Vec::new(),
            log: log.into(),
        }
    }

    /// Another executable instead of this one; it must call [`stage1_main`] first in `main`.
    #[must_use]
    pub fn exe(mut self, exe: impl Into<PathBuf>) -> Self {
        self.exe = exe.into();
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds a variable. Inherited variables that begin with `MUSTER_` are not passed on: a
    /// daemon started inside a session must not look like a part of it.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts the daemon and waits up to `deadline` for its announcement. When the future is
    /// dropped the start goes on.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(self, tasks: &Tasks, deadline: Duration) -> Result<Started, StartError> {
        let name = self.name.clone();
        let work = tasks.spawn_blocking(&format!("start {name}"), move || {
            self.start_blocking(deadline)
        });
        work.await.unwrap_or_else(|error| {
            Err(StartError::Io {
                name,
                source: io::Error::other(error),
            })
        })
    }

    /// As [`Detached::start`], for callers without an async runtime.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start_blocking(self, deadline: Duration) -> Result<Started, StartError> {
        let io = |source| StartError::Io {
            name: self.name.clone(),
            source,
        };
        let log = open_log(&self.log).map_err(|source| StartError::Log {
            name: self.name.clone(),
            log: self.log.clone(),
            source,
        })?;
        let log_start = log.metadata().map_err(io)?.len();
        let mut child = self.command(log).spawn().map_err(io)?;
        let answer = read_announcement(&mut child, deadline);
        reap(&mut child).map_err(io)?;
        let log_tail = || log_tail(&self.log, log_start);
        match answer.map_err(io)? {
            Answer::Ready(started) => Ok(started),
            Answer::Error(text) => Err(StartError::Refused {
                name: self.name.clone(),
                text,
                log_tail: log_tail(),
            }),
            Answer::Closed => Err(StartError::Died {
                name: self.name.clone(),
                log: self.log.clone(),
                log_tail: log_tail(),
            }),
            Answer::Silent => Err(StartError::Silent {
                name: self.name.clone(),
                waited: deadline,
                log: self.log.clone(),
                log_tail: log_tail(),
            }),
        }
    }

    fn command(&self, log: File) -> Command {
        let mut command = Command::new(&self.exe);
        command
            .arg0(&self.name)
            .arg(STAGE1)
            .arg(&self.exe)
            .arg(&self.name)
            .args(&self.args)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        for (name, _) in std::env::vars_os() {
            // A fail point is meant for the whole chain of processes that a test starts.
            let armed = cfg!(feature = "failpoints") && name == "MUSTER_FAILPOINT";
            if name.as_encoded_bytes().starts_with(b"MUSTER_") && !armed {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.env(ANNOUNCE, "1");
        command
    }
}

/// Stage one of a detached start, called first in the `main` of every executable that
/// [`Detached`] starts: gives `None` when the arguments (the program's name first) are not
/// its own, else does its work and gives the exit code to return from `main`.
pub fn stage1_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != STAGE1 {
        return None;
    }
    let (Some(exe), Some(name)) = (args.next(), args.next()) else {
        return Some(ExitCode::from(64));
    };
    match stage1(&exe, &name, args) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            // The starter reads this as the daemon's own announcement.
            let line = announcement("error", &format!("start stage two: {error}"));
            let _ = io::stdout().write_all(line.as_bytes());
            Some(ExitCode::FAILURE)
        }
    }
}

fn stage1(exe: &OsStr, name: &OsStr, args: impl Iterator<Item = OsString>) -> io::Result<()> {
    rustix::process::setsid()?;
    Command::new(exe).arg0(name).args(args).spawn()?;
    Ok(())
}

/// Waits for a stage one, which ends as soon as it has started what it is for. Where this process
/// was started with SIGCHLD ignored, as some supervisors do, the kernel has reaped it already.
///
/// # Errors
/// As the kernel gives them.
pub fn reap(stage1: &mut Child) -> io::Result<()> {
    match stage1.wait() {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::CHILD.raw_os_error()) => {
            Ok(())
        }
        ended => ended.map(drop),
    }
}

static ANNOUNCED: AtomicBool = AtomicBool::new(false);

/// Tells the starter that the daemon is ready, with a text for it (an address), and turns
/// standard output into the log. Does nothing when nobody waits (a start in the foreground)
/// or when an announcement was made before.
///
/// # Errors
/// When standard output cannot be redirected. That the starter has gone is no error.
pub fn announce_ready(text: &str) -> io::Result<()> {
    announce("ready", &format!("{} {text}", std::process::id()))
}

/// Tells the starter why the daemon cannot start. As [`announce_ready`] otherwise.
///
/// # Errors
/// As [`announce_ready`].
pub fn announce_error(text: &str) -> io::Result<()> {
    announce("error", text)
}

fn announce(kind: &str, text: &str) -> io::Result<()> {
    if std::env::var_os(ANNOUNCE).is_none() || ANNOUNCED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    let sent = stdout
        .write_all(announcement(kind, text).as_bytes())
        .and_then(|()| stdout.flush());
    if let Err(error) = sent {
        tracing::debug!(%error, "the starter has gone");
    }
    // Closes the pipe as well: its end is how the starter sees a daemon die.
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(())
}

fn announcement(kind: &str, text: &str) -> String {
    format!("{kind} {}\n", text.replace('\n', " "))
}

enum Answer {
    Ready(Started),
    Error(String),
    Closed,
    Silent,
}

fn read_announcement(child: &mut Child, deadline: Duration) -> io::Result<Answer> {
    let Some(mut pipe) = child.stdout.take() else {
        return Ok(Answer::Closed);
    };
    let clock = Clock::system();
    let end = clock.boottime().saturating_add(deadline);
    let mut text = Vec::new();
    loop {
        let rest = end.saturating_sub(clock.boottime());
        let rest = Timespec::try_from(rest).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&pipe, PollFlags::IN)];
        match poll(&mut ready, Some(&rest)) {
            Ok(0) => return Ok(Answer::Silent),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let mut chunk = [0; 1024];
        let count = pipe.read(&mut chunk)?;
        text.extend_from_slice(&chunk[..count]);
        if let Some(answer) = parse_announcement(&text) {
            return Ok(answer);
        }
        if count == 0 || text.len() > LONGEST_ANNOUNCEMENT {
            return Ok(Answer::Closed);
        }
    }
}

/// The first complete line that is an announcement; anything else on it is noise.
fn parse_announcement(text: &[u8]) -> Option<Answer> {
    let complete = &text[..text.iter().rposition(|byte| *byte == b'\n')?];
    complete.split(|byte| *byte == b'\n').find_map(|line| {
        let line = String::from_utf8_lossy(line);
        if let Some(text) = line.strip_prefix("error ") {
            return Some(Answer::Error(text.to_owned()));
        }
        let (pid, text) = line.strip_prefix("ready ")?.split_once(' ')?;
        Some(Answer::Ready(Started {
            pid: pid.parse().ok()?,
            text: text.to_owned(),
        }))
    })
}

fn open_log(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > LOG_ROTATE_BYTES) {
        let mut rotated = path.as_os_str().to_owned();
        rotated.push(".1");
        std::fs::rename(path, rotated)?;
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// What this start wrote to the log, at most its last 4 KiB.
fn log_tail(path: &Path, start: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(
            start.max(size.saturating_sub(LOG_TAIL_BYTES)),
        ))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    };
    read().unwrap_or_else(|error| format!("(unreadable: {error})"))
}
