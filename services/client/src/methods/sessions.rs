//! Sessions.

use std::time::Duration;

use muster_domain::{Fault, limits, page};
use muster_proto::public as pb;

use super::{Page, call, page as to_page, there};
use crate::{
    Client, ListSessions, StartSession, Unsettled,
    api::{Fact, Session, Survivor},
};

/// What came of an interrupt or a stop.
#[derive(Debug, Clone, PartialEq)]
pub struct Control {
    /// The session as it is now.
    pub session: Session,
    /// There was nothing to end.
    pub already_ended: bool,
    /// Survivors that were ended.
    pub survivors: Vec<Survivor>,
    /// The coordinator cannot write to its disk: the host was asked all the same, and the session
    /// tells of it when there is space again.
    pub unrecorded: bool,
    /// Messages that were accepted and not written when a stop was asked for: the end fails
    /// them.
    pub unwritten_messages: u32,
}

impl Client {
    /// Starts a session, surely or for at most `patience` (F20); `true`: it was started
    /// before, under the same key. A start that fails on the host is a session with status
    /// failed, not an error.
    ///
    /// # Errors
    /// [`Unsettled`]; refused with `INVALID`, `HOST_NOT_FOUND`, `CWD_REQUIRED`,
    /// `SLOT_OCCUPIED`, `TASK_NOT_FOUND`, `KEY_REUSED`, `UNSUPPORTED`.
    pub async fn start_session(
        &self,
        start: StartSession,
        patience: Duration,
    ) -> Result<(Session, bool), Unsettled> {
        let key = start.client_key.clone();
        let request = pb::StartSessionRequest::from(start);
        let answer = self
            .settle(
                &key,
                patience,
                limits::START_DEADLINE + self.call_deadline(),
                call!(sessions.start_session(request)),
            )
            .await?;
        let session = there(answer.session, "session").map_err(Unsettled::Refused)?;
        Ok((session, answer.replayed))
    }

    /// Starts the next run of a session, surely or for at most `patience` (F20).
    ///
    /// # Errors
    /// [`Unsettled`]; refused with `SESSION_NOT_FOUND`, `SESSION_ALIVE`, `HOST_UNREACHABLE`,
    /// `KEY_REUSED`.
    pub async fn resume_session(
        &self,
        id: &str,
        client_key: &str,
        patience: Duration,
    ) -> Result<Session, Unsettled> {
        let request = pb::ResumeSessionRequest {
            id: id.to_owned(),
            client_key: client_key.to_owned(),
        };
        let answer = self
            .settle(
                client_key,
                patience,
                self.call_deadline(),
                call!(sessions.resume_session(request)),
            )
            .await?;
        there(answer.session, "session").map_err(Unsettled::Refused)
    }

    /// A session by id or unique prefix.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `COORDINATOR_UNREACHABLE`.
    pub async fn get_session(&self, id: &str) -> Result<Session, Fault> {
        let request = pb::GetSessionRequest { id: id.to_owned() };
        let answer = self
            .again(self.call_deadline(), call!(sessions.get_session(request)))
            .await?;
        there(answer.session, "session")
    }

    /// Sessions, newest first.
    ///
    /// # Errors
    /// `BAD_PAGE_TOKEN`, `COORDINATOR_UNREACHABLE`.
    pub async fn list_sessions(
        &self,
        filter: ListSessions,
        page: page::Request,
    ) -> Result<Page<Session>, Fault> {
        let request = filter.request(page);
        let answer = self
            .again(self.call_deadline(), call!(sessions.list_sessions(request)))
            .await?;
        Ok(to_page(answer.sessions, answer.next_page_token))
    }

    /// What a session's status rests on, and the names of what is not concluded (S6).
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `COORDINATOR_UNREACHABLE`.
    pub async fn explain_session(&self, id: &str) -> Result<(Vec<Fact>, Vec<String>), Fault> {
        let request = pb::ExplainSessionRequest { id: id.to_owned() };
        let call = call!(sessions.explain_session(request));
        let answer = self.again(self.call_deadline(), call).await?;
        Ok((answer.facts, answer.refusals))
    }

    /// Interrupts a session now, once.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `HOST_UNREACHABLE`, `UNSUPPORTED`,
    /// `COORDINATOR_UNREACHABLE` (it may have been interrupted then).
    pub async fn interrupt_session(&self, id: &str) -> Result<Control, Fault> {
        let request = pb::InterruptSessionRequest { id: id.to_owned() };
        let call = call!(sessions.interrupt_session(request));
        let answer = self.once(self.call_deadline(), call).await?;
        Ok(Control {
            session: there(answer.session, "session")?,
            already_ended: answer.already_ended,
            survivors: Vec::new(),
            unrecorded: answer.unrecorded,
            unwritten_messages: 0,
        })
    }

    /// Stops a session, or ends the survivors of an ended one.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `HOST_UNREACHABLE`, `COORDINATOR_UNREACHABLE`.
    pub async fn stop_session(&self, id: &str, survivors: bool) -> Result<Control, Fault> {
        let request = pb::StopSessionRequest {
            id: id.to_owned(),
            survivors,
        };
        let deadline = self.call_deadline().max(limits::START_DEADLINE);
        let answer = self
            .again(deadline, call!(sessions.stop_session(request)))
            .await?;
        Ok(Control {
            session: there(answer.session, "session")?,
            already_ended: answer.already_ended,
            survivors: answer.survivors,
            unrecorded: answer.unrecorded,
            unwritten_messages: answer.unwritten_messages,
        })
    }
}
