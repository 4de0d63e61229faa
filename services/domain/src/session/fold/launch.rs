//! The start of a run, what its host reports of it, and the link to that host.

use super::{
    Fold, backoff,
    types::{Action, Ticket},
};
use crate::{
    Timestamp, limits,
    session::{
        Damage, Exit, Failure, Identity, Launch, Link, LostReason, Observed, Process, Run,
        RunReport, Source,
    },
};

/// Calls about the run that are due or under way.
#[derive(Debug)]
pub(super) struct Calls {
    /// A start is due.
    spawn: bool,
    /// The start's row is in the store: the call need not wait for a commit.
    stored: bool,
    /// The call is decided, and waits for this commit.
    held: Option<Ticket>,
    /// The host is to be asked, from this time on.
    ask: Option<Timestamp>,
    /// A start or a question is under way.
    busy: bool,
    attempts: u32,
    /// The run's stream is followed.
    attached: bool,
    attach_at: Option<Timestamp>,
    attach_attempts: u32,
    /// The stop was passed on.
    pub(super) stop_passed: bool,
    pub(super) stop_at: Option<Timestamp>,
    pub(super) stop_stored: bool,
}

impl Calls {
    /// Of a run that was just asked for.
    pub(super) fn fresh() -> Self {
        Self {
            spawn: true,
            stored: false,
            held: None,
            ask: None,
            busy: false,
            attempts: 0,
            attached: false,
            attach_at: None,
            attach_attempts: 0,
            stop_passed: false,
            stop_at: None,
            stop_stored: false,
        }
    }

    /// Of a run that the store knows: nothing is started before its host was asked.
    pub(super) fn restored(now: Timestamp) -> Self {
        Self {
            spawn: false,
            stored: true,
            ask: Some(now),
            stop_stored: true,
            ..Self::fresh()
        }
    }

    pub(super) fn committed(&mut self, ticket: Ticket) {
        if self.held.is_some_and(|held| held <= ticket) {
            self.held = None;
            self.stored = true;
        }
    }

    pub(super) fn is_attached(&self) -> bool {
        self.attached
    }

    pub(super) fn detach(&mut self) {
        self.attached = false;
    }

    /// Bytes came: the tail works.
    pub(super) fn tail_works(&mut self) {
        self.attach_attempts = 0;
    }

    fn answered(&mut self) {
        self.busy = false;
        self.attempts = 0;
        self.ask = None;
    }
}

impl Fold {
    pub(super) fn on_link(&mut self, link: Link, now: Timestamp) {
        if link == self.state.link.value {
            return;
        }
        let was_up = self.state.link.value.is_up();
        self.state.link = Observed::new(link, Source::Link, now, "r4_link");
        if self.state.is_over() {
            // Of an ended session only its survivors are asked for.
            self.calls.busy = false;
            self.calls.ask = Some(now).filter(|_| link.is_up() && self.state.is_live());
            return;
        }
        if !link.is_up() {
            self.lose_sight(now);
        } else if !was_up && self.calls.held.is_none() {
            // What was under way is cut. A start that waits for its commit is not: it will be made, so nobody may
            // be asked before whether it was, and conclude from the answer that it will not be.
            self.calls.busy = false;
            // The host reports by itself; this is for when it does not.
            let later = now.plus(limits::ASK_AFTER);
            self.calls.ask = Some(self.calls.ask.map_or(later, |at| at.min(later)));
        }
    }

    /// The host cannot be asked: nothing is concluded from that (S31).
    pub(super) fn lose_sight(&mut self, now: Timestamp) {
        if self.state.run.process.value != Process::Unknown {
            self.state.run.process =
                Observed::new(Process::Unknown, Source::Link, now, "s31_link_down");
        }
    }

    pub(super) fn on_relist(&mut self, now: Timestamp) {
        if !self.state.is_live() {
            return;
        }
        self.calls.ask = Some(now);
        // Without its folder a run has no keeper that would finish a stop which was passed on.
        if self.state.run.folder_missing {
            self.calls.stop_passed = false;
        }
        if let Some(flight) = &mut self.flight {
            flight.ask_again(now);
        }
    }

    pub(super) fn on_run_unknown(&mut self, run: u32, now: Timestamp) {
        if self.state.run.no == run && self.state.is_live() {
            self.calls.busy = false;
            self.calls.attempts += 1;
            self.calls.ask = Some(now.plus(backoff(self.calls.attempts)));
        }
    }

