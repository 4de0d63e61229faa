//! The state of one session, as it is stored: five states that are never mixed (R4), each
//! with its provenance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::run::Run;
use crate::{DeliveryId, HostId, SessionId, TaskId, Timestamp, TurnId, WorkspaceId, id::At};

/// Where a fact comes from (S6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Bytes of the run's stream, at this offset.
    File(u64),
    /// The host agent's process facts.
    Process,
    /// The link to the host.
    Link,
    /// The coordinator's clock.
    Clock,
    /// A person or client.
    User,
}

/// A value with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed<T> {
    /// What is so.
    pub value: T,
    /// What said so.
    pub source: Source,
    /// When it was said.
    pub at: Timestamp,
    /// The rule that concluded it, as in `s29_exit_record`.
    pub rule: String,
}

impl<T> Observed<T> {
    /// A value and its evidence.
    pub fn new(value: T, source: Source, at: Timestamp, rule: &str) -> Self {
        Self {
            value,
            source,
            at,
            rule: rule.to_owned(),
        }
    }
}

/// The program's kind: who translates between it and our model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// Any line-speaking program (S22).
    Generic,
}

/// Place of a session at its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// The planning session.
    Plan,
    /// The executing session.
    Exec,
}

/// What the program may do (S11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Everything.
    Full,
    /// Prompts through Muster.
    Workspace,
    /// Plan mode.
    Readonly,
}

/// Which kind of client made something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The command line.
    Cli,
    /// The web console.
    Console,
    /// A chat connector.
    Connector,
    /// Another session.
    Agent,
}

/// What a session is; fixed at its start (S1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// UUID v7.
    pub id: SessionId,
    /// Name space.
    pub workspace: WorkspaceId,
    /// Task that it works on.
    pub task: Option<TaskId>,
    /// Place at the task.
    pub slot: Option<Slot>,
    /// Parent in the session tree.
    pub parent: Option<SessionId>,
    /// Root of the session tree; itself without a parent.
    pub root: SessionId,
    /// Machine.
    pub host: HostId,
    /// Working directory on that machine.
    pub cwd: String,
    /// Who translates.
    pub adapter: Adapter,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Explicit additions to the environment, kept for resume (S10). Never shown.
    pub env: BTreeMap<String, String>,
    /// First line of the first message, or the program's name (S1).
    pub title: String,
    /// What it may do.
    pub access: Access,
    /// Who started it.
    pub source: Input,
    /// Of the summariser and tooling; not listed by default.
    pub internal: bool,
    /// Client key of the start.
    pub client_key: String,
    /// When the row was made.
    pub created_at: Timestamp,
}

/// State of the link to the session's host (R4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Being made.
    Connecting,
    /// Up.
    Connected,
    /// Up, and silent for a while.
    Suspect,
    /// Down.
    Unreachable,
}

/// Why a process is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostReason {
    /// Its keeper died, and then it did, unseen.
    Keeper,
    /// The host was started anew.
    Boot,
    /// The folder of its run is gone, and nothing of it lives.
    Folder,
}

/// State of the process of the latest run (R4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// Asked for, not yet confirmed.
    Starting,
    /// Confirmed by its host.
    Alive,
    /// Ended, with a record.
    Exited,
    /// Ended, without one.
    Lost(LostReason),
    /// Its host cannot be asked.
    Unknown,
}

/// How a launch stands (S8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// The row is committed; Spawn has not been answered.
    Requested,
    /// The host confirmed the process.
    Confirmed,
    /// The host refused, with a typed reason; nothing runs.
    Failed,
}

/// A resume that was taken: a repeat with its key starts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// The client's key.
    pub client_key: String,
    /// The run that it started.
    pub run: u32,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Well.
    Completed,
    /// Badly.
    Failed,
    /// It was asked to end.
    Interrupted,
    /// Nobody saw how.
    Unknown,
}

