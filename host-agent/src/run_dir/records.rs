//! The records of a run folder. Fields unknown to this build are ignored, missing ones have
//! defaults: a keeper of last month and an agent of next month share these files.

use muster_proto::keeper as wire;
use serde::{Deserialize, Serialize};

use crate::proc::Identity;

/// How the program's stdin is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinKind {
    /// fd 0 is the FIFO opened read-write: never EOF, outlives a dead keeper.
    #[default]
    Held,
    /// fd 0 is read-only, the keeper holds the write end; closing it is the end.
    Closable,
}

/// The mode of a run spec; `None` for a value of a newer build, or none at all.
pub fn stdin_kind(mode: wire::StdinMode) -> Option<StdinKind> {
    match mode {
        wire::StdinMode::Unspecified => None,
        wire::StdinMode::Held => Some(StdinKind::Held),
        wire::StdinMode::Closable => Some(StdinKind::Closable),
    }
}

impl From<StdinKind> for wire::StdinMode {
    fn from(kind: StdinKind) -> Self {
        match kind {
            StdinKind::Held => Self::Held,
            StdinKind::Closable => Self::Closable,
        }
    }
}

/// `meta.json`: what was asked for. Written by the agent, once, before the start; holds no
/// identity and no value of an environment variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Session, a canonical UUID.
    pub session_id: String,
    /// Ordinal of the run, from 1.
    pub run: u32,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Absolute working directory.
    pub cwd: String,
    /// Names of the environment variables.
    pub env_names: Vec<String>,
    /// How stdin is held.
    pub stdin: StdinKind,
    /// Wall clock, microseconds after 1970.
    pub created_at_us: i64,
}

/// `proc.json`: who runs. Written by the keeper, once, right after the spawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcRecord {
    /// Boot that the identities belong to.
    pub boot_id: String,
    /// The keeper that started the program.
    pub keeper: Identity,
    /// The program.
    pub process: Identity,
    /// Session, for a keeper that adopts.
    pub session_id: String,
    /// Run, for a keeper that adopts.
    pub run: u32,
    /// How stdin is held.
    pub stdin: StdinKind,
    /// Wall clock, microseconds after 1970.
    pub started_at_us: i64,
}

/// `exit.json`: how the run ended. Written once, atomically.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExitRecord {
    /// Exit code. Absent: ended by a signal, or unknown.
    pub code: Option<i32>,
    /// Signal number. Absent: ended by itself, or unknown.
    pub signal: Option<i32>,
    /// The recorder was not the program's parent and knows neither.
    pub unknown: bool,
    /// Wall clock, microseconds after 1970.
    pub at_us: i64,
    /// Every byte of the stream up to here is the program's output.
    pub stream_size: u64,
    /// Size of stderr at the same moment.
    pub stderr_size: u64,
    /// Bytes in the pipe that nobody read. Absent: could not be measured.
    pub stdin_unread_bytes: Option<u64>,
    /// Processes of the run that were alive at that moment, at most 256.
    pub survivors: Vec<Identity>,
    /// A person or client had asked for the end.
    pub stop_requested: bool,
    /// Processor time in user mode, microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, microseconds.
    pub system_us: u64,
    /// Largest resident set, bytes.
    pub max_rss_bytes: u64,
    /// The last 8 KiB of stderr; invalid UTF-8 replaced.
    pub stderr_tail: String,
    /// Boot that the survivors belong to.
    pub boot_id: String,
}

impl ExitRecord {
    /// A keeper wrote it: it says when, and how or that nobody knows.
    pub(crate) fn is_whole(&self) -> bool {
        self.at_us > 0 && (self.code.is_some() || self.signal.is_some() || self.unknown)
    }
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// All bytes are in the pipe.
    Delivered,
    /// No byte was written in time; the id may be tried again.
    Retry,
    /// The reader closed its end, or stdin was closed.
    StdinClosed,
    /// The program ended before all bytes were written.
    Exited,
}

impl From<EndKind> for wire::OutcomeKind {
    fn from(kind: EndKind) -> Self {
        match kind {
            EndKind::Delivered => Self::Delivered,
            EndKind::Retry => Self::Retry,
            EndKind::StdinClosed => Self::StdinClosed,
            EndKind::Exited => Self::Exited,
        }
    }
}

/// What a rung of a stop ladder does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungAction {
    /// Delivers the line of this delivery id.
    EndLine(String),
    /// Closes the write end.
    CloseStdin,
    /// Sends this signal to the whole tree.
    Signal(i32),
}

/// One line of `journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum JournalRecord {
    /// A keeper is about to start the program.
    Spawning {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
        /// The keeper.
        keeper: Identity,
    },
    /// A later keeper took over the living program.
    Adopted {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
        /// The keeper.
        keeper: Identity,
    },
    /// A delivery begins; durable before its first byte.
    Start {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
        /// Delivery.
        id: String,
        /// Length of the payload.
        bytes: u64,
        /// First 16 hex digits of the payload's SHA-256.
        #[serde(default)]
        digest: String,
        /// Size of the stream before the first byte.
        stream_before: u64,
    },
    /// A delivery ended.
    End {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
        /// Delivery.
        id: String,
        /// How.
        outcome: EndKind,
        /// Bytes of the payload in the pipe.
        written: u64,
        /// Size of the stream before the first byte.
        stream_before: u64,
        /// Size of the stream after the last byte.
        stream_after: u64,
    },
    /// Somebody wants the program to end; durable before anything is done.
    Stop {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
        /// Stop request.
        stop_id: String,
        /// A person or client asked for it.
        requested: bool,
        /// Rungs of the ladder.
        rungs: Vec<RungAction>,
    },
    /// A rung is climbed.
    Rung {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
        /// Stop request.
        stop_id: String,
        /// Which, from 0.
        index: u32,
        /// What it does.
        action: RungAction,
    },
    /// A signal was sent.
    Signal {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
        /// Number.
        signal: i32,
        /// The stop or signal request.
        request_id: String,
        /// Who got it.
        targets: Vec<Identity>,
    },
    /// A ladder ended.
    StopEnded {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
        /// Stop request.
        stop_id: String,
        /// Processes of the tree that live on.
        left: Vec<Identity>,
    },
    /// The program ended; durable before anything else is done about it, so that the death of this keeper does not
    /// take the exit code with it. `exit.json` follows when its tree is through.
    ProgramEnded {
        /// The record as far as it is known.
        record: Box<ExitRecord>,
    },
    /// The write end was closed.
    StdinClosed {
        /// Wall clock, microseconds after 1970.
        at_us: i64,
    },
    /// A record of a newer build.
    #[serde(other)]
    Other,
}
