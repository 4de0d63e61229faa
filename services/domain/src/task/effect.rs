//! What sessions do to their task (T4, T5, S38). Never to COMPLETE.

use super::{Phase, Task};
use crate::{Fault, Reason, SessionId, Timestamp, session::Slot};

/// What a session has to tell its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// Its next run begins: it takes its slot back (S7). Only after [`check_slot`].
    Resumed(Slot),
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
    } else if let Trigger::Resumed(slot) = trigger {
        *place(&mut next, slot) = Some(session);
    } else if is_primary(task, session) && !is_terminal(&task.phase) {
        advance(&mut next, trigger);
    }
    if next == *task {
        return None;
    }
    next.updated_at = now;
    Some(next)
}

/// The slot of the task is free for this session, or its own.
///
/// # Errors
/// `SLOT_OCCUPIED` names the occupant.
pub fn check_slot(task: &Task, slot: Slot, session: SessionId) -> Result<(), Fault> {
    let taken = match slot {
        Slot::Plan => task.plan_session,
        Slot::Exec => task.exec_session,
    };
    match taken.filter(|occupant| *occupant != session) {
        None => Ok(()),
        Some(occupant) => Err(Fault::new(
            Reason::SlotOccupied,
            format!("the slot is taken by session {occupant}"),
        )
        .with("occupant", occupant)),
    }
}

fn place(task: &mut Task, slot: Slot) -> &mut Option<SessionId> {
    match slot {
        Slot::Plan => &mut task.plan_session,
        Slot::Exec => &mut task.exec_session,
    }
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
        Trigger::Ended | Trigger::Resumed(_) => {}
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
    fn s7_a_resume_takes_the_slot_back_and_never_another_sessions() {
        let mut task = task(Phase::AgentComplete);
        let fault = check_slot(&task, Slot::Exec, id(1)).unwrap_err();
        assert_eq!(fault.reason(), Reason::SlotOccupied);
        assert_eq!(fault.metadata()["occupant"], id(2).to_string());
        assert_eq!(check_slot(&task, Slot::Plan, id(1)), Ok(()));
        task = effect(&task, id(2), Trigger::Ended, Timestamp(2)).unwrap();
        assert_eq!(check_slot(&task, Slot::Exec, id(1)), Ok(()));
        let resumed = Trigger::Resumed(Slot::Exec);
        task = effect(&task, id(1), resumed, Timestamp(3)).unwrap();
        assert_eq!(task.exec_session, Some(id(1)));
        assert_eq!(check_slot(&task, Slot::Exec, id(1)), Ok(()));
        // The occupant of the slot moves the phase, also where another one is newer.
        task = effect(&task, id(1), Trigger::TurnStarted, Timestamp(4)).unwrap();
        assert_eq!(task.phase, Phase::InProgress);
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
