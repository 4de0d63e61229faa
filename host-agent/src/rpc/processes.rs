use muster_domain::limits;
use muster_proto::{
    agent::{
        CloseStdinRequest, CloseStdinResponse, DeliverRequest, DeliverResponse,
        FindProcessesRequest, FindProcessesResponse, GetDeliveryRequest, GetDeliveryResponse,
        GetRunRequest, GetRunResponse, ListRunsRequest, ListRunsResponse, SignalRequest,
        SignalResponse, SpawnRequest, SpawnResponse, StopRequest, StopResponse, WatchRunsRequest,
        WatchRunsResponse, processes_service_server::ProcessesService,
    },
    convert,
};
use tonic::{Request, Response, Status, async_trait};

use super::{Responses, Services, admitted, audited::run_target, enter, refuse, tails::run_key};
use crate::{processes::Input, run_dir::RunKey};

#[async_trait]
impl ProcessesService for Services {
    type WatchStream = Responses<WatchRunsResponse>;

    async fn spawn(
        &self,
        request: Request<SpawnRequest>,
    ) -> Result<Response<SpawnResponse>, Status> {
        let (_, extensions, mut request) = request.into_parts();
        let target = run_target(request.run.as_ref());
        let order = self.order(
            "Processes.Spawn",
            &extensions,
            request.mutation.take(),
            target,
        );
        self.audited(order, 0, |_| async {
            let key = key(request.run.as_ref())?;
            answer(self.shared.processes.spawn(key, request).await)
        })
        .await
    }

    async fn get(
        &self,
        request: Request<GetRunRequest>,
    ) -> Result<Response<GetRunResponse>, Status> {
        let request = request.into_inner();
        let key = key(request.run.as_ref())?;
        let facts = self.blocking("get run", move |shared| {
            shared.processes.look_up(key, request.process.as_ref())
        });
        let facts = Some(facts.await?);
        Ok(Response::new(GetRunResponse { facts }))
    }

    async fn list(
        &self,
        request: Request<ListRunsRequest>,
    ) -> Result<Response<ListRunsResponse>, Status> {
        let request = request.into_inner();
        let page = self.blocking("list runs", move |shared| shared.processes.list(&request));
        page.await.map(Response::new)
    }

    async fn find(
        &self,
        request: Request<FindProcessesRequest>,
    ) -> Result<Response<FindProcessesResponse>, Status> {
        let session = request.into_inner().session_id;
        let session: muster_domain::SessionId =
            convert::id::id("session_id", &session).map_err(|fault| refuse(&fault))?;
        let found = self.blocking("find processes", move |shared| {
            shared.processes.find(session.as_uuid())
        });
        found.await.map(Response::new)
    }

    async fn watch(
        &self,
        request: Request<WatchRunsRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let permit = enter(&request)?;
        let events = self.shared.processes.watch();
        Ok(Response::new(admitted(permit, events)))
    }

    async fn deliver(
        &self,
        request: Request<DeliverRequest>,
    ) -> Result<Response<DeliverResponse>, Status> {
        let (_, extensions, mut request) = request.into_parts();
        let target = run_target(request.run.as_ref());
        let order = self.order(
            "Processes.Deliver",
            &extensions,
            request.mutation.take(),
            target,
        );
        let bytes = request.payload.len();
        self.audited(order, bytes, |delivery_id| async {
            let key = key(request.run.as_ref())?;
            let wait = convert::time::from_duration_opt("wait", request.wait.as_ref())
                .map_err(|fault| refuse(&fault))?
                .unwrap_or(limits::DELIVER_WAIT);
            let input = Input {
                delivery_id,
                bytes: request.payload,
                single_line: request.single_line,
            };
            let outcome = self.shared.processes.deliver(key, input, wait).await;
            answer(outcome.map(Some).map(|outcome| DeliverResponse { outcome }))
        })
        .await
    }

    async fn get_delivery(
        &self,
        request: Request<GetDeliveryRequest>,
    ) -> Result<Response<GetDeliveryResponse>, Status> {
        let request = request.into_inner();
        let key = key(request.run.as_ref())?;
        convert::id::client_key("delivery_id", &request.delivery_id)
            .map_err(|fault| refuse(&fault))?;
        let processes = &self.shared.processes;
        let outcome = processes.get_delivery(key, request.delivery_id).await;
        answer(
            outcome
                .map(Some)
                .map(|outcome| GetDeliveryResponse { outcome }),
        )
    }

    async fn close_stdin(
        &self,
        request: Request<CloseStdinRequest>,
    ) -> Result<Response<CloseStdinResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let target = run_target(request.run.as_ref());
        let order = self.order(
            "Processes.CloseStdin",
            &extensions,
            request.mutation,
            target,
        );
        self.audited(order, 0, |_| async {
            let key = key(request.run.as_ref())?;
            let already = self.shared.processes.close_stdin(key).await;
            answer(already.map(|already| CloseStdinResponse { already }))
        })
        .await
    }

    async fn stop(&self, request: Request<StopRequest>) -> Result<Response<StopResponse>, Status> {
        let (_, extensions, mut request) = request.into_parts();
        let target = run_target(request.run.as_ref());
        let order = self.order(
            "Processes.Stop",
            &extensions,
            request.mutation.take(),
            target,
        );
        self.audited(order, 0, |id| async {
            let key = key(request.run.as_ref())?;
            answer(self.shared.processes.stop(key, id, request).await)
        })
        .await
    }

    async fn signal(
        &self,
        request: Request<SignalRequest>,
    ) -> Result<Response<SignalResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let target = run_target(request.run.as_ref());
        let order = self.order("Processes.Signal", &extensions, request.mutation, target);
        self.audited(order, 0, |id| async {
            let key = key(request.run.as_ref())?;
            let targets = self.shared.processes.signal(key, id, request.signal).await;
            answer(targets.map(|targets| SignalResponse { targets }))
        })
        .await
    }
}

fn key(run: Option<&muster_proto::agent::RunRef>) -> Result<RunKey, Status> {
    run_key(run).map_err(|fault| refuse(&fault))
}

fn answer<T>(result: Result<T, muster_domain::Fault>) -> Result<Response<T>, Status> {
    match result {
        Ok(value) => Ok(Response::new(value)),
        Err(fault) => Err(refuse(&fault)),
    }
}
