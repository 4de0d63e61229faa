//! `InteractionsService`. No adapter of this version raises one.

use muster_domain::{Fault, InteractionId, Reason, page};
use muster_proto::{
    convert::id,
    public::{self as pb, interactions_service_server::InteractionsService},
};
use tonic::{Request, Response, Status, async_trait};

use super::Rpc;

#[async_trait]
impl InteractionsService for Rpc {
    async fn list_interactions(
        &self,
        request: Request<pb::ListInteractionsRequest>,
    ) -> Result<Response<pb::ListInteractionsResponse>, Status> {
        let request = request.into_inner();
        self.answer("ListInteractions", async {
            if !request.page_token.is_empty() {
                return Err(page::bad_token());
            }
            if !request.session_id.is_empty() {
                self.app.session(&request.session_id).await?;
            }
            Ok(pb::ListInteractionsResponse::default())
        })
        .await
    }

    async fn answer_interaction(
        &self,
        request: Request<pb::AnswerInteractionRequest>,
    ) -> Result<Response<pb::AnswerInteractionResponse>, Status> {
        let request = request.into_inner();
        self.answer("AnswerInteraction", async {
            let asked: InteractionId = id::id("id", &request.id)?;
            id::client_key("client_key", &request.client_key)?;
            id::required("choice", &request.choice)?;
            Err(Fault::new(
                Reason::InteractionNotFound,
                format!("there is no interaction `{asked}`"),
            )
            .with("id", asked))
        })
        .await
    }
}
