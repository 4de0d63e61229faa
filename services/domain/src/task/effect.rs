//! What sessions do to their task (T4, T5, S38). Never to COMPLETE.

use super::{Phase, Task};
use crate::{SessionId, Timestamp};

/// What a session has to tell its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// A turn began.
    TurnStarted,
    /// A turn completed, and nothing goes on in the background.
    TurnCompleted,
    /// A turn or a start failed.
    Failed,
    /// A person ended it.
    Stopped,
    /// It ended, and nobody saw how.
    Lost,
    /// Its process is over: the slot is free (T5).
    Ended,
}

/// The task after `trigger` of `session`; `None` when nothing changes. The version stays, for
/// the shell to raise once.
pub fn effect(task: &Task, session: SessionId, trigger: Trigger, now: Timestamp) -> Option<Task> {
    let mut next = task.clone();
    if trigger == Trigger::Ended {
        free(&mut next, session);
    } else if is_primary(task, session) && !is_terminal(&task.phase) {
        advance(&mut next, trigger);
    }
    if next == *task {
        return None;
    }
    next.updated_at = now;
    Some(next)
}

fn free(task: &mut Task, session: SessionId) {
    if task.plan_session == Some(session) {
        task.plan_session = None;
    }
    if task.exec_session == Some(session) {
        task.exec_session = None;
    }
}

fn advance(task: &mut Task, trigger: Trigger) {
    match trigger {
        Trigger::TurnStarted => {
            task.phase = Phase::InProgress;
            task.needs_attention = false;
        }
        Trigger::TurnCompleted => task.phase = Phase::AgentComplete,
        Trigger::Failed => {
            task.phase = Phase::AwaitHumanAction;
            task.needs_attention = true;
        }
        Trigger::Stopped => {
            if task.phase == Phase::InProgress {
                task.phase = Phase::AwaitHumanAction;
            }
        }
        Trigger::Lost => {
            if task.phase == Phase::InProgress {
                task.phase = Phase::AwaitHumanAction;
                task.needs_attention = true;
            }
        }
        Trigger::Ended => {}
    }
}

/// Occupants of the slots, else the newest linked session (T4).
fn is_primary(task: &Task, session: SessionId) -> bool {
    let slots = [task.plan_session, task.exec_session];
    if slots.iter().any(Option::is_some) {
        slots.contains(&Some(session))
    } else {
        task.sessions.last() == Some(&session)
    }
}

/// A person has the last word on these (T4).
fn is_terminal(phase: &Phase) -> bool {
    matches!(
        phase,
        Phase::Complete | Phase::HumanVerified | Phase::PostWorkCompleted
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TaskId, WorkspaceId, task::New};

    fn id(n: u128) -> SessionId {
        SessionId::new(uuid::Uuid::from_u128(n))
    }

    fn task(phase: Phase) -> Task {
        let new = New {
            title: "t".to_owned(),
            client_key: "k".to_owned(),
            ..New::default()
        };
        let made = new.create(
            TaskId::new(uuid::Uuid::from_u128(1)),
            WorkspaceId::main(),
            Timestamp(1),
        );
        let mut task = made.unwrap();
        task.phase = phase;
        task.sessions = vec![id(1), id(2)];
        task.exec_session = Some(id(2));
        task
    }

    fn phase_after(phase: Phase, trigger: Trigger) -> (Phase, bool) {
        let task = task(phase);
        let next = effect(&task, id(2), trigger, Timestamp(2)).unwrap_or(task);
        (next.phase, next.needs_attention)
    }

    #[test]
    fn t4_the_table() {
        use Phase::{AgentComplete, AwaitHumanAction, Complete, HumanVerified, InProgress, Todo};
        for (before, trigger, after, attention) in [
            (Todo, Trigger::TurnStarted, InProgress, false),
            (InProgress, Trigger::TurnCompleted, AgentComplete, false),
            (InProgress, Trigger::Failed, AwaitHumanAction, true),
            (InProgress, Trigger::Stopped, AwaitHumanAction, false),
            (AgentComplete, Trigger::Stopped, AgentComplete, false),
            (InProgress, Trigger::Lost, AwaitHumanAction, true),
            (HumanVerified, Trigger::Failed, HumanVerified, false),
            (Complete, Trigger::TurnStarted, Complete, false),
        ] {
            let text = format!("{before:?} {trigger:?}");
            assert_eq!(phase_after(before, trigger), (after, attention), "{text}");
        }
    }

    #[test]
    fn t4_only_primary_sessions_move_the_phase() {
        let task = task(Phase::Todo);
        assert_eq!(
            effect(&task, id(1), Trigger::TurnStarted, Timestamp(2)),
            None
        );
    }

    #[test]
    fn t5_the_end_frees_the_slot_and_nothing_else_does() {
        let task = task(Phase::HumanVerified);
        let freed = effect(&task, id(2), Trigger::Ended, Timestamp(2)).unwrap();
        assert_eq!(freed.exec_session, None);
        assert_eq!(freed.phase, Phase::HumanVerified);
        assert_eq!(effect(&task, id(1), Trigger::Ended, Timestamp(2)), None);
    }
}
