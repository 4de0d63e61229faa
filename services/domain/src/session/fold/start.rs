//! How a fold begins: with a new session, or with what the store has.

use super::{
    Fold,
    deliver::Flight,
    launch::Calls,
    output::{Growing, Growth},
    pending::Pending,
    queue::Queue,
    types::{Stored, Text, Ticket},
    unread::Recall,
};
use crate::{
    Fault, Timestamp, TurnId,
    id::At,
    limits,
    session::{Launch, Link, Observed, Process, Run, Source, Spec, State, Turn},
    task::Trigger,
};

impl Fold {
    /// A new session with its first run; the first commit inserts its row. The shell hands in
    /// the link's state before it takes that commit.
    ///
    /// # Errors
    /// The prompt is refused as a message would be (S14, S22).
    pub fn start(spec: Spec, prompt: Option<Text>, now: Timestamp) -> Result<Self, Fault> {
        let link = Observed::new(Link::Connecting, Source::Link, now, "r4_not_yet_seen");
        let state = State {
            link,
            version: 0,
            run: new_run(1, "s7_start", now),
            turn: None,
            stop: None,
            interrupted_at: None,
            messages: 0,
            waiting: 0,
            in_flight: None,
            last_activity: now,
            archived: false,
            accepted: 0,
            resumes: Vec::new(),
            spec,
        };
        let mut fold = Self::with(state, Calls::fresh());
        fold.open_turn(now);
        fold.announce(now);
        if let Some(prompt) = prompt {
            fold.accept(prompt, now)?;
        }
        Ok(fold)
    }

    /// Goes on with what the store has. What ran is unknown until its host reports it; when
    /// the report says what was stored, nothing is written (S35).
    pub fn restore(stored: Stored, now: Timestamp) -> Self {
        let Stored {
            mut state,
            waiting,
            deliveries,
            growing,
        } = stored;
        let shadow = (state.run.process.value, state.link.value.is_up());
        let mut original = None;
        if !state.is_over() {
            state.link = Observed::new(Link::Connecting, Source::Link, now, "s35_restart");
            let unknown = Observed::new(Process::Unknown, Source::Link, now, "s35_restart");
            original = Some(std::mem::replace(&mut state.run.process, unknown));
        }
        let mut fold = Self::with(state, Calls::restored(now));
        fold.shadow = shadow;
        fold.original = original;
        fold.quiet_until = Some(now.plus(limits::READY_AFTER)).filter(|_| !fold.state.is_over());
        fold.stalled_told = crate::session::status::is_stalled(&fold.state, now);
        fold.offer_told = fold
            .state
            .interrupted_at
            .filter(|at| at.plus(limits::INTERRUPT_EFFECT) <= now);
        fold.growing = growing.map(Growing::stored);
        for message in waiting {
            fold.queue.push(message);
        }
        let session = fold.state.spec.id;
        let flying = deliveries
            .into_iter()
            .find(|delivery| delivery.session == session);
        if let Some(flight) = flying.and_then(Flight::restored) {
            fold.queue.take(flight.message());
            fold.flight = Some(flight);
        }
        fold.pump(now);
        fold
    }

    fn with(state: State, calls: Calls) -> Self {
        Self {
            shadow: (state.run.process.value, state.link.value.is_up()),
            state,
            queue: Queue::default(),
            flight: None,
            growing: None,
            growth: Growth::default(),
            calls,
            lost: None,
            tail_ended: false,
            gap: false,
            recall: Recall::default(),
            original: None,
            quiet_until: None,
            stalled_told: false,
            offer_told: None,
            pending: Pending::default(),
            outstanding: None,
            last_ticket: Ticket(0),
            ready: Vec::new(),
        }
    }

    /// Goes on with the next run (S10).
    pub(super) fn next_run(&mut self, now: Timestamp) {
        // The tail of the run before may still wait for its late bytes.
        self.detach();
        self.state.run = new_run(self.state.run.no + 1, "s10_resume", now);
        self.state.stop = None;
        self.state.interrupted_at = None;
        self.state.last_activity = now;
        self.calls = Calls::fresh();
        self.lost = None;
        self.tail_ended = false;
        self.gap = false;
        self.recall = Recall::default();
        self.original = None;
        self.stalled_told = false;
        if !self.state.link.value.is_up() {
            self.lose_sight(now);
        }
        if let Some(slot) = self.state.spec.slot {
            self.pending.trigger(Trigger::Resumed(slot));
        }
        self.open_turn(now);
        self.announce(now);
    }

    /// The turn of the run, opened by its start (S22).
    fn open_turn(&mut self, now: Timestamp) {
        let began = At {
            run: self.state.run.no,
            offset: 0,
        };
        let turn = Turn {
            id: TurnId::of_output(self.state.spec.id, began),
            run: began.run,
            began,
            began_at: now,
            ended: None,
            ended_at: None,
            outcome: None,
        };
        self.state.turn = Some(turn.clone());
        self.pending.turn(turn, !self.queue.is_empty());
        self.pending.trigger(Trigger::TurnStarted);
    }
}

fn new_run(no: u32, rule: &str, now: Timestamp) -> Run {
    Run {
        no,
        launch: Observed::new(Launch::Requested, Source::User, now, rule),
        process: Observed::new(Process::Starting, Source::User, now, rule),
        identity: None,
        keeper: None,
        stdin_closed: false,
        consumed: 0,
        cursor: Vec::new(),
        exit: None,
        failure: None,
        cwd_exists: true,
        started_at: None,
        outputs: 0,
        damaged_lines: 0,
        late_bytes: 0,
        damage: None,
        partial: Vec::new(),
        line_damaged: false,
        base: 0,
        survivors: None,
        folder_missing: false,
        exit_damaged: false,
    }
}
