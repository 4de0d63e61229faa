//! Tasks, minimal for now (T1, T3).

mod effect;
mod rules;

pub use effect::{Trigger, check_slot, effect};
pub use rules::New;
pub(crate) use rules::check_client_key;

use serde::{Deserialize, Serialize};

use crate::{SessionId, TaskId, Timestamp, WorkspaceId};

/// Where work stands (T3).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not begun.
    Todo,
    /// Begun.
    InProgress,
    /// The agent says that it is done.
    AgentComplete,
    /// A person has to act.
    AwaitHumanAction,
    /// A person has agreed.
    HumanVerified,
    /// What follows the work is done.
    PostWorkCompleted,
    /// Over.
    Complete,
    /// A stored phase that this version does not know; kept verbatim.
    Other(String),
}

/// The phase in three words (T3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Not begun.
    Todo,
    /// Under way, in any sense.
    InProgress,
    /// Over.
    Done,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Id.
    pub id: TaskId,
    /// Name space.
    pub workspace: WorkspaceId,
    /// Title.
    pub title: String,
    /// What and why.
    pub description: String,
    /// Category.
    pub category: String,
    /// Project.
    pub project: String,
    /// Where it stands.
    pub phase: Phase,
    /// A person should look.
    pub needs_attention: bool,
    /// Session in the plan slot (T5).
    pub plan_session: Option<SessionId>,
    /// Session in the exec slot (T5).
    pub exec_session: Option<SessionId>,
    /// Sessions linked to it, oldest first; at most the last 100.
    pub sessions: Vec<SessionId>,
    /// Client key of its creation.
    pub client_key: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was completed.
    pub completed_at: Option<Timestamp>,
    /// Version of the row; 0 before the first commit.
    pub version: u64,
}
