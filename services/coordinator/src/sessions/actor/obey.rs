//! How an actor takes commands.

use futures_util::FutureExt as _;
use muster_domain::{
    Fault, Reason,
    session::fold::{Accepted, Command},
};

use super::{
    Place,
    running::{Looked, Running},
};
use crate::sessions::registry::{Answer, Reply, Request};

impl Running {
    /// Takes a command; first the store is asked for a message that the fold does not know.
    pub(super) fn take(&mut self, place: &mut Place, request: Request) {
        let store = place.store().clone();
        let session = place.id;
        let lookup = match &request.command {
            Command::Send { text, .. } if !self.fold.knows(&text.client_key) => {
                let key = text.client_key.clone();
                async move {
                    let found = store.message_by_client_key(session, &key).await;
                    Looked { found, request }
                }
                .boxed()
            }
            Command::Cancel { message } if !self.fold.knows_message(*message) => {
                let id = *message;
                async move {
                    let found = store.message(id).await;
                    Looked { found, request }
                }
                .boxed()
            }
            Command::Send { .. }
            | Command::Cancel { .. }
            | Command::Stop { .. }
            | Command::Interrupt
            | Command::Resume { .. } => return self.obey(place, request),
        };
        self.lookup = Some(lookup);
    }

    pub(super) fn looked(&mut self, place: &mut Place, looked: Looked) {
        match looked.found {
            Ok(found) => {
                if let Some(message) = found {
                    self.fold.remember(message);
                }
                self.obey(place, looked.request);
            }
            Err(error) => answer(looked.request.reply, Err(error.into())),
        }
    }

    fn obey(&mut self, place: &mut Place, request: Request) {
        let now = place.wall.now();
        let checked = self.check(&request);
        let Request { command, reply, .. } = request;
        let accepted = match checked.and_then(|()| self.fold.command(command, now)) {
            Ok(accepted) => accepted,
            Err(fault) => return answer(reply, Err(fault)),
        };
        // What is answered is committed first, and not a second later.
        self.fold.flush(now);
        match self.fold.pending() {
            Some(ticket) => self.replies.wait(ticket, accepted, reply),
            None => answer(reply, self.as_committed(accepted)),
        }
    }

    fn as_committed(&self, accepted: Accepted) -> Result<Answer, Fault> {
        match self.publisher.state(&self.fold) {
            Some(state) => Ok(Answer { accepted, state }),
            None => Err(Fault::internal("nothing of the session is committed")),
        }
    }

    fn check(&self, request: &Request) -> Result<(), Fault> {
        match &request.command {
            Command::Interrupt if self.calls.is_full() => Err(Fault::new(
                Reason::QueueFull,
                "too many interrupts are under way",
            )),
            Command::Resume { client_key } => self.check_free(client_key, request.free_after),
            Command::Interrupt
            | Command::Send { .. }
            | Command::Stop { .. }
            | Command::Cancel { .. } => Ok(()),
        }
    }

    /// Nothing of the session lives, as its host said after the end of the latest run (S9).
    fn check_free(&self, client_key: &str, free_after: Option<u32>) -> Result<(), Fault> {
        let state = self.fold.state();
        let mut taken = state.resumes.iter();
        let was_taken = taken.any(|resumed| resumed.client_key == client_key);
        if was_taken || !state.is_over() || free_after == Some(state.run.no) {
            return Ok(());
        }
        // It ended while the caller asked.
        let fault = Fault::new(Reason::SessionAlive, "the session has only just ended");
        Err(fault.with_hint("try again"))
    }
}

/// A receiver that is gone lost interest.
fn answer(reply: Reply, result: Result<Answer, Fault>) {
    let _ = reply.send(result);
}
