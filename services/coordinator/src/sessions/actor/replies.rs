//! Commands that were taken and are not committed yet.

use muster_domain::{
    Fault,
    session::{
        State,
        fold::{Accepted, Ticket},
    },
};
use tokio::sync::oneshot;

use crate::sessions::registry::{Answer, Reply};

/// Who waits for which commit. As long as the inbox gives; one commit answers all.
#[derive(Default)]
pub(super) struct Replies {
    waiting: Vec<(Ticket, Accepted, Reply)>,
    start: Option<oneshot::Sender<Result<State, Fault>>>,
}

impl Replies {
    /// Somebody waits for the first commit of a new session.
    pub(super) fn start(reply: oneshot::Sender<Result<State, Fault>>) -> Self {
        Self {
            waiting: Vec::new(),
            start: Some(reply),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.start.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The session is not in the store yet.
    pub(super) fn is_starting(&self) -> bool {
        self.start.is_some()
    }

    pub(super) fn wait(&mut self, ticket: Ticket, accepted: Accepted, reply: Reply) {
        self.waiting.push((ticket, accepted, reply));
    }

    /// Everything up to `ticket` is committed.
    pub(super) fn committed(&mut self, ticket: Ticket, state: &State) {
        // A receiver that is gone lost interest; its command stands.
        if let Some(reply) = self.start.take() {
            let _ = reply.send(Ok(state.clone()));
        }
        let (done, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(other, ..)| *other <= ticket);
        self.waiting = waiting;
        let done: Vec<_> = done;
        for (_, accepted, reply) in done {
            let state = state.clone();
            let _ = reply.send(Ok(Answer { accepted, state }));
        }
    }

    /// Nothing of it was committed.
    pub(super) fn fail(&mut self, fault: &Fault) {
        if let Some(reply) = self.start.take() {
            let _ = reply.send(Err(fault.clone()));
        }
        for (_, _, reply) in self.waiting.drain(..) {
            let _ = reply.send(Err(fault.clone()));
        }
    }
}
