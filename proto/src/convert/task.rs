//! Tasks.

use muster_domain::{
    Fault,
    task::{Phase, Task},
};

use super::{id, time};
use crate::public;

impl From<&Phase> for public::TaskPhase {
    /// A stored phase that this version does not know is unspecified on the wire.
    fn from(phase: &Phase) -> Self {
        match phase {
            Phase::Todo => Self::Todo,
            Phase::InProgress => Self::InProgress,
            Phase::AgentComplete => Self::AgentComplete,
            Phase::AwaitHumanAction => Self::AwaitHumanAction,
            Phase::HumanVerified => Self::HumanVerified,
            Phase::PostWorkCompleted => Self::PostWorkCompleted,
            Phase::Complete => Self::Complete,
            Phase::Other(_) => Self::Unspecified,
        }
    }
}

/// A phase that may be unspecified.
///
/// # Errors
/// `INVALID_PHASE` when this version does not know the number.
pub fn phase_opt(number: i32) -> Result<Option<Phase>, Fault> {
    use public::TaskPhase as Wire;
    let wire = Wire::try_from(number).map_err(|_| {
        Fault::new(
            muster_domain::Reason::InvalidPhase,
            format!("{number} is no known phase"),
        )
    })?;
    Ok(match wire {
        Wire::Unspecified => None,
        Wire::Todo => Some(Phase::Todo),
        Wire::InProgress => Some(Phase::InProgress),
        Wire::AgentComplete => Some(Phase::AgentComplete),
        Wire::AwaitHumanAction => Some(Phase::AwaitHumanAction),
        Wire::HumanVerified => Some(Phase::HumanVerified),
        Wire::PostWorkCompleted => Some(Phase::PostWorkCompleted),
        Wire::Complete => Some(Phase::Complete),
    })
}

impl From<&Task> for public::Task {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id.to_string(),
            workspace_id: task.workspace.to_string(),
            title: task.title.clone(),
            description: task.description.clone(),
            category: task.category.clone(),
            project: task.project.clone(),
            phase: public::TaskPhase::from(&task.phase).into(),
            status: task.status().as_str().to_owned(),
            needs_attention: task.needs_attention,
            session_ids: task.sessions.iter().map(ToString::to_string).collect(),
            created_at: Some(time::timestamp(task.created_at)),
            updated_at: Some(time::timestamp(task.updated_at)),
            completed_at: time::timestamp_opt(task.completed_at),
            version: task.version,
            plan_session_id: id::id_text(task.plan_session),
            exec_session_id: id::id_text(task.exec_session),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t3_phases_come_back_and_have_their_status() {
        for number in 1..=7 {
            let phase = phase_opt(number).unwrap().unwrap();
            assert_eq!(i32::from(public::TaskPhase::from(&phase)), number);
            let expected = match number {
                1 => "todo",
                7 => "done",
                _ => "in_progress",
            };
            assert_eq!(phase.status().as_str(), expected);
        }
        assert_eq!(phase_opt(0), Ok(None));
        let fault = phase_opt(99).unwrap_err();
        assert_eq!(fault.reason(), muster_domain::Reason::InvalidPhase);
        let kept = Phase::Other("REVIEW".to_owned());
        assert_eq!(
            public::TaskPhase::from(&kept),
            public::TaskPhase::Unspecified
        );
    }
}
