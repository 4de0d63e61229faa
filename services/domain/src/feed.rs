//! What subscribers see.

use serde::{Deserialize, Serialize};

use crate::{
    HostId, MessageId, SessionId, TurnId,
    interaction::Interaction,
    message::Message,
    session::{Outcome, State},
    task::Task,
};

/// Who gets an event (F9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// Workspace subscribers, and subscribers of the session where it is about one.
    Workspace(Option<SessionId>),
    /// Subscribers of this session only.
    Session(SessionId),
}

/// One semantic event, as it stands in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Who gets it.
    pub audience: Audience,
    /// What happened.
    pub change: Change,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A session is now so.
    Session(Box<State>),
    /// A task is now so.
    Task(Box<Task>),
    /// A host's link or facts changed; look it up.
    Host(HostId),
    /// An interaction is now so.
    Interaction(Box<Interaction>),
    /// A message is there. A growing one comes with its text so far.
    MessageAdded(Box<Message>),
    /// A message changed, but for its growing text.
    MessageChanged(Box<Message>),
    /// A growing text grew, durably.
    MessageDelta {
        /// Which message.
        message: MessageId,
        /// Byte at which the piece begins.
        from: u64,
        /// The piece.
        text: String,
    },
    /// A turn opened or closed.
    Turn {
        /// Which turn.
        id: TurnId,
        /// `None`: it opened.
        outcome: Option<Outcome>,
        /// More input waits (S41).
        more: bool,
    },
}

/// Growth that is not committed yet: replaceable, produced again after a crash at the same
/// bytes (R2, F16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Session.
    pub session: SessionId,
    /// Message that grows.
    pub message: MessageId,
    /// Byte at which the piece begins.
    pub from: u64,
    /// The piece.
    pub text: String,
}