/// One unit of work (S2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Deterministic.
    pub id: TurnId,
    /// Run that it belongs to.
    pub run: u32,
    /// Where it began.
    pub began: At,
    /// When it began.
    pub began_at: Timestamp,
    /// Where it ended; `None` while open.
    pub ended: Option<At>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How it ended, with the evidence; `None` while open.
    pub outcome: Option<Observed<Outcome>>,
}

/// A stop that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopMark {
    /// Run that is to end.
    pub run: u32,
    /// When it was asked for.
    pub at: Timestamp,
}

/// Everything of a session that is stored in its row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// What it is.
    pub spec: Spec,
    /// Version of the row; 0 before the first commit.
    pub version: u64,
    /// The link to its host, as last seen. Not evidence after a restart: restored as
    /// connecting.
    pub link: Observed<Link>,
    /// The latest run.
    pub run: Run,
    /// The open or latest turn.
    pub turn: Option<Turn>,
    /// A stop of the latest run.
    pub stop: Option<StopMark>,
    /// When an interrupt of the latest run was asked for last, until the run ends: what it
    /// prints after that may have come of anything, so only the end proves an effect (S39).
    pub interrupted_at: Option<Timestamp>,
    /// Messages stored so far, of all runs.
    pub messages: u64,
    /// User messages that wait to be written.
    pub waiting: u32,
    /// The delivery that may be under way (S17).
    pub in_flight: Option<DeliveryId>,
    /// Last byte, message or process event, by source time.
    pub last_activity: Timestamp,
    /// Hidden by a person.
    pub archived: bool,
    /// User messages accepted so far; the latest one's `sequence`.
    #[serde(default)]
    pub accepted: u64,
    /// The latest resumes, oldest first.
    #[serde(default)]
    pub resumes: Vec<Resumed>,
}

/// What asks for a person (R4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// Nothing.
    None,
    /// A permission is asked for.
    Permission,
    /// A question is asked.
    Question,
    /// A plan waits.
    Plan,
    /// The start, the turn or the process failed.
    Error,
}

impl Link {
    /// Calls can be made (S31).
    pub const fn is_up(self) -> bool {
        match self {
            Self::Connected | Self::Suspect => true,
            Self::Connecting | Self::Unreachable => false,
        }
    }
}

impl Process {
    /// It is over.
    pub const fn is_over(self) -> bool {
        match self {
            Self::Exited | Self::Lost(_) => true,
            Self::Starting | Self::Alive | Self::Unknown => false,
        }
    }
}

impl State {
    /// The latest run is over and judged, or its start failed: nothing more comes of it (S29).
    pub fn is_over(&self) -> bool {
        self.run.process.value.is_over()
    }

    /// Something of the session may still change by itself: it has not ended, or processes
    /// of it go on.
    pub fn is_live(&self) -> bool {
        !self.is_over() || !self.run.survivors().is_empty()
    }

    /// A person asked for the end of the latest run.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some_and(|stop| stop.run == self.run.no)
    }

    /// The open turn.
    pub fn open_turn(&self) -> Option<&Turn> {
        self.turn.as_ref().filter(|turn| turn.outcome.is_none())
    }

    /// How the latest turn ended.
    pub fn outcome(&self) -> Option<Outcome> {
        let turn = self.turn.as_ref()?;
        turn.outcome.as_ref().map(|outcome| outcome.value)
    }

    /// What asks for a person, as far as the session alone tells. Open interactions are rows
    /// of their own.
    pub fn attention(&self) -> Attention {
        let failed = self.run.launch.value == Launch::Failed && !self.is_stopping();
        if failed || self.outcome() == Some(Outcome::Failed) {
            Attention::Error
        } else {
            Attention::None
        }
    }

    /// The same without the values of the environment, for everybody who is not the host
    /// (R12).
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        for value in shown.spec.env.values_mut() {
            value.clear();
        }
        shown
    }
}