    pub(super) fn on_spawn_refused(&mut self, run: u32, failure: Failure, now: Timestamp) {
        if self.concerns(run) && self.state.run.launch.value == Launch::Requested {
            self.calls.answered();
            self.start_failed(failure, "s8_start_refused", now);
        }
    }

    /// The agent looked and has no such run, nor a process of it: a start that was asked for
    /// may be made (S7), and one that was confirmed has lost its folder and its processes.
    pub(super) fn on_absent(&mut self, run: u32, now: Timestamp) {
        if self.state.run.no != run {
            return;
        }
        self.calls.answered();
        if self.state.is_over() {
            return self.see_survivors(Vec::new(), now);
        }
        if self.state.run.launch.value == Launch::Requested {
            self.never_started(now);
        } else {
            self.state.run.folder_missing = true;
            let size = self.state.run.file_consumed();
            self.lost.get_or_insert((LostReason::Folder, size));
        }
    }

    fn never_started(&mut self, now: Timestamp) {
        if self.state.is_stopping() {
            let failure = Failure {
                reason: "STOPPED".to_owned(),
                text: "it was stopped before it was started".to_owned(),
            };
            self.start_failed(failure, "s39_stopped_before_start", now);
        } else {
            self.calls.spawn = true;
            self.see(Process::Starting, "s7_start", now);
        }
    }

    pub(super) fn on_report(&mut self, report: RunReport, now: Timestamp) {
        if self.state.run.no != report.run {
            return;
        }
        self.calls.answered();
        if self.state.is_over() {
            if let Some(survivors) = report.survivors {
                self.see_survivors(survivors, now);
            }
            return;
        }
        let before = shown(&self.state.run);
        let Some(process) = report.process else {
            match report.failure {
                Some(failure) => self.on_spawn_refused(report.run, failure, now),
                None => self.on_absent(report.run, now),
            }
            return;
        };
        let size = report.stream_size;
        self.take_facts(report);
        if self.state.run.folder_missing {
            self.damage(Damage::Removed, now);
        }
        match process {
            Process::Starting => {
                self.see(Process::Starting, "s8_keeper_starts", now);
                self.calls.ask = Some(now.plus(limits::ASK_AFTER));
            }
            Process::Alive => {
                self.confirm(now);
                if self.state.run.exit.is_none() {
                    self.see(Process::Alive, "s34_process_watch", now);
                }
            }
            // Judged when its output was read (S29).
            Process::Exited => {
                self.confirm(now);
                if self.state.run.exit.is_none() {
                    self.calls.ask = Some(now.plus(limits::ASK_AFTER));
                } else if let Some(flight) = &mut self.flight {
                    flight.run_ended(now);
                }
            }
            Process::Lost(reason) => {
                self.confirm(now);
                self.lost = Some((reason, size));
                if let Some(flight) = &mut self.flight {
                    flight.run_ended(now);
                }
            }
            Process::Unknown => {}
        }
        if shown(&self.state.run) != before {
            self.state.last_activity = now;
            self.announce(now);
        }
    }

    fn take_facts(&mut self, report: RunReport) {
        let run = &mut self.state.run;
        run.identity = report.identity.or(run.identity.take());
        run.keeper = report.keeper;
        run.stdin_closed |= report.stdin_closed;
        run.cwd_exists = report.cwd_exists;
        run.started_at = report.started_at.or(run.started_at);
        run.exit = run.exit.take().or(report.exit.map(bounded));
        run.survivors = report.survivors.or(run.survivors.take());
        run.folder_missing = report.folder_missing;
        run.exit_damaged = report.exit_damaged;
    }

    /// Processes of the ended run that live on, or do no more (S33).
    fn see_survivors(&mut self, survivors: Vec<Identity>, now: Timestamp) {
        if self.state.run.survivors() != survivors {
            self.state.run.survivors = Some(survivors);
            self.announce(now);
        }
    }

    /// The start came about.
    fn confirm(&mut self, now: Timestamp) {
        self.calls.spawn = false;
        if self.state.run.launch.value != Launch::Confirmed {
            self.state.run.launch =
                Observed::new(Launch::Confirmed, Source::Process, now, "s8_process_seen");
        }
    }

    /// The host says how the process stands. The same as before leaves the evidence alone.
    fn see(&mut self, value: Process, rule: &str, now: Timestamp) {
        let original = self.original.take();
        if self.state.run.process.value == value {
            return;
        }
        self.state.run.process = match original {
            Some(original) if original.value == value => original,
            Some(_) | None => Observed::new(value, Source::Process, now, rule),
        };
    }

