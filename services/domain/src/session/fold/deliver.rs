//! Deliveries: one in flight per run, committed before the call, repeated with the same bytes
//! until the keeper has said how it ended (S17, S19).

use std::fmt::Write as _;

use super::{Fold, backoff, types::Action};
use crate::{
    DeliveryId, MessageId, Timestamp,
    delivery::{Answer, Delivery, Kind, Progress},
    limits,
    message::Delivery as Sent,
    session::{Exit, Failure, Launch, Process},
};

/// Reason of a message that a run's end overtook.
pub(super) const RUN_ENDED: &str = "RUN_ENDED";
/// Reason of a message that met the end of stdin.
const STDIN_CLOSED: &str = "STDIN_CLOSED";
/// Reason of a message to a run whose folder is gone, and with it the way to its stdin.
const FOLDER_GONE: &str = "RUN_FOLDER_GONE";
/// Reason of a message that met a dead keeper.
const NO_KEEPER: &str = "NO_KEEPER";
/// Reason of a message whose delivery nobody answers for.
const UNANSWERED: &str = "DELIVERY_UNANSWERED";

/// The delivery that may be under way.
#[derive(Debug)]
pub(super) struct Flight {
    delivery: Delivery,
    message: MessageId,
    /// A call is under way.
    busy: bool,
    /// The next call only asks.
    ask: bool,
    retry_at: Option<Timestamp>,
    attempts: u32,
    /// Questions since the run ended.
    questions: u32,
    /// The keeper was found dead.
    no_keeper: bool,
    /// The program ended after this many bytes were in its stdin.
    exited: Option<u64>,
}

/// How a delivery is judged.
struct Verdict {
    progress: Progress,
    state: Sent,
    reason: Option<String>,
    text: Option<String>,
}

impl Verdict {
    fn not_delivered(reason: &str) -> Self {
        Self {
            progress: Progress::NotDelivered,
            state: Sent::Failed,
            reason: Some(reason.to_owned()),
            text: None,
        }
    }

    fn unknown(reason: &str) -> Self {
        Self {
            progress: Progress::Unknown,
            state: Sent::Unconfirmed,
            reason: Some(reason.to_owned()),
            text: None,
        }
    }
}

impl Flight {
    fn new(delivery: Delivery, message: MessageId) -> Self {
        Self {
            delivery,
            message,
            busy: false,
            ask: false,
            retry_at: None,
            attempts: 0,
            questions: 0,
            no_keeper: false,
            exited: None,
        }
    }

    /// From the store: whether the call was made is not known.
    pub(super) fn restored(delivery: Delivery) -> Option<Self> {
        let message = *delivery.messages.first()?;
        let mut flight = Self::new(delivery, message);
        flight.ask = true;
        Some(flight)
    }

    pub(super) fn message(&self) -> MessageId {
        self.message
    }

    /// An answer may have been missed.
    pub(super) fn ask_again(&mut self, now: Timestamp) {
        if !self.busy {
            self.ask = true;
            self.retry_at = Some(now);
        }
    }

    /// The run ended: nothing is delivered any more, but the journal is asked.
    pub(super) fn run_ended(&mut self, now: Timestamp) {
        self.ask_again(now);
        self.ask = true;
    }

    fn retry(&mut self, ask: bool, now: Timestamp) {
        self.busy = false;
        self.ask = ask;
        self.attempts += 1;
        self.retry_at = Some(now.plus(backoff(self.attempts)));
    }
}

