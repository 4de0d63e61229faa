//! Waiting for messages and sessions.

use std::time::Duration;

use muster_domain::{Fault, Kind, Reason, limits};
use muster_proto::{convert::time, public as pb};

use crate::{
    Client, Topic, WatchEvent,
    api::{
        Attention, Message, ProcessState, Session, SessionStatus, feed_event::Event,
        snapshot_item::Item,
    },
    client::Attempt,
    methods::{call, there},
};

/// How far a message is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitMessage {
    /// All bytes are in the program's stdin.
    Written,
    /// The program echoed it.
    Seen,
    /// Its turn is over.
    Done,
}

/// What a session is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitFor {
    /// The end of its latest run, judged.
    Exit,
    /// Somebody is needed, or it has ended.
    Attention,
    /// No process that outlived its latest run lives any more.
    NoSurvivors,
}

impl WaitFor {
    /// Whether a session is there.
    pub fn is_met(self, session: &Session) -> bool {
        let over = has_ended(session);
        match self {
            Self::Exit => over,
            Self::NoSurvivors => session.survivors.is_empty(),
            Self::Attention => {
                let asks = !matches!(
                    session.attention(),
                    Attention::None | Attention::Unspecified
                );
                over || asks
            }
        }
    }
}

/// The latest run is over and judged, or its start failed.
fn has_ended(session: &Session) -> bool {
    match session.status() {
        SessionStatus::Stopped | SessionStatus::Exited | SessionStatus::Lost => true,
        // A failed turn leaves the process alive (S30).
        SessionStatus::Failed => matches!(
            session.process(),
            ProcessState::None | ProcessState::Exited | ProcessState::Lost
        ),
        _ => false,
    }
}

impl Client {
    /// Waits until a message has come as far as asked, or can no more; over restarts of the
    /// coordinator, for at most `timeout`.
    ///
    /// # Errors
    /// `MESSAGE_NOT_FOUND`, `UNSUPPORTED`, `WAIT_TIMEOUT`, `COORDINATOR_UNREACHABLE` when it
    /// could not be reached when the time was over.
    pub async fn wait_message(
        &self,
        id: &str,
        wait_for: WaitMessage,
        timeout: Duration,
    ) -> Result<Message, Fault> {
        let until = self.until(timeout);
        let wait_for = match wait_for {
            WaitMessage::Written => pb::WaitFor::Written,
            WaitMessage::Seen => pb::WaitFor::Seen,
            WaitMessage::Done => pb::WaitFor::Done,
        };
        for attempt in 0_u32.. {
            let left = until.saturating_sub(self.clock().boottime());
            let request = pb::WaitMessageRequest {
                id: id.to_owned(),
                wait_for: wait_for.into(),
                timeout: Some(time::duration(left.min(limits::WAIT_MESSAGE))),
            };
            let call = call!(messages.wait_message(request));
            // The answer may come right at the end of the wait.
            let end = until.saturating_add(self.call_deadline());
            let fault = match Box::pin(self.attempt(end, &call)).await {
                Attempt::Done(answer) => return there(answer.message, "message"),
                Attempt::Refused(fault) if fault.reason() == Reason::WaitTimeout => fault,
                Attempt::Refused(fault) if fault.kind() != Kind::Unavailable => return Err(fault),
                Attempt::Refused(fault) | Attempt::NotSent(fault) | Attempt::Lost { fault, .. } => {
                    fault
                }
            };
            if self.clock().boottime() >= until || !self.link().pause(attempt, until).await {
                return Err(fault);
            }
        }
        unreachable!("attempts are counted without end")
    }

    /// Waits until a session is as asked; over restarts of the coordinator, for at most
    /// `timeout` (`None`: without end, as long as the coordinator comes back within
    /// [`limits::UNCERTAIN_SEND`]). Gives the session as it was then.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `WAIT_TIMEOUT`, `COORDINATOR_UNREACHABLE`.
    pub async fn wait_session(
        &self,
        id: &str,
        wait_for: WaitFor,
        timeout: Option<Duration>,
    ) -> Result<Session, Fault> {
        self.wait_session_told(id, wait_for, timeout, |_| {}).await
    }

    /// As [`Client::wait_session`]; `link` is told of every attempt that failed (`Some`: why)
    /// and of every sign of life (`None`), for people.
    ///
    /// # Errors
    /// As [`Client::wait_session`].
    pub async fn wait_session_told(
        &self,
        id: &str,
        wait_for: WaitFor,
        timeout: Option<Duration>,
        link: impl FnMut(Option<&Fault>) + Send,
    ) -> Result<Session, Fault> {
        let wait = Box::pin(self.wait_without_end(id, wait_for, link));
        let Some(timeout) = timeout else {
            return wait.await;
        };
        match self.clock().timeout(timeout, wait).await {
            Ok(result) => result,
            Err(_) => Err(Fault::new(
                Reason::WaitTimeout,
                "the session was not there in time",
            )),
        }
    }

    async fn wait_without_end(
        &self,
        id: &str,
        wait_for: WaitFor,
        mut link: impl FnMut(Option<&Fault>) + Send,
    ) -> Result<Session, Fault> {
        let session = self.get_session(id).await?;
        if wait_for.is_met(&session) {
            return Ok(session);
        }
        let topic = Topic::Session {
            id: session.id,
            tree: false,
        };
        let mut watch = self.watch(limits::UNCERTAIN_SEND);
        watch.subscribe(topic, None);
        loop {
            let event = watch.next().await?;
            link(match &event {
                WatchEvent::Reconnecting { cause } => Some(cause),
                _ => None,
            });
            let session = match event {
                WatchEvent::Item(item) => match item.item {
                    Some(Item::Session(session)) => Some(session),
                    _ => None,
                },
                WatchEvent::Event(event) => match event.event {
                    Some(Event::SessionChanged(changed)) => changed.session,
                    _ => None,
                },
                WatchEvent::Refused { fault, .. } => return Err(fault),
                _ => None,
            };
            if let Some(session) = session.filter(|session| wait_for.is_met(session)) {
                return Ok(session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(status: SessionStatus, process: ProcessState) -> Session {
        Session {
            status: status.into(),
            process: process.into(),
            attention: Attention::None.into(),
            ..Session::default()
        }
    }

    #[test]
    fn s30_a_failed_turn_is_no_end() {
        let alive = session(SessionStatus::Failed, ProcessState::Alive);
        assert!(!WaitFor::Exit.is_met(&alive));
        let gone = session(SessionStatus::Failed, ProcessState::Exited);
        assert!(WaitFor::Exit.is_met(&gone));
    }

    #[test]
    fn s31_an_unreachable_host_is_no_end() {
        let unknown = session(SessionStatus::Unreachable, ProcessState::Unknown);
        assert!(!WaitFor::Exit.is_met(&unknown));
        assert!(!WaitFor::Attention.is_met(&unknown));
    }

    #[test]
    fn attention_is_a_question_or_the_end() {
        let mut asks = session(SessionStatus::WaitingQuestion, ProcessState::Alive);
        asks.attention = Attention::Question.into();
        assert!(WaitFor::Attention.is_met(&asks));
        assert!(!WaitFor::Exit.is_met(&asks));
        let ended = session(SessionStatus::Exited, ProcessState::Exited);
        assert!(WaitFor::Attention.is_met(&ended));
    }
}
