//! Sessions: their state and control.

use muster_domain::{
    Fault, TaskId, page,
    session::explain::{Fact, Refusal, explain},
};

use super::{App, SessionView};
use crate::{sessions::api::Control, store::SessionFilter};

/// Which sessions a list gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListSessions {
    /// The page.
    pub page: page::Request,
    /// Only those that have not ended.
    pub live: bool,
    /// Internal ones too.
    pub internal: bool,
    /// Only those of this task, by id or unique prefix; empty = all.
    pub task: String,
}

/// What came of a stop or an interrupt.
#[derive(Debug, Clone, PartialEq)]
pub struct Controlled {
    /// The session as it is now.
    pub session: SessionView,
    /// There was nothing to end or interrupt.
    pub already_ended: bool,
    /// Messages that waited to be written when a stop was asked for: the end fails them.
    pub unwritten: u32,
    /// It is committed; otherwise the host alone knows of it.
    pub recorded: bool,
}

impl App {
    /// A session by id or unique prefix.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `INVALID_ID`.
    pub async fn session(&self, id: &str) -> Result<SessionView, Fault> {
        let state = self.find(id).await?;
        self.views().session(state).await
    }

    /// Sessions, newest first.
    ///
    /// # Errors
    /// `BAD_PAGE_TOKEN`, `TASK_NOT_FOUND`, `AMBIGUOUS_ID`.
    pub async fn list_sessions(
        &self,
        list: ListSessions,
    ) -> Result<page::Page<SessionView>, Fault> {
        let task: Option<TaskId> = match list.task.as_str() {
            "" => None,
            id => Some(self.task(id).await?.id),
        };
        let filter = SessionFilter {
            live: list.live,
            internal: list.internal,
            task,
        };
        let found = self
            .parts
            .store
            .sessions(&self.parts.workspace, filter, &list.page)
            .await?;
        let views = self.views();
        let mut items = Vec::with_capacity(found.items.len());
        for state in found.items {
            let state = super::newest(&*self.parts.sessions, state);
            items.push(views.session(state).await?);
        }
        Ok(page::Page {
            items,
            next: found.next,
        })
    }

    /// The facts in use, and what is not concluded (S6).
    ///
    /// # Errors
    /// As [`App::session`].
    pub async fn explain(&self, id: &str) -> Result<(Vec<Fact>, Vec<Refusal>), Fault> {
        let state = self.find(id).await?;
        Ok(explain(&state, self.now()))
    }

    /// Starts the next run.
    ///
    /// # Errors
    /// As [`App::session`], `SESSION_ALIVE`, `SLOT_OCCUPIED`, `HOST_UNREACHABLE`,
    /// `STORE_UNAVAILABLE`.
    pub async fn resume(&self, id: &str, client_key: String) -> Result<SessionView, Fault> {
        let state = self.find(id).await?;
        let done = self
            .parts
            .sessions
            .resume(state.spec.id, client_key)
            .await?;
        self.views().session(done.state).await
    }

    /// Interrupts now.
    ///
    /// # Errors
    /// As [`App::session`], `HOST_UNREACHABLE`, `UNSUPPORTED`, `STORE_UNAVAILABLE`.
    pub async fn interrupt(&self, id: &str) -> Result<Controlled, Fault> {
        let state = self.find(id).await?;
        let done = self.parts.sessions.interrupt(state.spec.id).await?;
        self.controlled(done).await
    }

    /// Asks for the stop ladder, or the end of survivors.
    ///
    /// # Errors
    /// As [`App::session`], `HOST_UNREACHABLE`, `STORE_UNAVAILABLE`.
    pub async fn stop(&self, id: &str, survivors: bool) -> Result<Controlled, Fault> {
        let state = self.find(id).await?;
        let done = self.parts.sessions.stop(state.spec.id, survivors).await?;
        self.controlled(done).await
    }

    async fn controlled(&self, done: Control) -> Result<Controlled, Fault> {
        Ok(Controlled {
            session: self.views().session(done.state).await?,
            already_ended: done.already_ended,
            unwritten: done.unwritten,
            recorded: done.recorded,
        })
    }
}