impl Fold {
    /// Delivers the first message that waits, or repeats the call that is due.
    pub(super) fn pump_delivery(&mut self, now: Timestamp) {
        if self.flight.is_none() && self.can_deliver() && self.state.run.stdin_closed {
            self.fail_waiting(STDIN_CLOSED, now);
        }
        if self.state.run.folder_missing {
            self.fail_waiting(FOLDER_GONE, now);
            return self.land(&Verdict::unknown(FOLDER_GONE), now);
        }
        if self.flight.is_none() && self.can_deliver() {
            if let Some(message) = self.queue.first() {
                self.dispatch(message, now);
            }
            return;
        }
        let deliverable = self.can_deliver();
        if !self.can_call() || !self.is_delivery_due(now) {
            return;
        }
        let run_ended = self.has_ended();
        let Some(flight) = &mut self.flight else {
            return;
        };
        let delivery = &flight.delivery;
        let (run, id) = (delivery.run, delivery.id);
        let action = if flight.ask || run_ended {
            flight.questions += u32::from(run_ended);
            flight.ask = true;
            Action::AskDelivery { run, delivery: id }
        } else if deliverable {
            deliver(delivery)
        } else {
            return;
        };
        flight.busy = true;
        flight.retry_at = None;
        self.at_once(action);
    }

    fn is_delivery_due(&self, now: Timestamp) -> bool {
        self.flight.as_ref().is_some_and(|flight| {
            !flight.busy && flight.exited.is_none() && flight.retry_at.is_none_or(|at| at <= now)
        })
    }

    pub(super) fn delivery_due(&self) -> Option<Timestamp> {
        let flight = self.flight.as_ref().filter(|_| self.can_call())?;
        flight
            .retry_at
            .filter(|_| !flight.busy && flight.exited.is_none())
    }

    /// The program lives, by what its host says, and takes input as far as is known. A stop
    /// holds what waits (S40).
    fn can_deliver(&self) -> bool {
        let run = &self.state.run;
        self.can_call()
            && run.launch.value == Launch::Confirmed
            && run.process.value == Process::Alive
            && !run.folder_missing
            && !self.has_ended()
            && (self.flight.is_some() || !self.state.is_stopping())
    }

    /// The end of the run is known, judged or not.
    pub(super) fn has_ended(&self) -> bool {
        self.state.run.exit.is_some() || self.lost.is_some() || self.state.is_over()
    }

    fn dispatch(&mut self, message: MessageId, now: Timestamp) {
        let Some(stored) = self.queue.get(message) else {
            self.queue.take(message);
            return;
        };
        let mut payload = super::queue::text_of(stored).as_bytes().to_vec();
        payload.push(b'\n');
        let run = self.state.run.no;
        let delivery = Delivery {
            id: DeliveryId::of_message(message, run),
            session: self.state.spec.id,
            run,
            kind: Kind::Message,
            messages: vec![message],
            payload,
            progress: Progress::Committed,
            created_at: now,
        };
        let id = delivery.id;
        self.queue.take(message);
        self.update(message, now, |message| {
            if let Some(sent) = &mut message.sent {
                sent.delivery = Some(id);
            }
        });
        self.pending.delivery(&delivery);
        self.after_commit(deliver(&delivery));
        self.state.in_flight = Some(id);
        let mut flight = Flight::new(delivery, message);
        flight.busy = true;
        self.flight = Some(flight);
        self.write_row(now);
    }

    pub(super) fn on_answer(&mut self, id: DeliveryId, answer: Answer, now: Timestamp) {
        let ended = self.has_ended();
        let Some(flight) = self
            .flight
            .as_mut()
            .filter(|flight| flight.delivery.id == id)
        else {
            return;
        };
        let asked = flight.ask;
        match answer {
            Answer::Delivered { .. } => {
                let verdict = Verdict {
                    progress: Progress::Delivered,
                    state: Sent::Written,
                    reason: None,
                    text: None,
                };
                self.land(&verdict, now);
            }
            Answer::Retry | Answer::Busy | Answer::DiskFull | Answer::InFlight => {
                flight.retry(ended, now);
                self.give_up(now);
            }
            Answer::StdinClosed => {
                self.state.run.stdin_closed = true;
                self.land(&Verdict::not_delivered(STDIN_CLOSED), now);
                self.announce(now);
            }
            Answer::NoKeeper if asked => self.land(&Verdict::unknown(NO_KEEPER), now),
            Answer::NoKeeper => {
                flight.no_keeper = true;
                flight.busy = false;
                flight.ask = true;
                flight.retry_at = Some(now);
            }
            Answer::Exited { written: 0 } => self.land(&Verdict::not_delivered(RUN_ENDED), now),
            Answer::Exited { written } => {
                flight.busy = false;
                flight.exited = Some(written);
                if !ended {
                    self.on_relist(now);
                }
            }
            Answer::Unseen if ended => self.land(&Verdict::not_delivered(RUN_ENDED), now),
            Answer::Unseen if flight.no_keeper => {
                self.land(&Verdict::not_delivered(NO_KEEPER), now);
            }
            Answer::Unseen => {
                flight.busy = false;
                flight.ask = false;
                flight.retry_at = None;
            }
        }
    }

