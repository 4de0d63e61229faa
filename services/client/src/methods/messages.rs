//! Messages.

use std::time::Duration;

use muster_domain::{Fault, Reason, page};
use muster_proto::public as pb;

use super::{Page, call, page as to_page, there};
use crate::{Client, SendMessage, Unsettled, api::Message};

impl Client {
    /// Sends a message, surely or for at most `patience` (F20): kept until it is answered,
    /// looked up and sent again with the same key after every cut. Exactly one is stored.
    ///
    /// # Errors
    /// [`Unsettled`]; refused with `SESSION_NOT_FOUND`, `RUN_ENDED`, `MULTILINE_TEXT`,
    /// `MESSAGE_TOO_LARGE`, `QUEUE_FULL`, `KEY_REUSED`, `UNSUPPORTED`, `STDIN_CLOSED`.
    pub async fn send_message(
        &self,
        message: SendMessage,
        patience: Duration,
    ) -> Result<Message, Unsettled> {
        let key = message.client_key.clone();
        let lookup = by_key(&message.session, &key);
        let request = pb::SendMessageRequest::from(message);
        let send = call!(messages.send_message(request));
        let look = call!(messages.get_message(lookup));
        let answer = self
            .settle_or_find(&key, patience, self.call_deadline(), send, |until| {
                let look = &look;
                Box::pin(async move {
                    self.attempt(until, look)
                        .await
                        .map(|answer| pb::SendMessageResponse {
                            message: answer.message,
                        })
                })
            })
            .await?;
        there(answer.message, "message").map_err(Unsettled::Refused)
    }

    /// A message by its id.
    ///
    /// # Errors
    /// `MESSAGE_NOT_FOUND`, `INVALID_ID`, `COORDINATOR_UNREACHABLE`.
    pub async fn get_message(&self, id: &str) -> Result<Message, Fault> {
        self.lookup(pb::GetMessageRequest {
            by: Some(pb::get_message_request::By::Id(id.to_owned())),
        })
        .await
    }

    /// The message that was sent to a session under a key; `None`: there is none.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `COORDINATOR_UNREACHABLE`.
    pub async fn find_message(&self, session: &str, key: &str) -> Result<Option<Message>, Fault> {
        match self.lookup(by_key(session, key)).await {
            Ok(message) => Ok(Some(message)),
            Err(fault) if fault.reason() == Reason::MessageNotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn lookup(&self, request: pb::GetMessageRequest) -> Result<Message, Fault> {
        let answer = self
            .again(self.call_deadline(), call!(messages.get_message(request)))
            .await?;
        there(answer.message, "message")
    }

    /// Messages of a session, in its order.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `BAD_PAGE_TOKEN`, `COORDINATOR_UNREACHABLE`.
    pub async fn list_messages(
        &self,
        session: &str,
        page: page::Request,
    ) -> Result<Page<Message>, Fault> {
        let request = pb::ListMessagesRequest {
            session_id: session.to_owned(),
            page_size: page.size,
            page_token: page.token,
        };
        let answer = self
            .again(self.call_deadline(), call!(messages.list_messages(request)))
            .await?;
        Ok(to_page(answer.messages, answer.next_page_token))
    }

    /// Messages of a session that have not been written.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `COORDINATOR_UNREACHABLE`.
    pub async fn list_queue(&self, session: &str) -> Result<Vec<Message>, Fault> {
        let request = pb::ListQueueRequest {
            session_id: session.to_owned(),
        };
        let answer = self
            .again(self.call_deadline(), call!(messages.list_queue(request)))
            .await?;
        Ok(answer.messages)
    }

    /// Takes back a message that was not written, once.
    ///
    /// # Errors
    /// `MESSAGE_NOT_FOUND`, `ALREADY_WRITTEN`, `COORDINATOR_UNREACHABLE` (it may have been
    /// taken back then).
    pub async fn cancel_message(&self, id: &str) -> Result<Message, Fault> {
        let request = pb::CancelMessageRequest { id: id.to_owned() };
        let answer = self
            .once(
                self.call_deadline(),
                call!(messages.cancel_message(request)),
            )
            .await?;
        there(answer.message, "message")
    }
}

fn by_key(session: &str, key: &str) -> pb::GetMessageRequest {
    let key = pb::ClientKey {
        session_id: session.to_owned(),
        client_key: key.to_owned(),
    };
    pb::GetMessageRequest {
        by: Some(pb::get_message_request::By::Key(key)),
    }
}
