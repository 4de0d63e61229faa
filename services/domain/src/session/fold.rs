//! Everything that decides about one session (docs/ARCHITECTURE.md, the way of one line of output).
//!
//! A fold takes facts and commands, and gives commits, then actions, and previews. It owns
//! the session's state; a shell moves what it gives:
//!
//! ```text
//! loop {
//!     fold.input(fact, now)  |  fold.command(command, now)
//!     fold.take_commit(now)      → commit to the store (at most one at a time)
//!     fold.committed(ticket)     when it is in the store
//!     fold.take_preview(now)     → publish
//!     fold.take_actions()        → do them
//!     sleep until fold.next_wakeup()
//! }
//! ```
//!
//! A fold whose commit failed must be dropped, and restored from the store: its state is
//! ahead of what is known.

mod commands;
mod commit;
mod deliver;
mod end;
mod launch;
mod output;
mod pending;
mod queue;
mod start;
#[cfg(test)]
mod tests;
mod types;
mod unread;

use std::collections::VecDeque;

use deliver::Flight;
pub use end::urgent;
use launch::Calls;
use output::{Growing, Growth};
use pending::Pending;
use queue::Queue;
pub use types::{
    Accepted, Action, Command, Commit, Fact, Mode, Rung, Step, Stored, Text, Ticket, Urgent,
};
use unread::Recall;

use super::state::{LostReason, Observed, Process, State};
use crate::{Timestamp, feed::Preview, limits, message::Message};

/// The decision-making of one session; see the module.
#[derive(Debug)]
pub struct Fold {
    state: State,
    queue: Queue,
    flight: Option<Flight>,
    growing: Option<Growing>,
    growth: Growth,
    calls: Calls,
    /// The host says that the run ended without a record, at this size of the stream.
    lost: Option<(LostReason, u64)>,
    /// The tail said that nothing follows.
    tail_ended: bool,
    /// A gap was announced: the next bytes may lie ahead.
    gap: bool,
    /// Whether the messages are at hand that the program may never have read.
    recall: Recall,
    /// What the store has of the process and of the link being up.
    shadow: (Process, bool),
    /// The process as it was stored before a restart, while nobody has reported it.
    original: Option<Observed<Process>>,
    /// After a restart: how long an unconfirmed process is not written down (S35).
    quiet_until: Option<Timestamp>,
    /// Subscribers know that the turn is stalled.
    stalled_told: bool,
    /// Subscribers know of the offer that follows this interrupt.
    offer_told: Option<Timestamp>,
    pending: Pending,
    outstanding: Option<(Ticket, Vec<Action>)>,
    last_ticket: Ticket,
    ready: Vec<Action>,
}

impl Fold {
    /// The state as decided, committed or not.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// User messages that wait, in order; the first may be in flight.
    pub fn waiting(&self) -> impl Iterator<Item = &Message> {
        self.queue
            .waiting(self.flight.as_ref().map(Flight::message))
    }

    /// Takes a fact in.
    pub fn input(&mut self, fact: Fact, now: Timestamp) {
        match fact {
            Fact::Bytes {
                run,
                offset,
                bytes,
                next,
            } => self.on_bytes(run, offset, &bytes, next, now),
            Fact::Gap { run, .. } => self.on_gap(run, now),
            Fact::Truncated { run } => self.on_truncated(run, now),
            Fact::Replaced { run } => self.on_replaced(run, now),
            Fact::Removed { run } => self.on_removed(run, now),
            Fact::Recalled { run, messages } => self.on_recalled(run, messages),
            Fact::RecallFailed { run } => self.on_recall_failed(run, now),
            Fact::TailEnd { run, late_bytes } => self.on_tail_end(run, late_bytes, now),
            Fact::TailLost { run } => self.on_tail_lost(run, now),
            Fact::Report(report) => self.on_report(*report, now),
            Fact::Absent { run } => self.on_absent(run, now),
            Fact::SpawnRefused { run, failure } => self.on_spawn_refused(run, failure, now),
            Fact::RunUnknown { run } => self.on_run_unknown(run, now),
            Fact::Answer { delivery, answer } => self.on_answer(delivery, answer, now),
            Fact::DeliveryRefused { delivery, failure } => {
                self.on_delivery_refused(delivery, &failure, now);
            }
            Fact::DeliveryUnknown { delivery } => self.on_delivery_unknown(delivery, now),
            Fact::ControlUnknown { run } => self.on_control_unknown(run, now),
            Fact::Relist => self.on_relist(now),
            Fact::Link(link) => self.on_link(link, now),
            Fact::Tick => {}
        }
        self.pump(now);
    }

