//! How a run ends, and how it is stopped (S29, S39).

use super::{
    Fold,
    deliver::RUN_ENDED,
    types::{Action, Command, Rung, Step, Urgent},
};
use crate::{
    Timestamp,
    id::At,
    limits,
    session::{Failure, Launch, LostReason, Observed, Outcome, Process, Source, State},
    task::Trigger,
};

/// SIGINT, SIGTERM and SIGKILL have these numbers on every system that an agent runs on.
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

impl Fold {
    /// Judges the end of the run once everything about it is known: its output was read to
    /// the end, and it is clear what became of its last delivery.
    pub(super) fn pump_end(&mut self, now: Timestamp) {
        if self.state.is_over() || !self.has_ended() {
            return;
        }
        let read = self.is_output_read() && self.is_delivery_settled();
        if read && self.is_input_recalled(now) {
            self.judge(now);
        }
    }

    fn is_output_read(&self) -> bool {
        let run = &self.state.run;
        let damaged = run.damage.is_some();
        let read = run.file_consumed();
        match (&run.exit, self.lost) {
            // More was read than the file has: it is not the file that was read, and the tail
            // tells when all of it was.
            (Some(exit), _) => {
                let same = read == exit.stream_size && !self.gap;
                same || ((damaged || read > exit.stream_size) && self.tail_ended)
            }
            (None, Some((_, size))) => read >= size || damaged,
            (None, None) => false,
        }
    }

    fn judge(&mut self, now: Timestamp) {
        self.end_output(now);
        self.land_unread(now);
        self.land_cut_off(now);
        let (process, outcome, rule) = self.verdict();
        self.detach_unless_recorded();
        self.state.run.process = Observed::new(process, Source::Process, now, rule);
        self.close(outcome, rule, now);
    }

    /// The tail of a run with an exit record ends by itself, and says how much came late.
    fn detach_unless_recorded(&mut self) {
        if self.state.run.exit.is_none() || self.state.run.damage.is_some() {
            self.detach();
        }
    }

    fn verdict(&self) -> (Process, Outcome, &'static str) {
        let asked = self.state.is_stopping();
        let unseen = if asked {
            Outcome::Interrupted
        } else {
            Outcome::Unknown
        };
        let Some(exit) = &self.state.run.exit else {
            let reason = self.lost.map_or(LostReason::Keeper, |(reason, _)| reason);
            let rule = match reason {
                LostReason::Keeper if self.state.run.exit_damaged => "s29_exit_record_damaged",
                LostReason::Folder => "s29_run_folder_gone",
                LostReason::Keeper => "s29_no_exit_record",
                LostReason::Boot => "s29_host_started_anew",
            };
            return (Process::Lost(reason), unseen, rule);
        };
        match (exit.code, exit.signal) {
            _ if exit.stop_requested => {
                (Process::Exited, Outcome::Interrupted, "s29_stop_requested")
            }
            (None, None) => {
                let lost = Process::Lost(LostReason::Keeper);
                (lost, unseen, "s29_exit_code_unknown")
            }
            (Some(0), _) => (Process::Exited, Outcome::Completed, "s22_code_zero"),
            (code, signal) if self.is_of_interrupt(code, signal) => (
                Process::Exited,
                Outcome::Interrupted,
                "s39_ended_by_interrupt",
            ),
            (Some(_), _) => (Process::Exited, Outcome::Failed, "s22_code"),
            (None, Some(_)) => (Process::Exited, Outcome::Failed, "s22_signal"),
        }
    }

    /// The program ended of the signal that somebody asked for: as it is, or as shells say it.
    fn is_of_interrupt(&self, code: Option<i32>, signal: Option<i32>) -> bool {
        let said = code == Some(128 + SIGINT) || signal == Some(SIGINT);
        said && self.state.interrupted_at.is_some()
    }

    /// A start that came to nothing.
    pub(super) fn start_failed(&mut self, failure: Failure, rule: &str, now: Timestamp) {
        let outcome = if self.state.is_stopping() {
            Outcome::Interrupted
        } else {
            Outcome::Failed
        };
        let run = &mut self.state.run;
        run.failure = Some(failure);
        run.launch = Observed::new(Launch::Failed, Source::Process, now, rule);
        run.process = Observed::new(Process::Exited, Source::Process, now, rule);
        self.close(outcome, rule, now);
    }

