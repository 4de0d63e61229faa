//! The stop ladder, and single signals: always to the whole tree, each by identity.

use std::time::Duration;

use muster_proto::keeper::{Rung, Stop, rung::Action};
use rustix::process::Signal;

use super::{
    Keeper,
    clock::wall_us,
    delivery::Begun,
    payload::{Refusal, check_id, invalid},
};
use crate::{
    proc::{Identity, Signalled, Tree, signal_identity, signal_of},
    run_dir::{EndKind, JournalRecord, RungAction},
};

const RUNGS_MAX: usize = 16;
/// Longest wait of one rung.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Pauses between two looks at the tree: first and longest.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_LONGEST: Duration = Duration::from_millis(500);

/// The ladder that is climbed.
#[derive(Debug)]
pub(super) struct Ladder {
    stop_id: String,
    rungs: Vec<Rung>,
    /// The next rung.
    next: usize,
    /// When it is climbed.
    deadline: Duration,
    look_at: Duration,
    pause: Duration,
    /// SIGKILL is repeated at each look: what was forked meanwhile is hit as well.
    killing: bool,
    end_line: Option<String>,
}

impl Keeper {
    /// Starts a ladder, or joins the one that runs.
    pub(super) fn stop(&mut self, call: Stop, now: Duration) -> Result<(), Refusal> {
        check_id(&call.stop_id)?;
        if call.rungs.is_empty() || call.rungs.len() > RUNGS_MAX {
            return Err(invalid("a ladder has 1 to 16 rungs"));
        }
        for rung in &call.rungs {
            if let Some(Action::EndLine(line)) = &rung.action {
                check_id(&line.delivery_id)?;
            }
        }
        let actions: Option<Vec<_>> = call.rungs.iter().map(action_of).collect();
        let Some(rungs) = actions else {
            return Err(invalid(
                "a rung has an action, and a signal is a standard one",
            ));
        };
        self.journal.append_fact(JournalRecord::Stop {
            at_us: wall_us(),
            stop_id: call.stop_id.clone(),
            requested: call.requested,
            rungs,
        });
        self.stopping = true;
        self.stop_requested |= call.requested;
        if self.ladder.is_none() {
            self.ladder = Some(Ladder {
                stop_id: call.stop_id,
                rungs: call.rungs,
                next: 0,
                deadline: now,
                look_at: now,
                pause: LOOK_FIRST,
                killing: false,
                end_line: None,
            });
        }
        Ok(())
    }

    /// Climbs as far as it is time for, and ends the ladder when the tree is gone.
    pub(super) fn step_ladder(&mut self, now: Duration) {
        loop {
            let ended = self.ended.is_some();
            let Some(ladder) = &mut self.ladder else {
                return;
            };
            if now >= ladder.look_at {
                ladder.look_at = now + ladder.pause;
                ladder.pause = (ladder.pause * 2).min(LOOK_LONGEST);
                let killing = ladder.killing;
                if ended && self.tree_is_gone() {
                    self.end_ladder(Vec::new());
                    return;
                }
                if killing {
                    self.signal_again(Signal::KILL);
                }
            }
            let Some(ladder) = &mut self.ladder else {
                return;
            };
            if now < ladder.deadline {
                return;
            }
            let Some(rung) = ladder.rungs.get(ladder.next).cloned() else {
                let left = self.living_members();
                self.end_ladder(left);
                return;
            };
            self.climb(rung, now);
        }
    }

    fn climb(&mut self, rung: Rung, now: Duration) {
        let (Some(ladder), Some(action)) = (&mut self.ladder, action_of(&rung)) else {
            return;
        };
        let stop_id = ladder.stop_id.clone();
        let index = u32::try_from(ladder.next).unwrap_or(u32::MAX);
        let wait = Duration::from_millis(rung.wait_ms.into()).min(WAIT_MAX);
        ladder.next += 1;
        ladder.deadline = now + wait;
        ladder.pause = LOOK_FIRST;
        ladder.look_at = now + LOOK_FIRST;
        ladder.killing = action == RungAction::Signal(Signal::KILL.as_raw());
        self.journal.append_fact(JournalRecord::Rung {
            at_us: wall_us(),
            stop_id: stop_id.clone(),
            index,
            action,
        });
        let taken = match rung.action {
            Some(Action::Signal(number)) => {
                if let Some(signal) = signal_of(number) {
                    self.signal_tree(signal, &stop_id);
                }
                true
            }
            Some(Action::CloseStdin(_)) => self.ended.is_none() && self.close_stdin().is_ok(),
            Some(Action::EndLine(line)) => {
                if let Some(ladder) = &mut self.ladder {
                    ladder.end_line = Some(line.delivery_id.clone());
                }
                // One that ended already has moved the deadline itself.
                matches!(
                    self.deliver(&line, wait, now),
                    Ok(Begun::Waits) | Ok(Begun::Answer(_))
                ) && self.end_line_is_on_its_way(&line.delivery_id)
            }
            None => false,
        };
        if !taken && let Some(ladder) = &mut self.ladder {
            ladder.deadline = now;
        }
    }

