//! What use cases and the feed ask of session actors.
//!
//! Every command is answered after its decision is committed (R3). A dropped future does not
//! take a command back.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use muster_domain::{
    Fault, HostId, MessageId, SessionId,
    changeset::Versioned,
    message::Message,
    session::{Input, Spec, State},
    task::Task,
};
use tokio::sync::watch;

/// The actors.
#[async_trait]
pub trait SessionsApi: Send + Sync + fmt::Debug {
    /// Commits a new session together with its task row, its first message and the decision
    /// to spawn; gives the state as committed. The spawn follows by itself.
    ///
    /// # Errors
    /// `KEY_REUSED`: the client key is taken, the caller looks it up. `VERSION_MISMATCH`: the
    /// task row moved. `STORE_UNAVAILABLE`, `SHUTTING_DOWN`, and what refuses the prompt
    /// (`MULTILINE_TEXT`, `MESSAGE_TOO_LARGE`).
    async fn start(&self, start: NewSession) -> Result<State, Fault>;

    /// Accepts a message (S14). A stored one with the same key is answered as replayed.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `RUN_ENDED`, `MULTILINE_TEXT`, `MESSAGE_TOO_LARGE`, `QUEUE_FULL`,
    /// `UNSUPPORTED`, `STDIN_CLOSED`, `STORE_UNAVAILABLE`, `SHUTTING_DOWN`.
    async fn send(&self, session: SessionId, text: Sending) -> Result<SentMessage, Fault>;

    /// Takes back a message that was not written.
    ///
    /// # Errors
    /// `MESSAGE_NOT_FOUND`, `ALREADY_WRITTEN`, `STORE_UNAVAILABLE`, `SHUTTING_DOWN`.
    async fn cancel(&self, session: SessionId, message: MessageId) -> Result<Message, Fault>;

    /// Asks for the stop ladder, or for the end of an ended run's survivors. Where the store
    /// cannot be written, the host of a running program is asked all the same; see
    /// [`Control::recorded`].
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `HOST_UNREACHABLE`, `STORE_UNAVAILABLE`, `SHUTTING_DOWN`.
    async fn stop(&self, session: SessionId, survivors: bool) -> Result<Control, Fault>;

    /// Interrupts now (S39); without a commit as [`SessionsApi::stop`].
    ///
    /// # Errors
    /// As [`SessionsApi::stop`].
    async fn interrupt(&self, session: SessionId) -> Result<Control, Fault>;

    /// Starts the next run (S9, S10), which takes the session's slot back in the same commit
    /// (S7, S38). Idempotent by client key.
    ///
    /// # Errors
    /// As [`SessionsApi::stop`], `SESSION_ALIVE`, `SLOT_OCCUPIED`.
    async fn resume(&self, session: SessionId, client_key: String) -> Result<Control, Fault>;

    /// What the actor of this session has in hand: newer than the store, never older. `None`
    /// when no actor runs (then the store has everything).
    fn live(&self, session: SessionId) -> Option<watch::Receiver<Arc<Live>>>;

    /// Sessions of this host whose process has not ended.
    fn count(&self, host: HostId) -> u32;
}

/// A session that is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// What it is, with its client key.
    pub spec: Spec,
    /// Its task as it shall be, slot and link included.
    pub task: Option<Versioned<Task>>,
    /// The first message; its client key is that of the start.
    pub prompt: Option<String>,
}

/// A text that is to be said to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// The client's key.
    pub client_key: String,
    /// The text, without the final newline.
    pub text: String,
    /// How it is to meet the turn.
    pub mode: SendMode,
    /// Precondition: the open turn's id, or `none`; empty = no precondition.
    pub if_turn: String,
    /// Images that come with it.
    pub images: usize,
    /// Who says it.
    pub source: Input,
}

/// How a message is to meet the turn (S21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SendMode {
    /// As soon as the program takes it.
    #[default]
    Queue,
    /// After the open turn.
    AfterTurn,
    /// Interrupting the open turn.
    Interrupt,
}

/// A message that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// As it is now.
    pub message: Message,
    /// Place in the queue from 1; 0 when it does not wait.
    pub position: u32,
    /// It was stored before.
    pub replayed: bool,
}

/// What came of a control command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// The session as it is now.
    pub state: State,
    /// There was nothing to end.
    pub already_ended: bool,
    /// A call with the same client key was made before.
    pub replayed: bool,
    /// Messages that waited to be written when a stop was asked for: the end fails them.
    pub unwritten: u32,
    /// It is committed. Otherwise its host alone knows of it, until the end is reported.
    pub recorded: bool,
}

/// What an actor has in hand now. A new value at every change, for growing text at most
/// once per [`muster_domain::limits::PREVIEW_EVERY`] (F16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// The state, the link of this moment included.
    pub state: State,
    /// The message that grows now, as far as it is not committed.
    pub growing: Option<Growing>,
}

/// Growth that is not committed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growing {
    /// Which message.
    pub message: MessageId,
    /// Byte of its text at which `text` begins; everything below is in the outbox.
    pub from: u64,
    /// The text since then.
    pub text: Arc<str>,
}
