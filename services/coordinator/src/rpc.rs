//! The public contract over the use cases. One file per service; handlers only read the
//! request, call, and show the answer.

mod feed;
mod files;
mod hosts;
mod interactions;
mod messages;
mod sessions;
mod show;
mod system;
mod tasks;

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _};
use muster_domain::{Fault, Reason, limits};
use muster_proto::{
    fault,
    public::{
        feed_service_server::FeedServiceServer, files_service_server::FilesServiceServer,
        hosts_service_server::HostsServiceServer,
        interactions_service_server::InteractionsServiceServer,
        messages_service_server::MessagesServiceServer,
        sessions_service_server::SessionsServiceServer, system_service_server::SystemServiceServer,
        tasks_service_server::TasksServiceServer,
    },
};
use muster_runtime::{AdmissionPermit, Clock, Peer, ServerBuilder};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::{app::App, feed::Feed};

/// Deadline of calls that do not say otherwise.
const CALL: Duration = Duration::from_secs(60);

/// What all services share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Rpc {
    app: App,
    feed: Feed,
    clock: Clock,
    end: CancellationToken,
}

/// What a handler answers with a stream.
type Frames<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Rpc {
    /// The services over these use cases; their streams end when `end` is cancelled.
    pub fn new(app: App, feed: Feed, clock: Clock, end: CancellationToken) -> Self {
        Self {
            app,
            feed,
            clock,
            end,
        }
    }

    /// Adds the services to a server.
    #[must_use]
    pub fn register(&self, server: ServerBuilder) -> ServerBuilder {
        macro_rules! all {
            ($server:expr, $($service:ident),* $(,)?) => {
                $server$(.service(
                    $service::new(self.clone())
                        .max_decoding_message_size(limits::GRPC_DECODE_BYTES)
                        .max_encoding_message_size(limits::GRPC_DECODE_BYTES),
                ))*
            };
        }
        all!(
            server
                .descriptors(muster_proto::DESCRIPTORS)
                .too_large(fault::too_large),
            SystemServiceServer,
            TasksServiceServer,
            SessionsServiceServer,
            MessagesServiceServer,
            InteractionsServiceServer,
            HostsServiceServer,
            FilesServiceServer,
            FeedServiceServer,
        )
    }

    /// The answer of a use case, within [`CALL`].
    async fn answer<T>(
        &self,
        method: &'static str,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<Response<T>, Status> {
        self.answer_within(method, CALL, work).await
    }

    async fn answer_within<T>(
        &self,
        method: &'static str,
        deadline: Duration,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<Response<T>, Status> {
        let work = Box::pin(work);
        let result = self.clock.timeout(deadline, work).await;
        let result = result.unwrap_or_else(|_| {
            Err(Fault::new(
                Reason::Cancelled,
                format!("no answer within {} s", deadline.as_secs()),
            ))
        });
        result
            .map(Response::new)
            .map_err(|fault| refuse(method, &fault))
    }

    /// A stream of a use case that holds its place and ends with the coordinator.
    fn stream<T: Send + 'static>(
        &self,
        method: &'static str,
        place: AdmissionPermit,
        mut frames: impl Stream<Item = Result<T, Fault>> + Send + Unpin + 'static,
    ) -> Frames<T> {
        let end = self.end.clone();
        Box::pin(async_stream::stream! {
            let _place = place;
            loop {
                let next = tokio::select! {
                    biased;
                    () = end.cancelled() => Some(Err(ending())),
                    next = frames.next() => next,
                };
                match next {
                    Some(Ok(frame)) => yield Ok(frame),
                    Some(Err(fault)) => {
                        yield Err(refuse(method, &fault));
                        return;
                    }
                    None => return,
                }
            }
        })
    }
}

/// A place for a streaming call on the connection that it came on, to be held by its stream.
fn admit<T>(method: &'static str, request: &Request<T>) -> Result<AdmissionPermit, Status> {
    let streams = Peer::of(request).map(|peer| &peer.streams);
    let streams = streams.ok_or_else(|| refuse(method, &Fault::internal("no peer is known")))?;
    streams.try_enter().ok_or_else(|| {
        let limit = streams.limit();
        let fault = Fault::new(
            Reason::StreamLimit,
            format!("at most {limit} streams at the same time on one connection"),
        );
        refuse(method, &fault.with("limit", limit))
    })
}

/// The status of a fault; a defect is logged under the reference that the client sees.
fn refuse(method: &'static str, refused: &Fault) -> Status {
    if let Some(reference) = fault::reference(refused) {
        tracing::error!(
            method,
            reference,
            cause = refused.cause().unwrap_or_else(|| refused.message()),
            "internal error"
        );
    } else if let Some(cause) = refused.cause() {
        tracing::debug!(method, reason = refused.reason().as_str(), cause, "refused");
    }
    fault::into_status(refused)
}

fn ending() -> Fault {
    Fault::new(Reason::ShuttingDown, "the coordinator is ending")
        .with_hint("try again when it is back")
}