    pub(super) fn on_delivery_refused(
        &mut self,
        id: DeliveryId,
        failure: &Failure,
        now: Timestamp,
    ) {
        if self.is_flying(id) {
            self.land(&Verdict::not_delivered(&failure.reason), now);
        }
    }

    pub(super) fn on_delivery_unknown(&mut self, id: DeliveryId, now: Timestamp) {
        if let Some(flight) = self
            .flight
            .as_mut()
            .filter(|flight| flight.delivery.id == id)
        {
            flight.retry(true, now);
            self.give_up(now);
        }
    }

    fn is_flying(&self, id: DeliveryId) -> bool {
        self.flight
            .as_ref()
            .is_some_and(|flight| flight.delivery.id == id)
    }

    /// The run ended, and its journal does not answer: nobody knows.
    fn give_up(&mut self, now: Timestamp) {
        let tired = |flight: &Flight| flight.questions >= limits::DELIVERY_QUESTIONS;
        if self.has_ended() && self.flight.as_ref().is_some_and(tired) {
            self.land(&Verdict::unknown(UNANSWERED), now);
        }
    }

    /// The run's end may be judged: it is known, or as well known as it ever will be, what
    /// became of the delivery.
    pub(super) fn is_delivery_settled(&self) -> bool {
        self.flight
            .as_ref()
            .is_none_or(|flight| flight.exited.is_some())
    }

    /// Bytes of the delivery that the program's end cut off, which are in its stdin.
    pub(super) fn cut_off(&self) -> Option<u64> {
        self.flight.as_ref().and_then(|flight| flight.exited)
    }

    /// Judges a delivery that the program's end cut off, by what was proven unread (S19).
    pub(super) fn land_cut_off(&mut self, now: Timestamp) {
        let Some((flight, written)) = self.flight.as_ref().zip(self.cut_off()) else {
            return;
        };
        let whole = flight.delivery.payload.len();
        let unread = self.state.run.exit.as_ref().and_then(unread);
        let mut text = format!("written {written} of {whole} bytes when the program ended");
        let mut verdict = if unread.is_some_and(|unread| unread >= written) {
            text.push_str("; none of them was read");
            Verdict::not_delivered(RUN_ENDED)
        } else {
            if let Some(unread) = unread {
                let _ = write!(text, "; {unread} of them were never read");
            }
            Verdict::unknown(RUN_ENDED)
        };
        verdict.text = Some(text);
        self.land(&verdict, now);
    }

    /// The delivery is over.
    fn land(&mut self, verdict: &Verdict, now: Timestamp) {
        let Some(mut flight) = self.flight.take() else {
            return;
        };
        flight.delivery.progress = verdict.progress;
        // Its bytes are needed no more: nothing repeats them.
        flight.delivery.payload.clear();
        self.pending.delivery(&flight.delivery);
        self.state.in_flight = None;
        self.explain_end(flight.message, verdict.text.as_deref(), now);
        self.finish(
            flight.message,
            verdict.state,
            verdict.reason.as_deref(),
            now,
        );
        self.write_row(now);
    }
}

fn deliver(delivery: &Delivery) -> Action {
    Action::Deliver {
        run: delivery.run,
        delivery: delivery.id,
        payload: delivery.payload.clone(),
        single_line: true,
    }
}

fn unread(exit: &Exit) -> Option<u64> {
    exit.stdin_unread
}
