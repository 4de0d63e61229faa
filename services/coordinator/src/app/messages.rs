//! What is said to sessions, and what they said.

use std::time::Duration;

use muster_domain::{
    Fault, MessageId, Reason, SessionId,
    message::{Delivery, Message},
    page,
    session::Adapter,
};

use super::{App, not_found};
use crate::sessions::api::{Sending, SentMessage};

/// Longest wait for a message.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// A message that a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendRequest {
    /// Session, by id or unique prefix.
    pub session: String,
    /// What is said.
    pub sending: Sending,
}

/// A message with its place in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// The message.
    pub message: Message,
    /// Place from 1; 0 when it does not wait.
    pub position: u32,
}

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// All bytes are in the program's stdin.
    Written,
    /// The program echoed it.
    Seen,
    /// Its turn is over.
    Done,
}

impl App {
    /// Accepts a message; answered after its commit (S14).
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `RUN_ENDED`, `MULTILINE_TEXT`,
    /// `MESSAGE_TOO_LARGE`, `QUEUE_FULL`, `UNSUPPORTED`, `STDIN_CLOSED`,
    /// `STORE_UNAVAILABLE`.
    pub async fn send(&self, request: SendRequest) -> Result<SentMessage, Fault> {
        let state = self.find(&request.session).await?;
        let session = state.spec.id;
        let key = &request.sending.client_key;
        // A repeat is answered from the row, whatever became of the session since.
        let stored = self.parts.store.message_by_client_key(session, key).await?;
        if let Some(message) = stored {
            let position = self.position(&message).await?;
            return Ok(SentMessage {
                message,
                position,
                replayed: true,
            });
        }
        self.parts.sessions.send(session, request.sending).await
    }

    /// A message by id.
    ///
    /// # Errors
    /// `MESSAGE_NOT_FOUND`.
    pub async fn message(&self, id: MessageId) -> Result<Queued, Fault> {
        let message = self.stored(id).await?;
        self.queued(message).await
    }

    /// The message that was sent under this client key.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `MESSAGE_NOT_FOUND`.
    pub async fn message_by_key(&self, session: &str, key: &str) -> Result<Queued, Fault> {
        let state = self.find(session).await?;
        let found = self
            .parts
            .store
            .message_by_client_key(state.spec.id, key)
            .await?;
        match found {
            Some(message) => self.queued(message).await,
            None => Err(not_found(Reason::MessageNotFound, "message with key", key)),
        }
    }

    /// Messages of a session, in its order.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `BAD_PAGE_TOKEN`.
    pub async fn list_messages(
        &self,
        session: &str,
        page: page::Request,
    ) -> Result<page::Page<Queued>, Fault> {
        let state = self.find(session).await?;
        let found = self.parts.store.messages(state.spec.id, &page).await?;
        let waiting = if found.items.iter().any(waits) {
            self.waiting(state.spec.id).await?
        } else {
            Vec::new()
        };
        Ok(found.map(|message| Queued {
            position: place(&waiting, message.id),
            message,
        }))
    }

    /// Messages that wait, in order.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`.
    pub async fn queue(&self, session: &str) -> Result<Vec<Queued>, Fault> {
        let state = self.find(session).await?;
        let waiting = self.waiting(state.spec.id).await?;
        Ok((1..)
            .zip(waiting)
            .map(|(position, message)| Queued { message, position })
            .collect())
    }

    /// Waits until the message is that far, or will not be.
    ///
    /// # Errors
    /// `MESSAGE_NOT_FOUND`, `UNSUPPORTED`, `WAIT_TIMEOUT`.
    pub async fn wait_message(
        &self,
        id: MessageId,
        goal: WaitFor,
        patience: Duration,
    ) -> Result<Queued, Fault> {
        let end = self.parts.clock.boottime() + patience.min(LONGEST_WAIT);
        let mut heads = self.parts.store.heads(&self.parts.workspace);
        let first = self.stored(id).await?;
        self.check_goal(first.session, goal).await?;
        loop {
            heads.borrow_and_update();
            let message = self.stored(id).await?;
            let state = message.sent.as_ref().map(|sent| sent.state);
            let Some(state) = state else {
                return Err(Fault::invalid(
                    "id",
                    "only messages to a program are waited for",
                ));
            };
            if reached(state, goal) {
                return self.queued(message).await;
            }
            match self.parts.clock.timeout_at(end, heads.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => {
                    return Err(Fault::new(
                        Reason::ShuttingDown,
                        "the coordinator is ending",
                    ));
                }
                Err(_) => {
                    return Err(Fault::new(
                        Reason::WaitTimeout,
                        "the message did not get that far in time",
                    )
                    .with("message", id));
                }
            }
        }
    }

    /// Takes back a message that was not written.
    ///
    /// # Errors
    /// `MESSAGE_NOT_FOUND`, `ALREADY_WRITTEN`, `STORE_UNAVAILABLE`.
    pub async fn cancel(&self, id: MessageId) -> Result<Message, Fault> {
        let message = self.stored(id).await?;
        self.parts.sessions.cancel(message.session, id).await
    }

    async fn stored(&self, id: MessageId) -> Result<Message, Fault> {
        let message = self.parts.store.message(id).await?;
        message.ok_or_else(|| not_found(Reason::MessageNotFound, "message", &id.to_string()))
    }

    async fn check_goal(&self, session: SessionId, goal: WaitFor) -> Result<(), Fault> {
        let state = self.parts.store.session(session).await?;
        let adapter = state.map(|state| state.spec.adapter);
        match (goal, adapter) {
            (WaitFor::Written, _) | (_, None) => Ok(()),
            // It echoes nothing: what was written is all that can be known (S16).
            (WaitFor::Seen | WaitFor::Done, Some(Adapter::Generic)) => Err(Fault::unsupported(
                "waiting for more than `written` with a program that does not echo",
            )),
        }
    }

    async fn queued(&self, message: Message) -> Result<Queued, Fault> {
        let position = self.position(&message).await?;
        Ok(Queued { message, position })
    }

    async fn position(&self, message: &Message) -> Result<u32, Fault> {
        if !waits(message) {
            return Ok(0);
        }
        Ok(place(&self.waiting(message.session).await?, message.id))
    }

    async fn waiting(&self, session: SessionId) -> Result<Vec<Message>, Fault> {
        let stored = self.parts.store.load(session).await?;
        Ok(stored.map(|stored| stored.waiting).unwrap_or_default())
    }
}

fn waits(message: &Message) -> bool {
    message
        .sent
        .as_ref()
        .is_some_and(|sent| !sent.state.is_final())
}

fn place(waiting: &[Message], id: MessageId) -> u32 {
    let at = waiting.iter().position(|message| message.id == id);
    at.and_then(|at| u32::try_from(at + 1).ok()).unwrap_or(0)
}

fn reached(state: Delivery, goal: WaitFor) -> bool {
    match state {
        Delivery::Accepted | Delivery::Held | Delivery::Parked => false,
        Delivery::Written => goal == WaitFor::Written,
        Delivery::Seen => goal != WaitFor::Done,
        Delivery::Done
        | Delivery::Rejected
        | Delivery::Cancelled
        | Delivery::Unconfirmed
        | Delivery::Interrupted
        | Delivery::Failed => true,
    }
}
