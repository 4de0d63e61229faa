//! What goes into a fold, and what comes out of it.

use std::time::Duration;

use crate::{
    DeliveryId, MessageId,
    changeset::Changeset,
    delivery::{Answer, Delivery},
    message::Message,
    session::{Failure, Input, Link, RunReport, State},
    task::Trigger,
};

/// Something that was observed. What concerns another run than the latest is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Bytes of the run's stream, in any pieces. Bytes that were consumed before are skipped;
    /// bytes that come too early (without a gap before them) are dropped, and the stream is
    /// asked for again from the cursor.
    Bytes {
        /// Run.
        run: u32,
        /// Place of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Resume point just after them, as the agent gave it; opaque.
        next: Vec<u8>,
    },
    /// Bytes of the stream are lost, from this place on.
    Gap {
        /// Run.
        run: u32,
        /// First byte that is lost.
        from: u64,
    },
    /// The stream's file shrank below what was read.
    Truncated {
        /// Run.
        run: u32,
    },
    /// The stream's file is another one.
    Replaced {
        /// Run.
        run: u32,
    },
    /// The stream's file is gone.
    Removed {
        /// Run.
        run: u32,
    },
    /// The messages that were written to a run last; see [`Action::Recall`].
    Recalled {
        /// Run.
        run: u32,
        /// The latest first.
        messages: Vec<Message>,
    },
    /// They could not be looked up now.
    RecallFailed {
        /// Run.
        run: u32,
    },
    /// The tail sent everything up to the exit record's size.
    TailEnd {
        /// Run.
        run: u32,
        /// Bytes that were appended after it.
        late_bytes: u64,
    },
    /// The tail broke off; it is attached again when the host can be reached.
    TailLost {
        /// Run.
        run: u32,
    },
    /// How the host says that a run stands.
    Report(Box<RunReport>),
    /// The agent looked, and has no such run.
    Absent {
        /// Run.
        run: u32,
    },
    /// The host refused the start.
    SpawnRefused {
        /// Run.
        run: u32,
        /// Why.
        failure: Failure,
    },
    /// A start, or a question about a run, broke off: the host is asked by key (S7).
    RunUnknown {
        /// Run.
        run: u32,
    },
    /// What the keeper says of a delivery.
    Answer {
        /// Which one.
        delivery: DeliveryId,
        /// What it says.
        answer: Answer,
    },
    /// The agent refused a delivery for good; no byte was written.
    DeliveryRefused {
        /// Which one.
        delivery: DeliveryId,
        /// Why.
        failure: Failure,
    },
    /// A call about a delivery broke off: it is asked for by id.
    DeliveryUnknown {
        /// Which one.
        delivery: DeliveryId,
    },
    /// A stop or a signal could not be brought to the host; a stop is tried again.
    ControlUnknown {
        /// Run.
        run: u32,
    },
    /// Reports of the host may have been missed: it is asked.
    Relist,
    /// The link to the session's host.
    Link(Link),
    /// Time passed.
    Tick,
}

/// How a message is to meet the turn (S21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// As soon as the program takes it.
    #[default]
    Queue,
    /// After the open turn.
    AfterTurn,
    /// Interrupting the open turn.
    Interrupt,
}

/// A text for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The client's key (S14).
    pub client_key: String,
    /// The text, without the final newline.
    pub text: String,
    /// Who says it.
    pub source: Input,
}

/// What a client asks of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Says something. The shell calls [`super::Fold::knows`] first and hands a stored message
    /// with this key to [`super::Fold::remember`].
    Send {
        /// What.
        text: Text,
        /// How.
        mode: Mode,
        /// A precondition on the open turn (S21); `None` = none.
        if_turn: Option<String>,
        /// Images that come with it.
        images: usize,
    },
    /// Climbs the stop ladder, or ends the survivors of an ended run.
    Stop {
        /// Only the survivors.
        survivors: bool,
    },
    /// Interrupts now (S39).
    Interrupt,
    /// Starts the next run (S10).
    Resume {
        /// The client's key.
        client_key: String,
    },
    /// Takes back a message that was not written.
    Cancel {
        /// Which one.
        message: MessageId,
    },
}