    /// Starts what is to be started, and asks what is to be asked.
    pub(super) fn pump_launch(&mut self, now: Timestamp) {
        if !self.can_ask() || self.calls.busy {
            return;
        }
        let run = self.state.run.no;
        if self.calls.spawn {
            self.calls.spawn = false;
            self.calls.busy = true;
            if self.calls.stored {
                self.at_once(Action::Spawn { run });
            } else {
                self.calls.held = Some(self.next_ticket());
                self.after_commit(Action::Spawn { run });
                self.write_row(now);
            }
        } else if self.calls.ask.is_some_and(|at| at <= now) {
            self.calls.ask = None;
            self.calls.busy = true;
            self.at_once(Action::AskRun { run });
        }
    }

    pub(super) fn launch_due(&self) -> Option<Timestamp> {
        self.calls
            .ask
            .filter(|_| self.can_ask() && !self.calls.busy)
    }

    /// Follows the stream of a run that is known to be there.
    pub(super) fn pump_tail(&mut self, now: Timestamp) {
        if !self.can_attach() || self.calls.attach_at.is_some_and(|at| at > now) {
            return;
        }
        self.calls.attached = true;
        self.calls.attach_at = None;
        self.at_once(Action::Attach {
            run: self.state.run.no,
            cursor: self.state.run.cursor.clone(),
        });
    }

    pub(super) fn tail_due(&self) -> Option<Timestamp> {
        self.calls.attach_at.filter(|_| self.can_attach())
    }

    fn can_attach(&self) -> bool {
        let confirmed = self.state.run.launch.value == Launch::Confirmed;
        let reported = self.state.run.process.value == Process::Alive
            || self.state.run.exit.is_some()
            || self.lost.is_some();
        let there = !self.state.run.folder_missing;
        confirmed
            && reported
            && there
            && self.can_call()
            && !self.calls.attached
            && !self.tail_ended
    }

    pub(super) fn on_tail_lost(&mut self, run: u32, now: Timestamp) {
        if self.state.run.no == run {
            self.calls.attached = false;
            self.calls.attach_attempts += 1;
            self.calls.attach_at = Some(now.plus(backoff(self.calls.attach_attempts)));
        }
    }

    /// Follows anew from the cursor, after bytes that do not fit.
    pub(super) fn attach_again(&mut self, now: Timestamp) {
        let run = self.state.run.no;
        self.at_once(Action::Detach { run });
        self.on_tail_lost(run, now);
    }

    /// The host can be called about a run that is not over.
    pub(super) fn can_call(&self) -> bool {
        self.state.link.value.is_up() && !self.state.is_over()
    }

    /// The host can be asked about a run of which something lives.
    fn can_ask(&self) -> bool {
        self.state.link.value.is_up() && self.state.is_live()
    }

    /// Subscribers are told once that a turn is stalled (S32).
    pub(super) fn pump_stalled(&mut self, now: Timestamp) {
        if self.stalled_due().is_some_and(|at| at <= now) {
            self.stalled_told = true;
            self.announce(now);
        }
    }

    /// Subscribers are told once that a stop is offered (S39).
    pub(super) fn pump_offer(&mut self, now: Timestamp) {
        if self.offer_due().is_some_and(|at| at <= now) {
            self.offer_told = self.state.interrupted_at;
            self.announce(now);
        }
    }

    pub(super) fn offer_due(&self) -> Option<Timestamp> {
        let told = self.offer_told == self.state.interrupted_at;
        let due = crate::session::status::stop_offered_at(&self.state);
        due.filter(|_| !told)
    }

    pub(super) fn stalled_due(&self) -> Option<Timestamp> {
        let watched = !self.stalled_told
            && self.state.run.process.value == Process::Alive
            && self.state.open_turn().is_some();
        watched.then_some(crate::session::status::stalled_at(&self.state))
    }
}

/// What of a run is told to subscribers when a report changes it. The process itself is
/// compared with what is stored ([`Fold::reflect`]).
fn shown(run: &Run) -> Run {
    let mut shown = run.clone();
    shown.process.value = Process::Unknown;
    shown.process.source = Source::Process;
    shown.process.at = Timestamp(0);
    shown.process.rule.clear();
    shown
}

/// The exit record with no more of stderr than is kept (S29), and no NUL, which not every
/// database stores.
fn bounded(mut exit: Exit) -> Exit {
    let text = exit.stderr_tail.replace('\0', "\u{2400}");
    let from = text.len().saturating_sub(limits::STDERR_TAIL_BYTES);
    exit.stderr_tail = text[text.ceil_char_boundary(from)..].to_owned();
    exit
}
