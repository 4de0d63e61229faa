//! Messages: stored once per key.

use muster_client::{Fault, Reason};
use muster_proto::public::{
    self as pb, get_message_request::By, messages_service_server::MessagesService,
};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Fake, State, unused::unused};

impl State {
    fn message(&self, key: &str) -> Option<pb::Message> {
        let found = self.messages.iter().find(|m| m.client_key == key);
        found.cloned()
    }
}

#[async_trait]
impl MessagesService for Fake {
    async fn send_message(
        &self,
        request: Request<pb::SendMessageRequest>,
    ) -> Result<Response<pb::SendMessageResponse>, Status> {
        let request = request.into_inner();
        let message = self.planned(|state| {
            if let Some(stored) = state.message(&request.client_key) {
                return Ok(pb::Message {
                    replayed: true,
                    ..stored
                });
            }
            let message = pb::Message {
                id: format!("message {}", state.messages.len()),
                session_id: request.session_id,
                client_key: request.client_key,
                ..pb::Message::default()
            };
            state.messages.push(message.clone());
            Ok(message)
        });
        Ok(Response::new(pb::SendMessageResponse {
            message: Some(message.await?),
        }))
    }

    async fn get_message(
        &self,
        request: Request<pb::GetMessageRequest>,
    ) -> Result<Response<pb::GetMessageResponse>, Status> {
        let message = self.planned(|state| {
            let found = match request.into_inner().by {
                Some(By::Key(key)) => state.message(&key.client_key),
                _ => None,
            };
            found.ok_or_else(|| Fault::new(Reason::MessageNotFound, "no such message"))
        });
        Ok(Response::new(pb::GetMessageResponse {
            message: Some(message.await?),
        }))
    }

    async fn wait_message(
        &self,
        request: Request<pb::WaitMessageRequest>,
    ) -> Result<Response<pb::WaitMessageResponse>, Status> {
        let message = self.planned(|state| {
            let id = request.into_inner().id;
            let found = state.messages.iter().find(|m| m.id == id);
            let missing = || Fault::new(Reason::MessageNotFound, "no such message");
            found.cloned().ok_or_else(missing)
        });
        Ok(Response::new(pb::WaitMessageResponse {
            message: Some(message.await?),
        }))
    }

    async fn list_messages(
        &self,
        request: Request<pb::ListMessagesRequest>,
    ) -> Result<Response<pb::ListMessagesResponse>, Status> {
        let request = request.into_inner();
        let page = self.planned(|state| {
            let from: usize = request.page_token.parse().unwrap_or(0);
            let messages: Vec<_> = state.messages.iter().skip(from).take(2).cloned().collect();
            let next = from + messages.len();
            let more = next < state.messages.len();
            Ok(pb::ListMessagesResponse {
                messages,
                next_page_token: if more {
                    next.to_string()
                } else {
                    String::new()
                },
            })
        });
        Ok(Response::new(page.await?))
    }

    async fn list_queue(
        &self,
        _: Request<pb::ListQueueRequest>,
    ) -> Result<Response<pb::ListQueueResponse>, Status> {
        unused()
    }

    async fn cancel_message(
        &self,
        _: Request<pb::CancelMessageRequest>,
    ) -> Result<Response<pb::CancelMessageResponse>, Status> {
        let message = self.planned(|state| {
            state.messages.clear();
            Ok(pb::Message::default())
        });
        Ok(Response::new(pb::CancelMessageResponse {
            message: Some(message.await?),
        }))
    }

    async fn upload(
        &self,
        _: Request<Streaming<pb::UploadRequest>>,
    ) -> Result<Response<pb::UploadResponse>, Status> {
        unused()
    }
}
