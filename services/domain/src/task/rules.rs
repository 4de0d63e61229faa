//! What a task may be, and how it moves (T1, T3).

use super::{Phase, Status, Task};
use crate::{Fault, Reason, TaskId, Timestamp, WorkspaceId, limits};

/// Category and project where none is given (T1).
const INBOX: &str = "inbox";

impl Phase {
    /// The phases that a request may name, in their order.
    pub const KNOWN: [Self; 7] = [
        Self::Todo,
        Self::InProgress,
        Self::AgentComplete,
        Self::AwaitHumanAction,
        Self::HumanVerified,
        Self::PostWorkCompleted,
        Self::Complete,
    ];

    /// The name, as in `IN_PROGRESS`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Todo => "TODO",
            Self::InProgress => "IN_PROGRESS",
            Self::AgentComplete => "AGENT_COMPLETE",
            Self::AwaitHumanAction => "AWAIT_HUMAN_ACTION",
            Self::HumanVerified => "HUMAN_VERIFIED",
            Self::PostWorkCompleted => "POST_WORK_COMPLETED",
            Self::Complete => "COMPLETE",
            Self::Other(name) => name,
        }
    }

    /// The phase that a request names; letters of either case.
    ///
    /// # Errors
    /// `INVALID_PHASE`.
    pub fn parse(name: &str) -> Result<Self, Fault> {
        let known = Self::KNOWN
            .into_iter()
            .find(|phase| phase.as_str().eq_ignore_ascii_case(name));
        known.ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            Fault::new(Reason::InvalidPhase, format!("`{shown}` is no phase")).with_hint(format!(
                "one of {}",
                Self::KNOWN.each_ref().map(Self::as_str).join(", ")
            ))
        })
    }

    /// A stored phase: one that this version does not know is kept verbatim (T3).
    pub fn stored(name: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|phase| phase.as_str() == name);
        known.unwrap_or_else(|| Self::Other(name.to_owned()))
    }

    /// The phase in three words (T3).
    pub fn status(&self) -> Status {
        match self {
            Self::Todo => Status::Todo,
            Self::Complete => Status::Done,
            Self::InProgress
            | Self::AgentComplete
            | Self::AwaitHumanAction
            | Self::HumanVerified
            | Self::PostWorkCompleted
            | Self::Other(_) => Status::InProgress,
        }
    }
}

impl Status {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::InProgress => "in_progress",
            Self::Done => "done",
        }
    }
}

/// A task that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct New {
    /// Title: one line, not empty.
    pub title: String,
    /// What and why.
    pub description: String,
    /// Category; empty = `inbox`.
    pub category: String,
    /// Project; empty = `inbox`.
    pub project: String,
    /// Key of the client; not empty.
    pub client_key: String,
}

impl New {
    /// The task, in phase TODO.
    ///
    /// # Errors
    /// `MISSING_FIELD`, `INVALID_TITLE`, `TOO_LARGE`, `INVALID`.
    pub fn create(self, id: TaskId, workspace: WorkspaceId, now: Timestamp) -> Result<Task, Fault> {
        check_title(&self.title)?;
        check_text("description", &self.description)?;
        check_client_key(&self.client_key)?;
        Ok(Task {
            id,
            workspace,
            title: self.title.trim().to_owned(),
            description: self.description,
            category: named("category", self.category)?,
            project: named("project", self.project)?,
            phase: Phase::Todo,
            needs_attention: false,
            plan_session: None,
            exec_session: None,
            sessions: Vec::new(),
            client_key: self.client_key,
            created_at: now,
            updated_at: now,
            completed_at: None,
            version: 0,
        })
    }
}

impl Task {
    /// Sets the phase with everything that goes with it (T3). The version stays.
    pub fn set_phase(&mut self, phase: Phase, now: Timestamp) {
        if phase == Phase::Complete {
            self.completed_at = self.completed_at.or(Some(now));
            self.plan_session = None;
            self.exec_session = None;
            self.needs_attention = false;
        } else {
            self.completed_at = None;
        }
        self.phase = phase;
        self.updated_at = now;
    }

    /// The phase in three words.
    pub fn status(&self) -> Status {
        self.phase.status()
    }
}

