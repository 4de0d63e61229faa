//! The gRPC server of every daemon: health and reflection always on, explicit HTTP/2
//! windows, keepalive, and a shutdown that ends.
//!
//! tonic's own graceful shutdown waits for ever while one stream is open. Here the drain has
//! a deadline, after which the connections themselves are cut.

mod admission;
mod peers;
mod sever;
mod size;

use std::{convert::Infallible, future::Future, time::Duration};

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{
    body::Body,
    server::NamedService,
    service::{Routes, RoutesBuilder},
    transport::{Server, server::Connected},
};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::{Service, util::MapResponseLayer};

pub use admission::{Admission, AdmissionPermit, Admitted};
pub use peers::{Peer, PeerListener, PeerPolicy, PeerStream, admit};
pub use sever::Severable;
pub use size::TooLarge;

const KEEPALIVE: Duration = Duration::from_secs(10);
const MAX_HEADER_LIST_BYTES: u32 = 16 * 1024;
/// Application streams stay below the protocol's own limit, where a call would hang
/// without an error.
pub const MAX_PROTOCOL_STREAMS: u32 = 272;
/// Simultaneous streaming calls that an [`Admission`] usually allows.
pub const MAX_APPLICATION_STREAMS: usize = 256;
/// What operations of a connection that was cut say.
const CUT: &str = "the server is shutting down";
/// After the cut, connections need a moment to drop what they own.
const CUT_GRACE: Duration = Duration::from_secs(5);

/// HTTP/2 flow control of one connection. With `connection >= max_streams × stream`
/// streams that nobody reads cannot take the window from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerWindows {
    /// Receive window of a stream, in bytes.
    pub stream: u32,
    /// Receive window of the connection, in bytes.
    pub connection: u32,
    /// Streams open at the same time on a connection.
    pub max_streams: u32,
}

impl ServerWindows {
    /// Whether unread streams can never use up the connection's window.
    pub const fn is_freeze_free(&self) -> bool {
        self.connection as u64 >= self.stream as u64 * self.max_streams as u64
    }
}

impl Default for ServerWindows {
    fn default() -> Self {
        Self {
            stream: 256 * 1024,
            connection: MAX_PROTOCOL_STREAMS * 256 * 1024,
            max_streams: MAX_PROTOCOL_STREAMS,
        }
    }
}