/// A command was taken. It holds when [`super::Fold::pending`] is committed; only then may it be
/// answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// A message is stored, or was.
    Message {
        /// As it is.
        message: Box<Message>,
        /// Place in the queue from 1; 0 = not waiting.
        position: u32,
        /// It was stored under this key before.
        replayed: bool,
    },
    /// The session is told.
    Session {
        /// There was nothing to end or interrupt.
        already_ended: bool,
        /// A resume with this key was taken before.
        replayed: bool,
        /// Messages that waited to be written when the end was asked for: the end fails them.
        unwritten: u32,
    },
}

/// One rung of the stop ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rung {
    /// What is done.
    pub step: Step,
    /// How long the program gets then.
    pub wait: Duration,
}

/// What a rung does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Closes stdin.
    CloseStdin,
    /// Sends this signal to the whole tree.
    Signal(i32),
}

/// What is to be done in the world, after the commit that decided it. Each is safe to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start this run with the spec's program. Answers: `Report`, `SpawnRefused`,
    /// `RunUnknown`.
    Spawn {
        /// Run.
        run: u32,
    },
    /// Ask how a run stands. Answers: `Report`, `Absent`, `RunUnknown`.
    AskRun {
        /// Run.
        run: u32,
    },
    /// Write a delivery. Answers: `Answer`, `DeliveryRefused`, `DeliveryUnknown`.
    Deliver {
        /// Run.
        run: u32,
        /// Id that the keeper knows.
        delivery: DeliveryId,
        /// The bytes, always the same for the same id.
        payload: Vec<u8>,
        /// The payload must be one line.
        single_line: bool,
    },
    /// Ask what the journal says of a delivery. Answers: `Answer`, `DeliveryUnknown`.
    AskDelivery {
        /// Run.
        run: u32,
        /// Which one.
        delivery: DeliveryId,
    },
    /// Climb the ladder. Answer: `ControlUnknown` when the call broke off.
    Stop {
        /// Run.
        run: u32,
        /// The ladder.
        rungs: Vec<Rung>,
        /// Only survivors of an ended run.
        survivors: bool,
    },
    /// Send a signal to the whole tree.
    Signal {
        /// Run.
        run: u32,
        /// Number.
        signal: i32,
    },
    /// Follow the run's stream, chunks framing. Answers: `Bytes`, …, `TailEnd`, `TailLost`.
    Attach {
        /// Run.
        run: u32,
        /// Resume point; empty = the beginning.
        cursor: Vec<u8>,
    },
    /// Look up the user messages of a run, the latest first, that have so many bytes with
    /// their newlines, in the store. Answers: `Recalled`, `RecallFailed`.
    Recall {
        /// Run.
        run: u32,
        /// Bytes that the messages have to make up, as far as there are as many.
        bytes: u64,
    },
    /// Follow it no more.
    Detach {
        /// Run.
        run: u32,
    },
}

/// What is done at a session's host although nothing can be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Urgent {
    /// Climb the ladder.
    Stop {
        /// The ladder.
        rungs: Vec<Rung>,
        /// Only survivors of an ended run.
        survivors: bool,
    },
    /// Send this signal to the whole tree.
    Signal(i32),
}

/// Names one commit of a fold; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// What is to be committed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its name, for [`super::Fold::committed`].
    pub ticket: Ticket,
    /// What is written. The shell adds the task row that `triggers` make.
    pub changeset: Changeset,
    /// What the session's task has to know, in order (S38); see [`crate::task::effect`].
    pub triggers: Vec<Trigger>,
}

/// What the store has of a session, to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The row.
    pub state: State,
    /// User messages that are not final, in order of acceptance.
    pub waiting: Vec<Message>,
    /// Deliveries whose outcome is not known.
    pub deliveries: Vec<Delivery>,
    /// The output message that still grows; its text is not needed.
    pub growing: Option<Message>,
}
