//! Interactions: permissions, questions, plans (S4). No adapter raises one yet; the rows'
//! shape is fixed so that clients can be written.

use serde::{Deserialize, Serialize};

use crate::{InteractionId, SessionId, Timestamp};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// May a tool run?
    Permission,
    /// A question to the user.
    Question,
    /// A plan to approve.
    Plan,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody has answered.
    Open,
    /// An answer is stored.
    Answered,
    /// The answer is in the program's stdin.
    Delivered,
    /// The program acted on it.
    Applied,
    /// The program took it back.
    Withdrawn,
    /// Nobody answered in time.
    Expired,
    /// The program ended first.
    Lost,
}

/// One interaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interaction {
    /// Id.
    pub id: InteractionId,
    /// Session that asks.
    pub session: SessionId,
    /// What is asked for.
    pub kind: Kind,
    /// How far it has come.
    pub state: State,
    /// The program's own id of the request.
    pub cli_request: String,
    /// Which agent of the program asks; empty = the main one.
    pub agent: String,
    /// Tool that it is about.
    pub tool: String,
    /// Input in short.
    pub summary: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// The answer.
    pub answer: Option<String>,
    /// Who answered.
    pub answered_by: Option<String>,
}
