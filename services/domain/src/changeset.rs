//! What one decision changes: committed whole, or not at all (R2, R3).
//!
//! The store checks the expected versions, writes the rows, and writes the events to the
//! outbox under one revision of the workspace, all in one transaction.

use crate::{
    WorkspaceId,
    delivery::Delivery,
    feed::Event,
    host::Host,
    id::{MessageId, SessionId},
    message::Message,
    session::{State, Turn},
    task::Task,
};

/// A row with the version that it must have in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<T> {
    /// Version in the store before; 0 = the row must not exist.
    pub expected: u64,
    /// The row as it shall be; its own `version` is `expected + 1`.
    pub row: T,
}

/// A piece of a growing text: appended, never rewritten (F17).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Message that grows.
    pub message: MessageId,
    /// Byte of its text at which this piece begins. The same pair is written once: a second
    /// write of it must have the same text and changes nothing.
    pub from: u64,
    /// The piece; not empty.
    pub text: String,
}

/// Everything that one decision changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changeset {
    /// Name space, whose feed revision moves.
    pub workspace: WorkspaceId,
    /// Session row.
    pub session: Option<Versioned<State>>,
    /// Turns, inserted or replaced by id.
    pub turns: Vec<(SessionId, Turn)>,
    /// Messages, inserted or replaced by id. The text of a growing message is not in here
    /// but in `chunks`: its body is `Body::Text` with an empty string.
    pub messages: Vec<Message>,
    /// Pieces of growing texts.
    pub chunks: Vec<Chunk>,
    /// Deliveries, inserted or replaced by id.
    pub deliveries: Vec<Delivery>,
    /// Task row.
    pub tasks: Vec<Versioned<Task>>,
    /// Host rows, inserted or replaced by id.
    pub hosts: Vec<Host>,
    /// Events for the outbox, in order, all under one new revision. Empty: no revision moves.
    pub events: Vec<Event>,
}

impl Changeset {
    /// A changeset that changes nothing yet.
    pub fn new(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            session: None,
            turns: Vec::new(),
            messages: Vec::new(),
            chunks: Vec::new(),
            deliveries: Vec::new(),
            tasks: Vec::new(),
            hosts: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.session.is_none()
            && self.turns.is_empty()
            && self.messages.is_empty()
            && self.chunks.is_empty()
            && self.deliveries.is_empty()
            && self.tasks.is_empty()
            && self.hosts.is_empty()
            && self.events.is_empty()
    }
}

/// A changeset is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Feed revision of the workspace after it; unchanged when it had no events.
    pub revision: u64,
}

/// Why a changeset was not committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// A row has another version than expected.
    #[error("the {what} has version {found}, not {expected}")]
    Version {
        /// Kind of row.
        what: &'static str,
        /// Version expected.
        expected: u64,
        /// Version found; 0 = no such row.
        found: u64,
    },
    /// A unique key (client key of a start or of a task) is taken.
    #[error("the key is taken")]
    KeyTaken,
    /// The store cannot be written; nothing of the changeset is in it. The text is for the log.
    #[error("the store cannot be written")]
    Unavailable(String),
}
