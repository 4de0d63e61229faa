//! One run of a session: what its host reports of it, and what is stored.

use serde::{Deserialize, Serialize};

use super::state::{Launch, Observed, Process};
use crate::Timestamp;

/// Why a start failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Closed name, as in `CWD_MISSING`.
    pub reason: String,
    /// For people.
    pub text: String,
}

/// Which process: a pid alone names nothing (R6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The kernel's boot id.
    pub boot: String,
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks after boot.
    pub ticks: u64,
}

/// The exit record of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code; `None` after a signal, or when unknown.
    pub code: Option<i32>,
    /// Signal number.
    pub signal: Option<i32>,
    /// When it ended.
    pub at: Timestamp,
    /// Every byte up to here is the program's output.
    pub stream_size: u64,
    /// Size of stderr at the end.
    pub stderr_size: u64,
    /// Bytes of stdin that nobody read.
    pub stdin_unread: Option<u64>,
    /// Processes of its tree that went on.
    pub survivors: Vec<Identity>,
    /// A stop was asked for.
    pub stop_requested: bool,
    /// The last bytes of stderr (S29).
    pub stderr_tail: String,
}

impl Exit {
    /// Neither a code nor a signal is known.
    pub fn unknown(&self) -> bool {
        self.code.is_none() && self.signal.is_none()
    }
}

/// What the host agent reports of a run; the domain's view of `RunFacts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// Which run.
    pub run: u32,
    /// How it stands. `None`: the folder exists and nothing was ever started in it.
    pub process: Option<Process>,
    /// The program.
    pub identity: Option<Identity>,
    /// Its keeper, while one lives.
    pub keeper: Option<Identity>,
    /// The program has seen, or will see, the end of its stdin.
    pub stdin_closed: bool,
    /// Bytes of the stream so far.
    pub stream_size: u64,
    /// Its end.
    pub exit: Option<Exit>,
    /// The working directory still exists (S33).
    pub cwd_exists: bool,
    /// When it was started.
    pub started_at: Option<Timestamp>,
    /// How the start failed.
    pub failure: Option<Failure>,
    /// Processes of the ended run that still live; `None`: not said.
    pub survivors: Option<Vec<Identity>>,
    /// The folder of the run is gone; what is said of the process rests on a look at the
    /// processes themselves.
    pub folder_missing: bool,
    /// There is an exit record, and it is none that a keeper wrote.
    pub exit_damaged: bool,
}

/// The latest run of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Ordinal, from 1.
    pub no: u32,
    /// How the launch stands.
    pub launch: Observed<Launch>,
    /// How the process stands.
    pub process: Observed<Process>,
    /// The program.
    pub identity: Option<Identity>,
    /// Its keeper, while one lives.
    pub keeper: Option<Identity>,
    /// stdin is at its end.
    pub stdin_closed: bool,
    /// Bytes of the stream that were consumed (R2); everything below is in the store.
    pub consumed: u64,
    /// Resume point as the agent gave it with the last consumed bytes; opaque here.
    pub cursor: Vec<u8>,
    /// The exit record, as soon as it is known; judged when `consumed` reaches its size (S29).
    pub exit: Option<Exit>,
    /// Why the start failed.
    pub failure: Option<Failure>,
    /// The working directory still exists.
    pub cwd_exists: bool,
    /// When it started, by the host.
    pub started_at: Option<Timestamp>,
    /// Output messages made so far (S22).
    pub outputs: u32,
    /// Lines that were damaged (S28).
    pub damaged_lines: u64,
    /// Bytes appended after the end.
    pub late_bytes: u64,
    /// The stream is known to be damaged (S28): the first thing that went wrong.
    #[serde(default)]
    pub damage: Option<Observed<Damage>>,
    /// The last consumed bytes when they are the beginning of a character; at most three.
    /// They belong to no message yet.
    #[serde(default)]
    pub partial: Vec<u8>,
    /// The line that is being read was counted in `damaged_lines`.
    #[serde(default)]
    pub line_damaged: bool,
    /// Where the stream's file begins now, as an offset of the run: 0, until the file was
    /// truncated or replaced. Then what was consumed before counts as well, so that an offset
    /// never names two bytes.
    #[serde(default)]
    pub base: u64,
    /// Processes of the ended run that still live, as last seen; `None`: as the exit record
    /// has them.
    #[serde(default)]
    pub survivors: Option<Vec<Identity>>,
    /// The folder of the run is gone.
    #[serde(default)]
    pub folder_missing: bool,
    /// The exit record is damaged: nothing is known from it.
    #[serde(default)]
    pub exit_damaged: bool,
}

impl Run {
    /// Bytes of the stream's file, as it is now, that were consumed.
    pub fn file_consumed(&self) -> u64 {
        self.consumed.saturating_sub(self.base)
    }

    /// Processes that outlived the run and still live, as last seen (S33).
    pub fn survivors(&self) -> &[Identity] {
        match (&self.survivors, &self.exit) {
            (Some(seen), _) => seen,
            (None, Some(exit)) => &exit.survivors,
            (None, None) => &[],
        }
    }
}

/// What is wrong with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// Bytes are lost.
    Gap,
    /// Its file shrank.
    Truncated,
    /// Its file is another one.
    Replaced,
    /// Its file is gone.
    Removed,
}

impl Damage {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Truncated => "truncated",
            Self::Replaced => "replaced",
            Self::Removed => "removed",
        }
    }
}
