//! `MessagesService`.

use std::time::Duration;

use muster_domain::{Fault, MessageId, Reason, limits, session::Input};
use muster_proto::{
    convert::{enums, id, page, time},
    public::{self as pb, get_message_request::By, messages_service_server::MessagesService},
    sizes,
};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{CALL, Rpc, show};
use crate::{
    app::{Queued, SendRequest, WaitFor},
    sessions::api::{SendMode, Sending},
};

#[async_trait]
impl MessagesService for Rpc {
    async fn send_message(
        &self,
        request: Request<pb::SendMessageRequest>,
    ) -> Result<Response<pb::SendMessageResponse>, Status> {
        let request = request.into_inner();
        self.answer("SendMessage", async {
            let sent = self.app.send(send(request)?).await?;
            Ok(pb::SendMessageResponse {
                // What a person says is never a reference: no host is named.
                message: Some(show::message(
                    &sent.message,
                    "",
                    sent.position,
                    sent.replayed,
                )),
            })
        })
        .await
    }

    async fn get_message(
        &self,
        request: Request<pb::GetMessageRequest>,
    ) -> Result<Response<pb::GetMessageResponse>, Status> {
        let request = request.into_inner();
        self.answer("GetMessage", async {
            let found = match request.by.ok_or_else(|| Fault::missing("by"))? {
                By::Id(text) => self.app.message(message_id(&text)?).await?,
                By::Key(key) => {
                    id::client_key("key.client_key", &key.client_key)?;
                    self.app
                        .message_by_key(&key.session_id, &key.client_key)
                        .await?
                }
            };
            Ok(pb::GetMessageResponse {
                message: Some(self.with_host(&found).await?),
            })
        })
        .await
    }

    async fn list_messages(
        &self,
        request: Request<pb::ListMessagesRequest>,
    ) -> Result<Response<pb::ListMessagesResponse>, Status> {
        let request = request.into_inner();
        self.answer("ListMessages", async {
            let asked = page::request(request.page_size, request.page_token);
            let host = self.app.session(&request.session_id).await?.host;
            let found = self.app.list_messages(&request.session_id, asked).await?;
            let (messages, next_page_token) = page::page(found, |found| {
                show::message(&found.message, &host, found.position, false)
            });
            Ok(pb::ListMessagesResponse {
                messages,
                next_page_token,
            })
        })
        .await
    }

    async fn list_queue(
        &self,
        request: Request<pb::ListQueueRequest>,
    ) -> Result<Response<pb::ListQueueResponse>, Status> {
        let request = request.into_inner();
        self.answer("ListQueue", async {
            let queue = self.app.queue(&request.session_id).await?;
            let shown = queue
                .iter()
                .map(|found| show::message(&found.message, "", found.position, false));
            let mut messages: Vec<_> = shown.collect();
            // There is no next page of a queue: its front is what matters.
            messages.truncate(sizes::rows_that_fit(&messages));
            Ok(pb::ListQueueResponse { messages })
        })
        .await
    }

    async fn wait_message(
        &self,
        request: Request<pb::WaitMessageRequest>,
    ) -> Result<Response<pb::WaitMessageResponse>, Status> {
        let request = request.into_inner();
        let patience = time::from_duration("timeout", request.timeout.as_ref());
        let deadline = *patience.as_ref().unwrap_or(&Duration::ZERO) + CALL;
        self.answer_within("WaitMessage", deadline, async {
            let goal = pb::WaitFor::try_from(request.wait_for)
                .map_err(|_| Fault::invalid("wait_for", "no known value"))?;
            let goal = match goal {
                pb::WaitFor::Unspecified => return Err(Fault::missing("wait_for")),
                pb::WaitFor::Written => WaitFor::Written,
                pb::WaitFor::Seen => WaitFor::Seen,
                pb::WaitFor::Done => WaitFor::Done,
            };
            let id = message_id(&request.id)?;
            let waited = self.app.wait_message(id, goal, patience?);
            // A stream is not the only thing that waits long: this ends with us too.
            let found = tokio::select! {
                found = waited => found?,
                () = self.end.cancelled() => return Err(super::ending()),
            };
            Ok(pb::WaitMessageResponse {
                message: Some(self.with_host(&found).await?),
            })
        })
        .await
    }

    async fn cancel_message(
        &self,
        request: Request<pb::CancelMessageRequest>,
    ) -> Result<Response<pb::CancelMessageResponse>, Status> {
        let request = request.into_inner();
        self.answer("CancelMessage", async {
            let message = self.app.cancel(message_id(&request.id)?).await?;
            Ok(pb::CancelMessageResponse {
                message: Some(show::message(&message, "", 0, false)),
            })
        })
        .await
    }

    async fn upload(
        &self,
        _request: Request<Streaming<pb::UploadRequest>>,
    ) -> Result<Response<pb::UploadResponse>, Status> {
        self.answer("Upload", async {
            Err(Fault::unsupported("uploading images"))
        })
        .await
    }
}

impl Rpc {
    async fn with_host(&self, found: &Queued) -> Result<pb::Message, Fault> {
        let session = found.message.session.to_string();
        let host = self.app.session(&session).await?.host;
        Ok(show::message(&found.message, &host, found.position, false))
    }
}

fn message_id(text: &str) -> Result<MessageId, Fault> {
    id::id("id", text)
}

fn send(request: pb::SendMessageRequest) -> Result<SendRequest, Fault> {
    id::client_key("client_key", &request.client_key)?;
    if request.text.is_empty() && request.images.is_empty() {
        return Err(Fault::missing("text"));
    }
    if request.text.len() > limits::MESSAGE_TEXT_BYTES {
        return Err(Fault::new(
            Reason::MessageTooLarge,
            format!(
                "the text has {} bytes, at most {} are taken",
                request.text.len(),
                limits::MESSAGE_TEXT_BYTES
            ),
        )
        .with("limit", limits::MESSAGE_TEXT_BYTES));
    }
    let mode = pb::SendMode::try_from(request.mode)
        .map_err(|_| Fault::invalid("mode", "no known value"))?;
    let source = enums::optional::<pb::SessionSource, Input>("source", request.source)?;
    Ok(SendRequest {
        session: request.session_id,
        sending: Sending {
            client_key: request.client_key,
            text: request.text,
            mode: match mode {
                pb::SendMode::Unspecified | pb::SendMode::Queue => SendMode::Queue,
                pb::SendMode::AfterTurn => SendMode::AfterTurn,
                pb::SendMode::Interrupt => SendMode::Interrupt,
            },
            if_turn: request.if_turn,
            images: request.images.len(),
            source: source.unwrap_or(Input::Cli),
        },
    })
}
