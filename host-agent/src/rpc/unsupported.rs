//! Services that the contract names and this version does not offer.

use muster_domain::Fault;
use muster_proto::agent::{
    ObserveRequest, ObserveResponse, RunRequest, RunResponse, exec_service_server::ExecService,
    git_service_server::GitService,
};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Responses, Services, refuse};

#[async_trait]
impl ExecService for Services {
    type RunStream = Responses<RunResponse>;

    async fn run(
        &self,
        _request: Request<Streaming<RunRequest>>,
    ) -> Result<Response<Self::RunStream>, Status> {
        Err(refuse(&Fault::unsupported("Exec.Run")))
    }
}

#[async_trait]
impl GitService for Services {
    async fn observe(
        &self,
        _request: Request<ObserveRequest>,
    ) -> Result<Response<ObserveResponse>, Status> {
        Err(refuse(&Fault::unsupported("Git.Observe")))
    }
}
