//! What a caller asks for.

use std::collections::BTreeMap;

use muster_domain::{
    page,
    session::{Access, Input, Slot},
    task::Phase,
};
use muster_proto::{
    convert::{enums, session},
    public as pb,
};

/// A session to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartSession {
    /// Key under which the start may be repeated; see [`crate::new_key`].
    pub client_key: String,
    /// Task that it works on. `None`: one is made.
    pub task: Option<String>,
    /// Place at the task.
    pub slot: Option<Slot>,
    /// Name of the host. `None`: as the coordinator chooses.
    pub host: Option<String>,
    /// Working directory. `None`: as the coordinator chooses.
    pub cwd: Option<String>,
    /// Adapter. `None`: generic.
    pub adapter: Option<String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Additions to the environment; kept out of debug output.
    pub env: Env,
    /// Title. `None`: from the prompt or the program.
    pub title: Option<String>,
    /// First message.
    pub prompt: Option<String>,
    /// What it may do.
    pub access: Option<Access>,
    /// Who starts it.
    pub source: Option<Input>,
    /// Answer after the commit rather than after the start.
    pub no_wait: bool,
}

/// Environment variables. Debug output shows the names alone (R12).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Env(pub BTreeMap<String, String>);

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl From<StartSession> for pb::StartSessionRequest {
    fn from(start: StartSession) -> Self {
        Self {
            client_key: start.client_key,
            task_id: start.task.unwrap_or_default(),
            slot: start.slot.map_or("", session::slot_word).to_owned(),
            host: start.host.unwrap_or_default(),
            cwd: start.cwd.unwrap_or_default(),
            adapter: start.adapter.unwrap_or_default(),
            argv: start.argv,
            env: start.env.0.into_iter().collect(),
            title: start.title.unwrap_or_default(),
            prompt: start.prompt.unwrap_or_default(),
            access: start.access.map_or(0, enums::number::<pb::AccessLevel>),
            source: start.source.map_or(0, enums::number::<pb::SessionSource>),
            no_wait: start.no_wait,
        }
    }
}

/// How a message is to meet the turn.
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

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendMessage {
    /// Session, by id or unique prefix.
    pub session: String,
    /// Key under which it may be repeated; see [`crate::new_key`].
    pub client_key: String,
    /// Text, without the final newline.
    pub text: String,
    /// How it meets the turn.
    pub mode: SendMode,
    /// Precondition: the open turn's id, or `none`.
    pub if_turn: Option<String>,
    /// Who says it.
    pub source: Option<Input>,
}

impl From<SendMessage> for pb::SendMessageRequest {
    fn from(message: SendMessage) -> Self {
        let mode = match message.mode {
            SendMode::Queue => pb::SendMode::Queue,
            SendMode::AfterTurn => pb::SendMode::AfterTurn,
            SendMode::Interrupt => pb::SendMode::Interrupt,
        };
        Self {
            session_id: message.session,
            client_key: message.client_key,
            text: message.text,
            mode: mode.into(),
            if_turn: message.if_turn.unwrap_or_default(),
            images: Vec::new(),
            source: message.source.map_or(0, enums::number::<pb::SessionSource>),
        }
    }
}

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListSessions {
    /// Only those that have not ended.
    pub live: bool,
    /// Internal ones too.
    pub internal: bool,
    /// Only those of this task.
    pub task: Option<String>,
}

impl ListSessions {
    pub(crate) fn request(self, page: page::Request) -> pb::ListSessionsRequest {
        pb::ListSessionsRequest {
            page_size: page.size,
            page_token: page.token,
            live: self.live,
            internal: self.internal,
            task_id: self.task.unwrap_or_default(),
        }
    }
}

/// A task to make.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateTask {
    /// Key under which it may be repeated; see [`crate::new_key`].
    pub client_key: String,
    /// Title.
    pub title: String,
    /// What and why.
    pub description: Option<String>,
    /// Category.
    pub category: Option<String>,
    /// Project.
    pub project: Option<String>,
}

impl From<CreateTask> for pb::CreateTaskRequest {
    fn from(task: CreateTask) -> Self {
        Self {
            client_key: task.client_key,
            title: task.title,
            description: task.description.unwrap_or_default(),
            category: task.category.unwrap_or_default(),
            project: task.project.unwrap_or_default(),
        }
    }
}

/// What is to change at a task; `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskUpdate {
    /// Title.
    pub title: Option<String>,
    /// What and why.
    pub description: Option<String>,
    /// Where it stands.
    pub phase: Option<Phase>,
    /// Only if the task has this version.
    pub expected_version: Option<u64>,
}

impl TaskUpdate {
    pub(crate) fn request(self, id: &str) -> pb::UpdateTaskRequest {
        let mut paths = Vec::new();
        let mut note = |present: bool, path: &str| {
            if present {
                paths.push(path.to_owned());
            }
        };
        note(self.title.is_some(), "title");
        note(self.description.is_some(), "description");
        note(self.phase.is_some(), "phase");
        let task = pb::Task {
            id: id.to_owned(),
            title: self.title.unwrap_or_default(),
            description: self.description.unwrap_or_default(),
            phase: self
                .phase
                .map_or(0, |phase| pb::TaskPhase::from(&phase).into()),
            ..pb::Task::default()
        };
        pb::UpdateTaskRequest {
            task: Some(task),
            update_mask: Some(muster_proto::FieldMask { paths }),
            expected_version: self.expected_version,
        }
    }
}
