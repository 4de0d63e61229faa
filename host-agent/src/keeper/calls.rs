//! Calls of the agent.

use std::time::Duration;

use muster_proto::keeper::{
    self as wire, Deliver, Failure, FailureReason, OutcomeKind, Request, Signalled, StdinClosed,
    StopStarted, event, reply::Answer, request::Call,
};
use rustix::process::Signal;

use super::{
    Keeper,
    delivery::{Begun, Waiter, wait_of},
    payload::{Refusal, check_id, invalid},
};
use crate::proc::signal_of;

impl Keeper {
    /// Does what one request asks, and answers it now or later.
    pub(super) fn handle(&mut self, conn: u64, request: Request, now: Duration) {
        let seq = request.seq;
        let answered = match request.call {
            Some(Call::Deliver(call)) => self.handle_deliver(conn, seq, &call, now),
            Some(Call::GetDelivery(call)) => self.handle_get_delivery(&call.delivery_id).map(Some),
            Some(Call::CloseStdin(_)) => self
                .close_stdin()
                .map(|already| Some(Answer::StdinClosed(StdinClosed { already }))),
            Some(Call::Stop(call)) => self.handle_stop(call, now).map(Some),
            Some(Call::Signal(call)) => self.handle_signal(&call).map(Some),
            Some(Call::GetStatus(_)) => Ok(Some(Answer::Status(self.status()))),
            Some(Call::Watch(_)) => {
                self.handle_watch(conn, seq);
                Ok(None)
            }
            None => Err(invalid("a call that this keeper does not know")),
        };
        match answered {
            Ok(Some(answer)) => self.reply(conn, seq, answer),
            Ok(None) => {}
            Err((reason, message)) => {
                let reason = FailureReason::into(reason);
                self.reply(conn, seq, Answer::Failure(Failure { reason, message }));
            }
        }
    }

    fn handle_deliver(
        &mut self,
        conn: u64,
        seq: u64,
        call: &Deliver,
        now: Duration,
    ) -> Result<Option<Answer>, Refusal> {
        let wait = wait_of(call);
        Ok(match self.deliver(call, wait, now)? {
            Begun::Answer(outcome) => Some(Answer::Outcome(outcome)),
            Begun::Waits => {
                let deadline = now + wait;
                self.wait_for_delivery(Waiter {
                    conn,
                    seq,
                    deadline,
                });
                None
            }
        })
    }

    fn handle_get_delivery(&self, id: &str) -> Result<Answer, Refusal> {
        check_id(id)?;
        let known = self.known_delivery(id)?;
        Ok(Answer::Outcome(known.unwrap_or_else(|| wire::Outcome {
            delivery_id: id.to_owned(),
            kind: OutcomeKind::Unknown.into(),
            ..wire::Outcome::default()
        })))
    }

    fn handle_stop(&mut self, call: wire::Stop, now: Duration) -> Result<Answer, Refusal> {
        // While a ladder works on the rest of the tree, the run has not ended.
        let already_ended = self.ended.is_some() && self.ladder.is_none();
        if !already_ended {
            self.stop(call, now)?;
        }
        Ok(Answer::StopStarted(StopStarted { already_ended }))
    }

    fn handle_signal(&mut self, call: &wire::Signal) -> Result<Answer, Refusal> {
        let signal: Option<Signal> = signal_of(call.signal);
        let signal = signal.ok_or_else(|| invalid("no standard signal has this number"))?;
        if !call.request_id.is_empty() {
            check_id(&call.request_id)?;
        }
        let targets = if self.ended.is_some() {
            Vec::new()
        } else {
            self.signal_tree(signal, &call.request_id)
        };
        let targets = targets.into_iter().map(Into::into).collect();
        Ok(Answer::Signalled(Signalled { targets }))
    }

    /// The state first, then every event after it.
    fn handle_watch(&mut self, conn: u64, seq: u64) {
        let status = self.status();
        self.reply(conn, seq, Answer::Status(status));
        let recorded = self.ended.as_ref().is_some_and(|ending| ending.settled);
        if let Some(watching) = self.conns.iter_mut().find(|other| other.id == conn) {
            watching.watching = true;
        }
        if recorded {
            let event = Some(event::Event::ExitRecorded(true));
            self.reply(conn, 0, Answer::Event(wire::Event { event }));
        }
    }
}
