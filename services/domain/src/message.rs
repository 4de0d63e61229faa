//! Messages: what was said to a program, and what it printed.

use serde::{Deserialize, Serialize};

use crate::{DeliveryId, HostId, MessageId, SessionId, Timestamp, TurnId, id::At, session::Input};

/// What a message is (S3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Said to the program.
    User,
    /// Said by the model.
    Assistant,
    /// Thought by the model.
    Reasoning,
    /// A tool was called.
    ToolCall,
    /// What the tool gave.
    ToolResult,
    /// A remark of the program.
    Notice,
    /// The program asks.
    Request,
    /// Output of a program that is no agent (S22).
    Output,
}

/// How far a user message has come (S15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Committed, waits.
    Accepted,
    /// All bytes are in the program's stdin.
    Written,
    /// The program echoed it.
    Seen,
    /// Its turn is over.
    Done,
    /// Its session was stopped first.
    Held,
    /// The program removed it.
    Rejected,
    /// Taken back before it was written.
    Cancelled,
    /// Written perhaps; there is no trace.
    Unconfirmed,
    /// Its turn died.
    Interrupted,
    /// Waits for a person.
    Parked,
    /// It will not be written.
    Failed,
}

impl Delivery {
    /// Nothing will change it any more.
    pub fn is_final(self) -> bool {
        match self {
            Self::Accepted | Self::Held | Self::Parked => false,
            Self::Written
            | Self::Seen
            | Self::Done
            | Self::Rejected
            | Self::Cancelled
            | Self::Unconfirmed
            | Self::Interrupted
            | Self::Failed => true,
        }
    }
}

/// Body of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// The text, whole, or as far as it has grown.
    Text(String),
    /// Where the bytes stand; they are not stored here (S3, S22).
    Reference {
        /// Machine.
        host: HostId,
        /// Run.
        run: u32,
        /// First byte in its stream.
        offset: u64,
        /// Number of bytes so far.
        length: u64,
    },
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Deterministic.
    pub id: MessageId,
    /// Session that it belongs to.
    pub session: SessionId,
    /// Turn that it belongs to.
    pub turn: Option<TurnId>,
    /// What it is.
    pub kind: Kind,
    /// Order within the session: what was printed by (run, offset), what was said by the
    /// place where it was accepted.
    pub at: At,
    /// Tie-break among messages with the same place.
    pub index: u32,
    /// Body.
    pub body: Body,
    /// Bytes of the body, as far as it has grown. Equals the text's length for stored text.
    pub bytes: u64,
    /// The body grows no more.
    pub complete: bool,
    /// When it was accepted, or its first byte was observed.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Of user messages: how far it has come.
    pub sent: Option<Sent>,
}

/// What only user messages have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The client's key (S14).
    pub client_key: String,
    /// Who said it.
    pub source: Input,
    /// How far it has come.
    pub state: Delivery,
    /// Why it is failed, parked or unconfirmed: a closed name.
    pub reason: Option<String>,
    /// The same in words, with what is known of it.
    #[serde(default)]
    pub text: Option<String>,
    /// Delivery that carried it.
    pub delivery: Option<DeliveryId>,
    /// Order of acceptance within the session, from 1.
    pub sequence: u64,
}
