//! Deliveries: one at a time, journalled before the first byte, finished once begun.

use std::{io, time::Duration};

use muster_proto::keeper::{
    Deliver, Event, FailureReason, Outcome, OutcomeKind, event, reply::Answer,
};
use muster_runtime::failpoint::hit;

use super::{
    Keeper,
    clock::wall_us,
    payload::{Payload, Refusal, check_id, internal, invalid},
};
use crate::run_dir::{Delivery, EndKind, JournalRecord, is_full};

/// Longest wait of a call.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// After the pipe broke: how long the program may take to be known as ended. It closes its
/// descriptors some moments before.
const BREAK_GRACE: Duration = Duration::from_secs(1);
/// Calls that wait for one delivery; further ones are answered at once.
const WAITERS_MAX: usize = 64;

/// The delivery that has begun.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) id: String,
    payload: Payload,
    digest: String,
    written: u64,
    stream_before: u64,
    /// Until then the first byte may be written; later it counts as not tried.
    deadline: Duration,
    /// The reader is gone; at this time that is the outcome.
    broken_until: Option<Duration>,
}

/// A call that waits for the end of the delivery.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) conn: u64,
    pub(super) seq: u64,
    pub(super) deadline: Duration,
}

/// What a call gets.
#[derive(Debug)]
pub(super) enum Begun {
    /// At once.
    Answer(Outcome),
    /// When the delivery ends or the call has waited long enough.
    Waits,
}

impl Keeper {
    /// Begins a delivery, or says what became of it. `wait`: how long its first byte may
    /// take.
    pub(super) fn deliver(
        &mut self,
        call: &Deliver,
        wait: Duration,
        now: Duration,
    ) -> Result<Begun, Refusal> {
        check_id(&call.delivery_id)?;
        if let Some(known) = self.known_delivery(&call.delivery_id)?
            && known.kind() != OutcomeKind::Retry
        {
            return self.repeat(call, known, wait, now);
        }
        let id = call.delivery_id.clone();
        let refused = |kind| Ok(Begun::Answer(outcome(&id, kind)));
        if self.ended.is_some() {
            return refused(OutcomeKind::Exited);
        }
        let payload = Payload::of(&self.dir, call)?;
        if let Some(other) = &self.delivery {
            return Ok(Begun::Answer(Outcome {
                busy_with: other.id.clone(),
                ..outcome(&id, OutcomeKind::Busy)
            }));
        }
        if !self.stdin.is_open() || self.close_pending {
            return refused(OutcomeKind::StdinClosed);
        }
        let digest = payload.digest().map_err(|error| internal(&error))?;
        let stream_before = self.stream_size();
        hit("keeper.before_start");
        let started = self.journal.append(&JournalRecord::Start {
            at_us: wall_us(),
            id: id.clone(),
            bytes: payload.length(),
            digest: digest.clone(),
            stream_before,
        });
        match started {
            Ok(()) => {}
            Err(error) if is_full(&error) => return refused(OutcomeKind::DiskFull),
            Err(error) => return Err(internal(&error)),
        }
        hit("keeper.after_start");
        self.delivery = Some(InFlight {
            id: id.clone(),
            payload,
            digest,
            written: 0,
            stream_before,
            deadline: now + wait,
            broken_until: None,
        });
        Ok(match self.pump(now) {
            Some(ended) => Begun::Answer(ended),
            None => Begun::Waits,
        })
    }

    /// A call with an id that was seen before: nothing is written a second time.
    fn repeat(
        &mut self,
        call: &Deliver,
        known: Outcome,
        wait: Duration,
        now: Duration,
    ) -> Result<Begun, Refusal> {
        let Some(current) = &mut self.delivery else {
            return Ok(Begun::Answer(known));
        };
        if current.id != call.delivery_id {
            return Ok(Begun::Answer(known));
        }
        let payload = Payload::of(&self.dir, call)?;
        let digest = payload.digest().map_err(|error| internal(&error))?;
        if digest != current.digest {
            return Err(invalid(
                "another payload under the id of a delivery in flight",
            ));
        }
        current.deadline = current.deadline.max(now + wait);
        Ok(Begun::Waits)
    }

    /// What is known about an id; `None` when the journal has never seen it.
    pub(super) fn known_delivery(&self, id: &str) -> Result<Option<Outcome>, Refusal> {
        if let Some(current) = self.delivery.as_ref().filter(|current| current.id == id) {
            return Ok(Some(self.progress(current)));
        }
        let found = self.journal.find(&self.dir, id);
        let found = found.map_err(|error| internal(&error))?;
        Ok(found.map(|delivery| match delivery {
            // Begun by an earlier keeper, which died with it.
            Delivery::Started { .. } => delivery.outcome(id, self.ended.is_some()),
            Delivery::Ended { .. } => delivery.outcome(id, true),
        }))
    }

    fn progress(&self, current: &InFlight) -> Outcome {
        Outcome {
            stream_size_before: current.stream_before,
            bytes_written: current.written,
            ..outcome(&current.id, OutcomeKind::InFlight)
        }
    }

    /// Lets a call wait, or answers it if too many do.
    pub(super) fn wait_for_delivery(&mut self, waiter: Waiter) {
        if self.waiters.len() < WAITERS_MAX {
            self.waiters.push(waiter);
        } else if let Some(current) = &self.delivery {
            let progress = self.progress(current);
            self.reply(waiter.conn, waiter.seq, Answer::Outcome(progress));
        }
    }

