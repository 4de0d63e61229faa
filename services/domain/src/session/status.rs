//! The status of a session: computed, never stored (S5).

use super::state::{Attention, Launch, Outcome, Process, State};
use crate::{Timestamp, limits};

/// What a session is doing, in one word. The words are the API's and the command line's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Asked for, not confirmed.
    Starting,
    /// A turn is open.
    Running,
    /// Waits for a permission.
    WaitingPermission,
    /// Waits for an answer.
    WaitingQuestion,
    /// Waits for a plan's approval.
    WaitingPlan,
    /// Waits for its model service.
    Retrying,
    /// Compacts its context.
    Compacting,
    /// Nothing to do.
    Idle,
    /// Nothing to do, background work goes on.
    IdleBackground,
    /// Active and silent for long.
    Stalled,
    /// The turn, the start or the process failed.
    Failed,
    /// The turn was interrupted.
    Interrupted,
    /// Ended on request.
    Stopped,
    /// Ended by itself.
    Exited,
    /// Ended, nobody saw how.
    Lost,
    /// Its working directory, or the folder of its run, is gone.
    Orphaned,
    /// Its host cannot be asked.
    Unreachable,
}

impl Status {
    /// The word, as in `waiting_permission`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::WaitingPermission => "waiting_permission",
            Self::WaitingQuestion => "waiting_question",
            Self::WaitingPlan => "waiting_plan",
            Self::Retrying => "retrying",
            Self::Compacting => "compacting",
            Self::Idle => "idle",
            Self::IdleBackground => "idle_background",
            Self::Stalled => "stalled",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
            Self::Exited => "exited",
            Self::Lost => "lost",
            Self::Orphaned => "orphaned",
            Self::Unreachable => "unreachable",
        }
    }
}

/// The status of a session at `now`, and since when it is so by the evidence (S5).
///
/// `attention` is what the open interactions ask for; [`State::attention`] where there are
/// none.
pub fn status(state: &State, attention: Attention, now: Timestamp) -> (Status, Timestamp) {
    let run = &state.run;
    if state.is_over() {
        return over(state);
    }
    if !state.link.value.is_up() {
        return (Status::Unreachable, state.link.at);
    }
    if run.process.value == Process::Unknown && run.exit.is_none() {
        return (Status::Unreachable, run.process.at);
    }
    if !run.cwd_exists || run.folder_missing {
        return (Status::Orphaned, state.last_activity);
    }
    if run.launch.value == Launch::Requested || run.process.value == Process::Starting {
        return (Status::Starting, run.launch.at);
    }
    match attention {
        Attention::Permission => return (Status::WaitingPermission, state.last_activity),
        Attention::Question => return (Status::WaitingQuestion, state.last_activity),
        Attention::Plan => return (Status::WaitingPlan, state.last_activity),
        Attention::None | Attention::Error => {}
    }
    in_turn(state, now)
}

/// The latest run is over.
fn over(state: &State) -> (Status, Timestamp) {
    let process = &state.run.process;
    if let Process::Lost(_) = process.value {
        return (Status::Lost, process.at);
    }
    if state.run.launch.value == Launch::Failed {
        let stopped = state.is_stopping();
        let status = if stopped {
            Status::Stopped
        } else {
            Status::Failed
        };
        return (status, state.run.launch.at);
    }
    let status = match state.outcome() {
        Some(Outcome::Failed) => Status::Failed,
        Some(Outcome::Interrupted) => Status::Stopped,
        Some(Outcome::Unknown) => Status::Lost,
        Some(Outcome::Completed) | None => Status::Exited,
    };
    (status, process.at)
}

/// What a person may want to do about a session, beyond what always can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Offer {
    /// End it: an interrupt did not (S39). Nothing escalates by itself.
    Stop,
}

impl Offer {
    /// The word, as on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
        }
    }
}

/// What is offered at `now`.
pub fn offers(state: &State, now: Timestamp) -> Vec<Offer> {
    let due = stop_offered_at(state).is_some_and(|at| at <= now);
    due.then_some(Offer::Stop).into_iter().collect()
}

/// When a stop is offered, if the process goes on until then.
pub(super) fn stop_offered_at(state: &State) -> Option<Timestamp> {
    let alive = state.run.process.value == Process::Alive && state.run.exit.is_none();
    let asked = state
        .interrupted_at
        .filter(|_| alive && !state.is_stopping());
    asked.map(|at| at.plus(limits::INTERRUPT_EFFECT))
}

/// The process lives.
fn in_turn(state: &State, now: Timestamp) -> (Status, Timestamp) {
    let Some(turn) = &state.turn else {
        return (Status::Idle, state.run.process.at);
    };
    match &turn.outcome {
        None if is_stalled(state, now) => (Status::Stalled, state.last_activity),
        None => (Status::Running, turn.began_at.max(state.run.launch.at)),
        Some(outcome) => match outcome.value {
            Outcome::Failed => (Status::Failed, outcome.at),
            Outcome::Interrupted => (Status::Interrupted, outcome.at),
            Outcome::Completed | Outcome::Unknown => (Status::Idle, outcome.at),
        },
    }
}

/// A turn is open and has been silent for long (S32).
pub(super) fn is_stalled(state: &State, now: Timestamp) -> bool {
    state.open_turn().is_some() && stalled_at(state) <= now
}

/// When the open turn will have been silent for long, if nothing happens. Nobody listened
/// before the process was last seen, so that time does not count.
pub(super) fn stalled_at(state: &State) -> Timestamp {
    let heard = state.last_activity.max(state.run.process.at);
    heard.plus(limits::STALLED_AFTER)
}
