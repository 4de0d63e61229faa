//! The peer of a bulk read: a bare gRPC server stream of constant bytes in the same frames, without files or rights.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper_util::rt::TokioIo;
use muster_e2e::wait::boottime_ns;
use muster_proto::public::{ReadFileRequest, ReadFileResponse};
use tonic::codegen::http;
use tonic::server::ServerStreamingService;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

const FRAME: usize = 256 * 1024;
const WINDOW: u32 = 16 << 20;

/// A running server, and a connection to it.
pub(crate) struct Server {
    socket: PathBuf,
    _tasks: tokio::task::JoinSet<()>,
}

impl Server {
    pub(crate) fn start(socket: &Path) -> anyhow::Result<Self> {
        let listener = tokio::net::UnixListener::bind(socket).context("bind")?;
        let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            let server = tonic::transport::Server::builder()
                .initial_stream_window_size(WINDOW)
                .initial_connection_window_size(WINDOW)
                .add_service(Raw);
            // Ends with the benchmark.
            let _ = server.serve_with_incoming(incoming).await;
        });
        Ok(Self {
            socket: socket.to_path_buf(),
            _tasks: tasks,
        })
    }

    async fn connect(&self) -> anyhow::Result<Channel> {
        let socket = self.socket.clone();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move {
                tokio::net::UnixStream::connect(socket)
                    .await
                    .map(TokioIo::new)
            }
        });
        let endpoint = Endpoint::from_static("http://localhost")
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .connect_timeout(crate::PATIENCE);
        endpoint
            .connect_with_connector(connector)
            .await
            .context("connect")
    }

    /// Nanoseconds that a stream of so many bytes takes.
    pub(crate) async fn read(&self, bytes: u64) -> anyhow::Result<u64> {
        let mut grpc =
            tonic::client::Grpc::new(self.connect().await?).max_decoding_message_size(8 << 20);
        let start = boottime_ns();
        grpc.ready().await?;
        let request = ReadFileRequest {
            length: Some(bytes),
            ..ReadFileRequest::default()
        };
        let path = http::uri::PathAndQuery::from_static("/raw.Raw/Read");
        let codec: ProstCodec<ReadFileRequest, ReadFileResponse> = ProstCodec::default();
        let mut parts = grpc
            .server_streaming(tonic::Request::new(request), path, codec)
            .await?
            .into_inner();
        let mut seen = 0;
        while let Some(part) = parts.message().await? {
            seen += part.data.len() as u64;
        }
        anyhow::ensure!(seen == bytes, "{seen} bytes came instead of {bytes}");
        Ok(boottime_ns() - start)
    }
}

#[derive(Clone)]
struct Raw;

impl tonic::server::NamedService for Raw {
    const NAME: &'static str = "raw.Raw";
}

impl tower::Service<http::Request<tonic::body::Body>> for Raw {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async move {
            let codec: ProstCodec<ReadFileResponse, ReadFileRequest> = ProstCodec::default();
            Ok(tonic::server::Grpc::new(codec)
                .server_streaming(Constant, request)
                .await)
        })
    }
}

struct Constant;

impl ServerStreamingService<ReadFileRequest> for Constant {
    type Response = ReadFileResponse;
    type ResponseStream =
        futures_util::stream::BoxStream<'static, Result<ReadFileResponse, tonic::Status>>;
    type Future = BoxFuture<'static, Result<tonic::Response<Self::ResponseStream>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<ReadFileRequest>) -> Self::Future {
        let bytes = request.into_inner().length.unwrap_or(0);
        let frame = Bytes::from(vec![b'x'; FRAME]);
        let parts = futures_util::stream::unfold(0, move |offset: u64| {
            let left = usize::try_from(bytes - offset)
                .unwrap_or(usize::MAX)
                .min(FRAME);
            let data = frame.slice(..left);
            let part = ReadFileResponse {
                offset,
                data,
                file_size: None,
            };
            std::future::ready((left > 0).then(|| (Ok(part), offset + left as u64)))
        });
        let parts: Self::ResponseStream = Box::pin(parts);
        Box::pin(std::future::ready(Ok(tonic::Response::new(parts))))
    }
}
