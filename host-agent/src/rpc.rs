//! The services of the contract: requests are checked and handed on, answers and faults are
//! put into their wire form. No logic lives here.

mod audited;
mod files;
mod host;
mod pipes;
mod processes;
mod tails;
mod unsupported;

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, StreamExt as _};
use muster_domain::{Fault, Reason, limits};
use muster_proto::{
    agent::{
        Mutation, exec_service_server::ExecServiceServer, files_service_server::FilesServiceServer,
        git_service_server::GitServiceServer, host_service_server::HostServiceServer,
        pipes_service_server::PipesServiceServer, processes_service_server::ProcessesServiceServer,
        tails_service_server::TailsServiceServer,
    },
    fault::{into_status, too_large},
};
use muster_runtime::{AdmissionPermit, Clock, Peer, ServerBuilder, Tasks};
use tonic::{Request, Status};

use crate::{
    files::Roots,
    host::{Audit, Epochs, HostFacts},
    pipes::Pipes,
    processes::Processes,
    tails::Tails,
};

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Everything that the services share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) roots: Arc<Roots>,
    pub(crate) facts: HostFacts,
    pub(crate) epochs: Epochs,
    pub(crate) audit: Audit,
    pub(crate) tails: Tails,
    pub(crate) pipes: Pipes,
    pub(crate) processes: Processes,
}

impl Services {
    /// Registers all services.
    pub(crate) fn register(&self, server: ServerBuilder) -> ServerBuilder {
        macro_rules! with_limits {
            ($service:ident) => {
                $service::new(self.clone())
                    .max_decoding_message_size(limits::GRPC_DECODE_BYTES)
                    .max_encoding_message_size(limits::GRPC_MESSAGE_BYTES)
            };
        }
        server
            .service(with_limits!(HostServiceServer))
            .service(with_limits!(FilesServiceServer))
            .service(with_limits!(TailsServiceServer))
            .service(with_limits!(PipesServiceServer))
            .service(with_limits!(ProcessesServiceServer))
            .service(with_limits!(ExecServiceServer))
            .service(with_limits!(GitServiceServer))
            .descriptors(muster_proto::DESCRIPTORS)
            .too_large(too_large)
    }

    /// Runs blocking work of a call. When the call is dropped the work still ends.
    async fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Shared) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Status> {
        let shared = self.shared.clone();
        let ended = self
            .shared
            .tasks
            .spawn_blocking(name, move || work(&shared));
        ended
            .await
            .map_err(Fault::internal)
            .and_then(|result| result)
            .map_err(|fault| into_status(&fault))
    }

    /// Checks who orders a change; gives the request id.
    async fn admit(&self, mutation: Option<Mutation>) -> Result<String, Status> {
        self.blocking("epoch", move |shared| {
            shared.epochs.check_mutation(mutation.as_ref())
        })
        .await
    }
}

/// A place for one stream on the connection that it is asked for on: connections do not take
/// places from each other, and a coordinator opens as many as its sessions need.
fn enter<T>(request: &Request<T>) -> Result<AdmissionPermit, Status> {
    let Some(peer) = Peer::of(request) else {
        return Err(refuse(&Fault::internal("a connection without a peer")));
    };
    peer.streams.try_enter().ok_or_else(|| {
        let most = peer.streams.limit();
        let why = format!("at most {most} streams at the same time on one connection");
        refuse(&Fault::new(Reason::StreamLimit, why).with("limit", most))
    })
}

fn refuse(fault: &Fault) -> Status {
    into_status(fault)
}

/// A stream of a service, holding its place.
fn admitted<T: 'static>(
    permit: AdmissionPermit,
    stream: impl Stream<Item = Result<T, Fault>> + Send + 'static,
) -> Responses<T> {
    let stream = stream.map(|item| item.map_err(|fault| into_status(&fault)));
    Box::pin(permit.hold(Box::pin(stream)))
}