    /// Goes on writing, and answers everybody when that was the end.
    pub(super) fn step_delivery(&mut self, now: Duration) {
        self.pump(now);
        let Some(current) = &self.delivery else {
            return;
        };
        let progress = self.progress(current);
        let (late, waiting) = std::mem::take(&mut self.waiters)
            .into_iter()
            .partition(|waiter| waiter.deadline <= now);
        self.waiters = waiting;
        let late: Vec<Waiter> = late;
        for waiter in late {
            self.reply(waiter.conn, waiter.seq, Answer::Outcome(progress.clone()));
        }
    }

    /// Writes what the pipe takes. The outcome, when the delivery ended by it.
    fn pump(&mut self, now: Duration) -> Option<Outcome> {
        let end = self.write_some(now)?;
        Some(self.end_delivery(end))
    }

    fn write_some(&mut self, now: Duration) -> Option<EndKind> {
        let current = self.delivery.as_mut()?;
        if self.ended.is_some() {
            return Some(EndKind::Exited);
        }
        if let Some(until) = current.broken_until {
            return (now >= until).then_some(EndKind::StdinClosed);
        }
        let Some(mut writer) = self.stdin.writer() else {
            return Some(EndKind::StdinClosed);
        };
        while current.written < current.payload.length() {
            let piece = match current.payload.piece(current.written) {
                Ok(piece) => piece,
                // The rest of a spool file is gone: the line stays unfinished, nothing may
                // follow it, and the program's end closes the account.
                Err(_) => {
                    current.broken_until = Some(Duration::MAX);
                    return None;
                }
            };
            match io::Write::write(&mut writer, &piece) {
                Ok(written) => current.written += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let untouched = current.written == 0;
                    let withdrawn = now >= current.deadline || self.close_pending;
                    return (untouched && withdrawn).then_some(EndKind::Retry);
                }
                Err(_) => {
                    current.broken_until = Some(now + BREAK_GRACE);
                    return None;
                }
            }
            if current.written * 2 >= current.payload.length()
                && current.written < current.payload.length()
            {
                hit("keeper.half_written");
            }
        }
        Some(EndKind::Delivered)
    }

    fn end_delivery(&mut self, end: EndKind) -> Outcome {
        let Some(current) = self.delivery.take() else {
            return Outcome::default();
        };
        let stream_after = self.stream_size();
        hit("keeper.all_written");
        self.journal.append_fact(JournalRecord::End {
            at_us: wall_us(),
            id: current.id.clone(),
            outcome: end,
            written: current.written,
            stream_before: current.stream_before,
            stream_after,
        });
        hit("keeper.after_end");
        let outcome = Outcome {
            stream_size_before: current.stream_before,
            stream_size_after: stream_after,
            bytes_written: current.written,
            ..outcome(&current.id, end.into())
        };
        for waiter in std::mem::take(&mut self.waiters) {
            self.reply(waiter.conn, waiter.seq, Answer::Outcome(outcome.clone()));
        }
        self.push_event(event::Event::Outcome(outcome.clone()));
        self.ladder_delivery_ended(&current.id, end);
        if std::mem::take(&mut self.close_pending) {
            self.close_now();
        }
        outcome
    }

    /// Closes the write end, behind a delivery that has begun.
    pub(super) fn close_stdin(&mut self) -> Result<bool, Refusal> {
        if self.stdin_kind == crate::run_dir::StdinKind::Held {
            let message = "a held stdin is never closed".to_owned();
            return Err((FailureReason::StdinHeld, message));
        }
        if !self.stdin.is_open() || self.close_pending {
            return Ok(true);
        }
        if self.delivery.is_some() {
            self.close_pending = true;
        } else {
            self.close_now();
        }
        Ok(false)
    }

    fn close_now(&mut self) {
        let record = JournalRecord::StdinClosed { at_us: wall_us() };
        self.journal.append_fact(record);
        self.stdin.close(&self.dir);
    }

    pub(super) fn push_event(&mut self, event: event::Event) {
        let answer = Answer::Event(Event { event: Some(event) });
        let watching = self.conns.iter().filter(|conn| conn.watching);
        let watching: Vec<u64> = watching.map(|conn| conn.id).collect();
        for conn in watching {
            self.reply(conn, 0, answer.clone());
        }
    }

    /// When the delivery needs attention without its pipe having become writable.
    pub(super) fn delivery_deadline(&self) -> Option<Duration> {
        let current = self.delivery.as_ref()?;
        let untouched = (current.written == 0).then_some(current.deadline);
        let waiters = self.waiters.iter().map(|waiter| waiter.deadline);
        waiters.chain(untouched).chain(current.broken_until).min()
    }

    /// Whether to wait until the pipe takes bytes.
    pub(super) fn wants_to_write(&self) -> bool {
        let current = self.delivery.as_ref();
        current.is_some_and(|current| current.broken_until.is_none())
    }
}

/// How long a call waits.
pub(super) fn wait_of(call: &Deliver) -> Duration {
    Duration::from_millis(call.wait_ms.into()).min(WAIT_MAX)
}

fn outcome(id: &str, kind: OutcomeKind) -> Outcome {
    Outcome {
        delivery_id: id.to_owned(),
        kind: kind.into(),
        ..Outcome::default()
    }
}
