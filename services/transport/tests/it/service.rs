//! A gRPC service of bytes, written by hand so that no protocol file is needed.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf as _, BufMut as _};
use muster_runtime::{AdmissionPermit, ServerBuilder, Tasks, server::admit};
use muster_transport::SERVER_WINDOWS;
use tokio::sync::Notify;
use tokio_stream::Stream;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::{Grpc, NamedService},
    transport::{Channel, server::Connected},
};

const CHUNK: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}

/// `Echo` gives back what it gets, `Slow` does so when it is released, `Flood` sends without end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes {
    flooded: Arc<AtomicU64>,
    slow: Arc<AtomicU64>,
    release: Arc<Notify>,
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;
type Chunks = Pin<Box<dyn Stream<Item = Result<Vec<u8>, Status>> + Send>>;

impl Bytes {
    /// How many bytes all floods have handed to HTTP/2.
    pub(crate) fn flooded(&self) -> u64 {
        self.flooded.load(Ordering::Relaxed)
    }

    /// How many `Slow` calls have begun.
    pub(crate) fn slow(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }

    /// Lets a `Slow` call end.
    pub(crate) fn release(&self) {
        self.release.notify_one();
    }

    fn flood(&self, permit: AdmissionPermit) -> Chunks {
        let flooded = self.flooded.clone();
        let chunks = tokio_stream::iter(std::iter::repeat_with(move || {
            flooded.fetch_add(CHUNK as u64, Ordering::Relaxed);
            Ok(vec![b'x'; CHUNK])
        }));
        Box::pin(permit.hold(chunks))
    }
}

impl NamedService for Bytes {
    const NAME: &'static str = "test.Bytes";
}

impl tower::Service<http::Request<Body>> for Bytes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answer {
        let this = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(Raw);
            Ok(match request.uri().path() {
                "/test.Bytes/Echo" => {
                    let echo = |request: Request<Vec<u8>>| async move {
                        Ok::<_, Status>(Response::new(request.into_inner()))
                    };
                    grpc.unary(tower::service_fn(echo), request).await
                }
                "/test.Bytes/Slow" => {
                    let slow = move |request: Request<Vec<u8>>| {
                        let this = this.clone();
                        async move {
                            this.slow.fetch_add(1, Ordering::Relaxed);
                            this.release.notified().await;
                            Ok::<_, Status>(Response::new(request.into_inner()))
                        }
                    };
                    grpc.unary(tower::service_fn(slow), request).await
                }
                "/test.Bytes/Flood" => {
                    let flood = move |request: Request<Vec<u8>>| {
                        let chunks = admit(&request).map(|permit| this.flood(permit));
                        async move { chunks.map(Response::new) }
                    };
                    grpc.server_streaming(tower::service_fn(flood), request)
                        .await
                }
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// Calls `Echo`.
pub(crate) async fn echo(channel: Channel, text: &str) -> Result<String, Status> {
    unary(channel, "/test.Bytes/Echo", text).await
}

/// Calls `Slow`.
pub(crate) async fn slow(channel: Channel, text: &str) -> Result<String, Status> {
    unary(channel, "/test.Bytes/Slow", text).await
}

async fn unary(channel: Channel, path: &'static str, text: &str) -> Result<String, Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    grpc.ready().await.map_err(unavailable)?;
    let path = http::uri::PathAndQuery::from_static(path);
    let request = Request::new(text.as_bytes().to_vec());
    let answer = grpc.unary(request, path, Raw).await?;
    Ok(String::from_utf8_lossy(&answer.into_inner()).into_owned())
}

/// Opens a `Flood`.
pub(crate) async fn flood(channel: Channel) -> Result<Streaming<Vec<u8>>, Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    grpc.ready().await.map_err(unavailable)?;
    let path = http::uri::PathAndQuery::from_static("/test.Bytes/Flood");
    let answer = grpc
        .server_streaming(Request::new(Vec::new()), path, Raw)
        .await?;
    Ok(answer.into_inner())
}

/// A running server of [`Bytes`].
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) tasks: Tasks,
    pub(crate) bytes: Bytes,
}

impl Served {
    /// Serves on `incoming`; stopping cuts everything at once.
    pub(crate) fn new<I, IO>(incoming: I) -> Self
    where
        I: Stream<Item = io::Result<IO>> + Send + 'static,
        IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Connected + Unpin + Send + 'static,
        IO::ConnectInfo: Clone + Send + Sync + 'static,
    {
        Self::with_drain(incoming, Duration::ZERO)
    }

    /// Serves on `incoming`; stopping lets running calls end for at most `drain`.
    pub(crate) fn with_drain<I, IO>(incoming: I, drain: Duration) -> Self
    where
        I: Stream<Item = io::Result<IO>> + Send + 'static,
        IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Connected + Unpin + Send + 'static,
        IO::ConnectInfo: Clone + Send + Sync + 'static,
    {
        let (tasks, bytes) = (Tasks::new("server"), Bytes::default());
        let builder = ServerBuilder::new(SERVER_WINDOWS).service(bytes.clone());
        let token = tasks.token();
        tasks.spawn("serve", builder.serve(incoming, token, drain));
        Self { tasks, bytes }
    }

    /// Stops it and cuts its connections.
    pub(crate) async fn stop(&self) {
        let _ = self.tasks.shutdown(crate::LONG).await;
    }
}
