//! Who may connect to a Unix socket: this user, and root when the configuration says so.
//!
//! The socket's mode already keeps others out; this check holds even when somebody loosens
//! the mode, and it is what the log shows.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
};
use tokio_stream::Stream;
use tonic::{Request, Status, transport::server::Connected};

use super::{Admission, AdmissionPermit, MAX_APPLICATION_STREAMS};

/// Out of file descriptors, accept fails at once and for ever; it is tried again this often.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// The process at the other end, as the kernel saw it when it connected. Handlers find it
/// in the request's extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its id at that time; it may have ended and been reused since.
    pub pid: Option<i32>,
    /// The streaming calls of this connection.
    pub streams: Admission,
}

impl Peer {
    /// This process itself: the other end of an in-process connection.
    pub fn this_process() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: i32::try_from(std::process::id()).ok(),
            streams: Admission::new(MAX_APPLICATION_STREAMS),
        }
    }

    /// The peer of the connection that a request came on.
    pub fn of<T>(request: &Request<T>) -> Option<&Self> {
        request.extensions().get()
    }
}

/// Takes a place for a streaming call on the request's connection, to be held by its
/// response stream.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` above 256 streams of this connection.
pub fn admit<T>(request: &Request<T>) -> Result<AdmissionPermit, Status> {
    Peer::of(request)
        .ok_or_else(|| Status::internal("connection without a known peer"))?
        .streams
        .enter()
}

/// Which users may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerPolicy {
    /// The user that the daemon runs as.
    pub uid: u32,
    /// Whether root may connect as well.
    pub allow_root: bool,
}

impl PeerPolicy {
    /// Only this process's own effective user.
    pub fn own_user() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            allow_root: false,
        }
    }

    /// Whether a process of this user may connect.
    pub fn allows(&self, uid: u32) -> bool {
        uid == self.uid || (uid == 0 && self.allow_root)
    }
}

/// A listener whose connections come from allowed users only.
#[derive(Debug)]
pub struct PeerListener {
    listener: UnixListener,
    policy: PeerPolicy,
}

impl PeerListener {
    /// Checks the peers of `listener` by `policy`.
    pub fn new(listener: UnixListener, policy: PeerPolicy) -> Self {
        Self { listener, policy }
    }

    /// The next allowed connection. Others are dropped and logged; errors of accept are
    /// logged and tried again. Cancel safe.
    pub async fn accept(&self) -> PeerStream {
        loop {
            match self.listener.accept().await {
                Ok((io, _)) => match self.check(io) {
                    Ok(Some(stream)) => return stream,
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%error, "connection without credentials refused"),
                },
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }

    /// The connections as a stream, for [`super::ServerBuilder::serve`]; it never ends.
    pub fn into_incoming(self) -> impl Stream<Item = io::Result<PeerStream>> + Send {
        async_stream::stream! {
            loop {
                yield Ok(self.accept().await);
            }
        }
    }

    fn check(&self, io: UnixStream) -> io::Result<Option<PeerStream>> {
        let credentials = io.peer_cred()?;
        let peer = Peer {
            uid: credentials.uid(),
            gid: credentials.gid(),
            pid: credentials.pid(),
            streams: Admission::new(MAX_APPLICATION_STREAMS),
        };
        if !self.policy.allows(peer.uid) {
            tracing::warn!(
                uid = peer.uid,
                pid = peer.pid,
                "connection of another user refused"
            );
            return Ok(None);
        }
        Ok(Some(PeerStream::new(io, peer)))
    }
}

/// A connection of a known peer.
#[derive(Debug)]
pub struct PeerStream<IO = UnixStream> {
    io: IO,
    peer: Peer,
}

impl<IO> PeerStream<IO> {
    /// The bytes of `io`, which come from `peer`.
    pub fn new(io: IO, peer: Peer) -> Self {
        Self { io, peer }
    }
}

impl<IO> Connected for PeerStream<IO> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for PeerStream<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for PeerStream<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