    /// What follows from the state as it is: the one place that starts calls.
    fn pump(&mut self, now: Timestamp) {
        self.pump_launch(now);
        self.pump_end(now);
        self.pump_delivery(now);
        self.pump_stop(now);
        self.pump_tail(now);
        self.pump_stalled(now);
        self.pump_offer(now);
        self.reflect(now);
    }

    /// The shell may hand in more bytes; otherwise it leaves the tail alone until a commit
    /// (F19).
    pub fn wants_bytes(&self) -> bool {
        self.pending.bytes() < limits::UNCOMMITTED_BYTES
            && self.pending.messages() < limits::UNCOMMITTED_MESSAGES
    }

    /// Nothing more will come of this session by itself: it can be dropped, and loaded again
    /// when somebody asks for it.
    pub fn is_settled(&self) -> bool {
        !self.state.is_live()
            && self.flight.is_none()
            && !self.calls.is_attached()
            && self.pending.is_clean()
            && self.outstanding.is_none()
            && self.ready.is_empty()
    }

    /// When [`Fact::Tick`] should be handed in at the latest, also to take a commit or
    /// a preview; `None`: never, as things are.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let flush = match self.outstanding {
            Some(_) => None,
            None => self.pending.due(),
        };
        let times = [
            flush,
            self.growth.due(),
            self.launch_due(),
            self.delivery_due(),
            self.stop_due(),
            self.tail_due(),
            self.recall_due(),
            self.stalled_due(),
            self.offer_due(),
            self.quiet_until,
        ];
        times.into_iter().flatten().min()
    }

    /// All text of the growing message that is not in the store, when subscribers should see
    /// more of it now: the first piece at once, then at most once per
    /// [`limits::PREVIEW_EVERY`] (F16).
    pub fn take_preview(&mut self, now: Timestamp) -> Option<Preview> {
        self.growth.take(now)
    }

    /// All text of the growing message that is not in the store.
    pub fn growth(&self) -> Option<&Preview> {
        self.growth.current()
    }

    /// What is to be done now, in order; all of it is committed.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.ready)
    }

    /// Does this once what is decided now is committed.
    fn after_commit(&mut self, action: Action) {
        self.pending.after(action);
    }

    /// Does this now: it only asks, or repeats what was committed before.
    fn at_once(&mut self, action: Action) {
        self.ready.push(action);
    }

    /// Writes the session's row with the next commit, at once.
    fn write_row(&mut self, now: Timestamp) {
        self.pending.boundary(now);
    }

    /// Writes the session's row at once, and tells subscribers.
    fn announce(&mut self, now: Timestamp) {
        self.pending.boundary(now);
        self.pending.announce();
    }

    /// A fact or command concerns the latest run, and it is not over.
    fn concerns(&self, run: u32) -> bool {
        self.state.run.no == run && !self.state.is_over()
    }
}

/// How long to wait before call number `attempt` (from 1) is repeated.
fn backoff(attempt: u32) -> std::time::Duration {
    let doubled = limits::RETRY_FIRST.saturating_mul(1 << attempt.saturating_sub(1).min(10));
    doubled.min(limits::RETRY_CAP)
}

type MessageIds = VecDeque<crate::MessageId>;
