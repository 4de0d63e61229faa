//! Deliveries: payloads on their way to a program's stdin (docs/ARCHITECTURE.md, the way of one message).

use serde::{Deserialize, Serialize};

use crate::{DeliveryId, MessageId, SessionId, Timestamp};

/// What a delivery carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Messages of a user.
    Message,
    /// A control request of the adapter.
    Control,
    /// An interrupt.
    Interrupt,
    /// Answers to interactions.
    Answer,
    /// The polite end.
    End,
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Committed; the call may or may not have been made.
    Committed,
    /// All bytes are in the pipe.
    Delivered,
    /// It is certain that no byte was or will be read.
    NotDelivered,
    /// Nobody knows.
    Unknown,
}

/// A delivery as it is stored: committed before the call, so that a retry sends the
/// identical bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Id that the keeper knows.
    pub id: DeliveryId,
    /// Session that it goes to.
    pub session: SessionId,
    /// Run that it goes to.
    pub run: u32,
    /// What it carries.
    pub kind: Kind,
    /// Messages in it.
    pub messages: Vec<MessageId>,
    /// The bytes.
    pub payload: Vec<u8>,
    /// How far it has come.
    pub progress: Progress,
    /// When it was decided.
    pub created_at: Timestamp,
}

/// What the keeper says about a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// All bytes are in the pipe.
    Delivered {
        /// Stream size before the first byte.
        before: u64,
        /// Stream size after the last byte.
        after: u64,
    },
    /// No byte in time; nothing happened.
    Retry,
    /// Some bytes are in the pipe, the rest follows.
    InFlight,
    /// Another one is under way.
    Busy,
    /// stdin is at its end.
    StdinClosed,
    /// The keeper is dead.
    NoKeeper,
    /// The program ended first.
    Exited {
        /// Bytes of this delivery that had been written.
        written: u64,
    },
    /// The journal cannot be written; nothing happened.
    DiskFull,
    /// The journal has never seen it (asked, not delivered).
    Unseen,
}