    /// Closes the turn, and answers for what waits: nothing starts a program again by itself
    /// (S22).
    fn close(&mut self, outcome: Outcome, rule: &str, now: Timestamp) {
        self.fail_waiting(RUN_ENDED, now);
        self.state.interrupted_at = None;
        self.state.last_activity = self.state.last_activity.max(now);
        self.quiet_until = None;
        self.original = None;
        let ended = At {
            run: self.state.run.no,
            offset: self.state.run.consumed,
        };
        if let Some(turn) = self
            .state
            .turn
            .as_mut()
            .filter(|turn| turn.outcome.is_none())
        {
            turn.ended = Some(ended);
            turn.ended_at = Some(now);
            turn.outcome = Some(Observed::new(outcome, Source::Process, now, rule));
            let turn = turn.clone();
            self.pending.turn(turn, false);
            self.pending.trigger(match outcome {
                Outcome::Completed => Trigger::TurnCompleted,
                Outcome::Failed => Trigger::Failed,
                Outcome::Interrupted => Trigger::Stopped,
                Outcome::Unknown => Trigger::Lost,
            });
        }
        self.pending.trigger(Trigger::Ended);
        self.announce(now);
    }

    /// Passes a stop on that was asked for and did not reach the host.
    pub(super) fn pump_stop(&mut self, now: Timestamp) {
        if !self.can_stop() || self.calls.stop_at.is_some_and(|at| at > now) {
            return;
        }
        self.calls.stop_passed = true;
        self.calls.stop_at = None;
        let action = Action::Stop {
            run: self.state.run.no,
            rungs: ladder(),
            survivors: false,
        };
        if self.calls.stop_stored {
            self.at_once(action);
        } else {
            self.calls.stop_stored = true;
            self.after_commit(action);
            self.write_row(now);
        }
    }

    pub(super) fn stop_due(&self) -> Option<Timestamp> {
        self.calls.stop_at.filter(|_| self.can_stop())
    }

    fn can_stop(&self) -> bool {
        self.state.is_stopping()
            && !self.calls.stop_passed
            && self.can_call()
            && self.state.run.launch.value == Launch::Confirmed
            && self.state.run.process.value == Process::Alive
            && !self.has_ended()
    }

    pub(super) fn on_control_unknown(&mut self, run: u32, now: Timestamp) {
        if self.concerns(run) && self.state.is_stopping() {
            self.calls.stop_passed = false;
            self.calls.stop_at = Some(now.plus(limits::ASK_AFTER));
        }
    }

    /// Interrupts after the commit (S39).
    pub(super) fn interrupt(&mut self, now: Timestamp) {
        self.state.interrupted_at = Some(now);
        self.after_commit(Action::Signal {
            run: self.state.run.no,
            signal: SIGINT,
        });
        self.announce(now);
    }
}

/// What a command does at the host of a session when the store cannot be written: a program that fills its disk must
/// not be safe from its owner. The host keeps the intent of a stop itself, and its record of the end tells of it (S29).
/// `None`: the command does nothing without a commit.
pub fn urgent(state: &State, command: &Command) -> Option<Urgent> {
    let runs = state.run.launch.value == Launch::Confirmed && !state.is_over();
    match *command {
        Command::Stop { survivors } if if survivors { state.is_over() } else { runs } => {
            Some(Urgent::Stop {
                rungs: ladder(),
                survivors,
            })
        }
        Command::Interrupt if runs => Some(Urgent::Signal(SIGINT)),
        Command::Stop { .. }
        | Command::Interrupt
        | Command::Send { .. }
        | Command::Resume { .. }
        | Command::Cancel { .. } => None,
    }
}

/// The ladder of a closable program: the end of its input first, then signals.
pub(super) fn ladder() -> Vec<Rung> {
    let rung = |step, wait| Rung { step, wait };
    vec![
        rung(Step::CloseStdin, limits::STOP_CLOSE_WAIT),
        rung(Step::Signal(SIGINT), limits::STOP_INT_WAIT),
        rung(Step::Signal(SIGTERM), limits::STOP_TERM_WAIT),
        rung(Step::Signal(SIGKILL), limits::STOP_KILL_WAIT),
    ]
}