    /// A polite end that is not in the pipe and will not be is no reason to wait.
    fn end_line_is_on_its_way(&self, id: &str) -> bool {
        use muster_proto::keeper::OutcomeKind::{Delivered, InFlight};
        let known = self.known_delivery(id);
        known.is_ok_and(|known| {
            known.is_some_and(|known| matches!(known.kind(), Delivered | InFlight))
        })
    }

    /// Told of each end of a delivery: a polite end that failed ends its rung.
    pub(super) fn ladder_delivery_ended(&mut self, id: &str, end: EndKind) {
        if let Some(ladder) = &mut self.ladder
            && ladder.end_line.as_deref() == Some(id)
            && end != EndKind::Delivered
        {
            ladder.deadline = Duration::ZERO;
        }
    }

    fn end_ladder(&mut self, left: Vec<Identity>) {
        if let Some(ladder) = self.ladder.take() {
            self.journal.append_fact(JournalRecord::StopEnded {
                at_us: wall_us(),
                stop_id: ladder.stop_id,
                left,
            });
        }
    }

    /// When the ladder needs attention.
    pub(super) fn ladder_deadline(&self) -> Option<Duration> {
        let ladder = self.ladder.as_ref()?;
        // While the program lives its end is told by its pidfd, and nothing is to be looked
        // at but what a kill is repeated for.
        let looks = self.ended.is_some() || ladder.killing;
        Some(if looks {
            ladder.deadline.min(ladder.look_at)
        } else {
            ladder.deadline
        })
    }

    /// The tree as it is now.
    pub(super) fn tree(&self) -> Tree {
        Tree {
            marker: self.marker.clone(),
            program: self.ended.is_none().then_some(self.process),
            reaper: self.is_parent.then_some(self.own.pid),
        }
    }

    /// Living members that belong to this user. Empty as well when `/proc` cannot be read:
    /// for verdicts ask [`Keeper::tree_is_gone`].
    pub(super) fn living_members(&self) -> Vec<Identity> {
        let members = self.tree().members().unwrap_or_default();
        let ours = members.into_iter().filter(|member| !member.foreign);
        ours.map(|member| member.identity).collect()
    }

    /// Nobody of the tree lives; a failed look is no evidence for it.
    pub(super) fn tree_is_gone(&self) -> bool {
        let members = self.tree().members();
        members.is_ok_and(|members| members.iter().all(|member| member.foreign))
    }

    /// Sends a signal to the whole tree and journals who got it.
    pub(super) fn signal_tree(&mut self, signal: Signal, request_id: &str) -> Vec<Identity> {
        let targets = self.signal_again(signal);
        self.signalled = true;
        self.journal.append_fact(JournalRecord::Signal {
            at_us: wall_us(),
            signal: signal.as_raw(),
            request_id: request_id.to_owned(),
            targets: targets.clone(),
        });
        targets
    }

    fn signal_again(&self, signal: Signal) -> Vec<Identity> {
        let mut targets = self.living_members();
        targets.retain(|target| {
            let sent = signal_identity(&self.boot, *target, signal);
            matches!(sent, Ok(Signalled::Sent))
        });
        targets
    }
}

fn action_of(rung: &Rung) -> Option<RungAction> {
    match rung.action.as_ref()? {
        Action::EndLine(line) => Some(RungAction::EndLine(line.delivery_id.clone())),
        Action::CloseStdin(_) => Some(RungAction::CloseStdin),
        Action::Signal(number) => signal_of(*number).map(|_| RungAction::Signal(*number)),
    }
}