/// The server could not be built or failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A registered descriptor set is not valid.
    #[error("file descriptor set for reflection")]
    Reflection(#[source] Box<tonic_reflection::server::Error>),
    /// The accept loop failed.
    #[error("serve")]
    Transport(#[source] tonic::transport::Error),
}

/// Switches the answer of the health service for the whole server (the empty service name).
#[derive(Clone, Debug)]
pub struct Health {
    reporter: HealthReporter,
}

impl Health {
    /// The server answers `SERVING` (true) or `NOT_SERVING` (false) from now on.
    pub async fn set_serving(&self, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        self.reporter.set_service_status("", status).await;
    }
}

/// Collects services and their descriptors, then serves them.
#[derive(Debug)]
pub struct ServerBuilder {
    windows: ServerWindows,
    routes: RoutesBuilder,
    descriptors: Vec<&'static [u8]>,
    reporter: HealthReporter,
    too_large: TooLarge,
}

impl ServerBuilder {
    /// A server with these windows that answers health checks with `NOT_SERVING` until
    /// [`Health::set_serving`].
    pub fn new(windows: ServerWindows) -> Self {
        debug_assert!(
            windows.is_freeze_free(),
            "unread streams could freeze a connection"
        );
        Self {
            windows,
            routes: RoutesBuilder::default(),
            descriptors: vec![tonic_health::pb::FILE_DESCRIPTOR_SET],
            reporter: not_serving(),
            too_large: size::plain,
        }
    }

    /// What is answered to a message above a service's size limit, in either direction, instead
    /// of a bare `RESOURCE_EXHAUSTED`.
    #[must_use]
    pub fn too_large(mut self, refusal: TooLarge) -> Self {
        self.too_large = refusal;
        self
    }

    /// Adds a service. Its descriptors are given to [`ServerBuilder::descriptors`].
    #[must_use]
    pub fn service<S>(mut self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.routes.add_service(service);
        self
    }

    /// Adds an encoded `FileDescriptorSet` to what reflection shows.
    #[must_use]
    pub fn descriptors(mut self, encoded: &'static [u8]) -> Self {
        self.descriptors.push(encoded);
        self
    }

    /// The switch of the health answer; clones of it all work on this server.
    pub fn health(&self) -> Health {
        Health {
            reporter: self.reporter.clone(),
        }
    }

    fn routes(self) -> Result<Routes, ServeError> {
        let mut reflection = tonic_reflection::server::Builder::configure();
        for encoded in self.descriptors {
            reflection = reflection.register_encoded_file_descriptor_set(encoded);
        }
        let reflection = reflection
            .build_v1()
            .map_err(|error| ServeError::Reflection(Box::new(error)))?;
        let health = tonic_health::pb::health_server::HealthServer::new(
            tonic_health::server::HealthService::from_health_reporter(self.reporter),
        );
        let mut routes = self.routes;
        routes.add_service(health).add_service(reflection);
        Ok(routes.routes())
    }

    /// Serves the connections of `incoming` until `token` is cancelled or `incoming` ends.
    /// Then it accepts no more (and drops `incoming`), answers `NOT_SERVING`, lets running
    /// calls end for at most `drain`, and cuts the connections that are left.
    ///
    /// Streaming handlers should end by themselves when the token is cancelled: what is cut
    /// looks like a network failure to the client. Dropping the future cuts at once.
    ///
    /// # Errors
    /// [`ServeError`]. Errors of single connections end that connection only.
    pub async fn serve<I, IO, E>(
        self,
        incoming: I,
        token: CancellationToken,
        drain: Duration,
    ) -> Result<(), ServeError>
    where
        I: Stream<Item = Result<IO, E>> + Send,
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
        IO::ConnectInfo: Clone + Send + Sync + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let health = self.health();
        let too_large = self.too_large;
        let sizes = MapResponseLayer::new(move |response| size::put_right(response, too_large));
        let mut server = http2_server(self.windows).layer(sizes);
        let routes = self.routes()?;
        let cut = CancellationToken::new();
        let _cut_when_dropped = cut.clone().drop_guard();
        let sever = cut.clone();
        let incoming = incoming.map(move |io| io.map(|io| Severable::new(io, &sever, CUT)));
        let stop = {
            let token = token.clone();
            async move {
                token.cancelled().await;
                health.set_serving(false).await;
            }
        };
        let serving = server
            .add_routes(routes)
            .serve_with_incoming_shutdown(incoming, stop);
        let result = with_drain_deadline(serving, &token, drain, &cut).await;
        result.map_err(ServeError::Transport)
    }
}

/// A reporter of its own accord answers that all is well, before anything is.
fn not_serving() -> HealthReporter {
    let reporter = HealthReporter::new();
    let set = reporter.set_service_status("", ServingStatus::NotServing);
    // Ready at the first poll: nobody else has this reporter yet, so its lock is free.
    let done = tokio::task::unconstrained(set).now_or_never();
    debug_assert!(done.is_some(), "a fresh lock is free");
    reporter
}

fn http2_server(windows: ServerWindows) -> Server {
    Server::builder()
        .initial_stream_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_concurrent_streams(windows.max_streams)
        .http2_adaptive_window(Some(false))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
}

async fn with_drain_deadline<F>(
    serving: F,
    token: &CancellationToken,
    drain: Duration,
    cut: &CancellationToken,
) -> F::Output
where
    F: Future<Output = Result<(), tonic::transport::Error>>,
{
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        result = &mut serving => return result,
        () = token.cancelled() => {}
    }
    if let Ok(result) = tokio::time::timeout(drain, &mut serving).await {
        return result;
    }
    tracing::warn!(
        ?drain,
        "calls still open after the drain: connections are cut"
    );
    cut.cancel();
    match tokio::time::timeout(CUT_GRACE, &mut serving).await {
        Ok(result) => result,
        Err(_) => {
            tracing::error!("connections did not end after they were cut");
            Ok(())
        }
    }
}