/// Checks the key under which a client may repeat a call (S14).
///
/// # Errors
/// `MISSING_FIELD`, `INVALID`.
pub(crate) fn check_client_key(key: &str) -> Result<(), Fault> {
    if key.is_empty() {
        return Err(Fault::missing("client_key"));
    }
    if key.len() > limits::CLIENT_KEY_BYTES {
        let why = format!("longer than {} bytes", limits::CLIENT_KEY_BYTES);
        return Err(Fault::invalid("client_key", why));
    }
    if key.contains('\0') {
        return Err(Fault::invalid("client_key", "it has a NUL character"));
    }
    Ok(())
}

fn check_title(title: &str) -> Result<(), Fault> {
    let invalid = |why: String| Err(Fault::new(Reason::InvalidTitle, why));
    if title.trim().is_empty() {
        return Err(Fault::missing("title"));
    }
    if title.chars().count() > limits::TASK_TITLE_CHARS {
        return invalid(format!(
            "the title is longer than {} characters",
            limits::TASK_TITLE_CHARS
        ));
    }
    if title.chars().any(char::is_control) {
        return invalid("the title has a control character".to_owned());
    }
    Ok(())
}

fn check_text(field: &'static str, text: &str) -> Result<(), Fault> {
    if text.len() > limits::TASK_TEXT_BYTES {
        return Err(Fault::new(
            Reason::TooLarge,
            format!("`{field}` is longer than {} bytes", limits::TASK_TEXT_BYTES),
        )
        .with("field", field));
    }
    if text.contains('\0') {
        return Err(Fault::invalid(field, "it has a NUL character"));
    }
    Ok(())
}

fn named(field: &'static str, name: String) -> Result<String, Fault> {
    if name.is_empty() {
        return Ok(INBOX.to_owned());
    }
    if name.len() > limits::NAME_BYTES {
        let why = format!("longer than {} bytes", limits::NAME_BYTES);
        return Err(Fault::invalid(field, why));
    }
    if name.trim() != name || name.chars().any(char::is_control) {
        let why = "it has a control character or outer spaces";
        return Err(Fault::invalid(field, why));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(title: &str) -> New {
        New {
            title: title.to_owned(),
            client_key: "k".to_owned(),
            ..New::default()
        }
    }

    fn create(new: New) -> Result<Task, Fault> {
        let id = TaskId::new(uuid::Uuid::from_u128(1));
        new.create(id, WorkspaceId::main(), Timestamp(5))
    }

    #[test]
    fn t1_a_new_task_has_its_defaults() {
        let task = create(new(" fix it ")).unwrap();
        assert_eq!(task.title, "fix it");
        assert_eq!(
            (task.category.as_str(), task.project.as_str()),
            (INBOX, INBOX)
        );
        assert_eq!((task.phase, task.version), (Phase::Todo, 0));
    }

    #[test]
    fn t1_what_cannot_be_a_task_is_refused() {
        let long = "x".repeat(limits::TASK_TITLE_CHARS + 1);
        for title in ["", "  ", "two\nlines", long.as_str()] {
            assert!(create(new(title)).is_err(), "{title:?}");
        }
        let mut keyless = new("t");
        keyless.client_key.clear();
        assert_eq!(create(keyless).unwrap_err().reason(), Reason::MissingField);
    }

    #[test]
    fn t3_phases_have_names_and_a_status() {
        for phase in Phase::KNOWN {
            assert_eq!(Phase::parse(phase.as_str()).unwrap(), phase);
            assert_eq!(Phase::stored(phase.as_str()), phase);
        }
        assert_eq!(Phase::parse("in_progress").unwrap(), Phase::InProgress);
        assert_eq!(
            Phase::parse("REVIEW").unwrap_err().reason(),
            Reason::InvalidPhase
        );
        let other = Phase::stored("REVIEW");
        assert_eq!(other.as_str(), "REVIEW");
        assert_eq!(other.status(), Status::InProgress);
    }

    #[test]
    fn t3_complete_frees_the_slots_and_leaving_it_forgets_when() {
        let mut task = create(new("t")).unwrap();
        task.needs_attention = true;
        task.exec_session = Some(crate::SessionId::new(uuid::Uuid::from_u128(2)));
        task.set_phase(Phase::Complete, Timestamp(9));
        assert_eq!(task.completed_at, Some(Timestamp(9)));
        assert_eq!(task.exec_session, None);
        assert!(!task.needs_attention);
        task.set_phase(Phase::Todo, Timestamp(11));
        assert_eq!(task.completed_at, None);
    }
}
