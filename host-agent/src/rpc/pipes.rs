use muster_domain::{Fault, Reason, limits};
use muster_proto::{
    agent::{WritePipeRequest, WritePipeResponse, pipes_service_server::PipesService},
    convert,
};
use tonic::{Request, Response, Status, async_trait};

use super::{Services, refuse};
use crate::pipes::Pipes;

#[async_trait]
impl PipesService for Services {
    async fn write(
        &self,
        request: Request<WritePipeRequest>,
    ) -> Result<Response<WritePipeResponse>, Status> {
        let (_, extensions, mut request) = request.into_parts();
        let mutation = request.mutation.take();
        let order = self.order("Pipes.Write", &extensions, mutation, request.path.clone());
        let bytes = request.data.len();
        self.audited(order, bytes, |_| self.write_pipe(request))
            .await
    }
}

impl Services {
    async fn write_pipe(
        &self,
        request: WritePipeRequest,
    ) -> Result<Response<WritePipeResponse>, Status> {
        if request.data.len() > limits::PIPE_WRITE_BYTES {
            let most = limits::PIPE_WRITE_BYTES;
            let why = format!("a pipe is written with at most {most} bytes");
            return Err(refuse(
                &Fault::new(Reason::MessageTooLarge, why).with("limit", most),
            ));
        }
        let deadline = convert::time::from_duration("deadline", request.deadline.as_ref())
            .map_err(|fault| refuse(&fault))?;
        let path = request.path;
        let found = self.blocking("pipe", move |shared| Pipes::find(&shared.roots, &path));
        let found = found.await?;
        // Owned by the agent, not by the call: a caller that goes away must not leave half a
        // message in the pipe when there is room for all of it.
        let (answer, answered) = tokio::sync::oneshot::channel();
        let pipes = self.shared.pipes.clone();
        self.shared.tasks.spawn("pipe write", async move {
            let _ = answer.send(pipes.write(&found, &request.data, deadline).await);
        });
        match answered.await {
            Ok(Ok(written_bytes)) => Ok(Response::new(WritePipeResponse { written_bytes })),
            Ok(Err(fault)) => Err(refuse(&fault)),
            Err(_) => Err(refuse(&crate::tails::moved())),
        }
    }
}
