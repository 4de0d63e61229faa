//! A byte stream that is counted, can be cut, and tells when it has ended.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use muster_runtime::{Clock, server::Severable};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What has gone over one connection. Cheap to clone; shared with the connection.
#[derive(Clone, Default)]
pub struct Traffic {
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    inbound: AtomicU64,
    outbound: AtomicU64,
    last_inbound_nanos: AtomicU64,
}

impl Traffic {
    /// Bytes received.
    pub fn inbound(&self) -> u64 {
        self.counts.inbound.load(Ordering::Relaxed)
    }

    /// Bytes sent.
    pub fn outbound(&self) -> u64 {
        self.counts.outbound.load(Ordering::Relaxed)
    }

    /// The boottime of the last received byte, `None` before the first.
    pub fn last_inbound(&self) -> Option<Duration> {
        match self.counts.last_inbound_nanos.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    fn received(&self, bytes: usize, at: Duration) {
        self.counts
            .inbound
            .fetch_add(bytes as u64, Ordering::Relaxed);
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.counts
            .last_inbound_nanos
            .store(nanos, Ordering::Relaxed);
    }

    fn sent(&self, bytes: usize) {
        self.counts
            .outbound
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traffic")
            .field("inbound", &self.inbound())
            .field("outbound", &self.outbound())
            .field("last_inbound", &self.last_inbound())
            .finish()
    }
}

/// What operations of a connection that was cut say.
const CUT: &str = "the link to the host was given up";

/// Wraps the I/O of one connection.
#[derive(Debug)]
pub struct Counted<IO> {
    io: Severable<IO>,
    clock: Clock,
    traffic: Traffic,
    _ended: DropGuard,
}

impl<IO> Counted<IO> {
    /// Counts into `traffic`; fails every operation once `cut` is cancelled; cancels `ended`
    /// when the connection lets go of it.
    pub fn new(
        io: IO,
        clock: Clock,
        traffic: Traffic,
        cut: &CancellationToken,
        ended: CancellationToken,
    ) -> Self {
        Self {
            io: Severable::new(io, cut, CUT),
            clock,
            traffic,
            _ended: ended.drop_guard(),
        }
    }

    fn sent(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(written)) = &result {
            self.traffic.sent(*written);
        }
        result
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Counted<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        if read > 0 {
            self.traffic.received(read, self.clock.boottime());
        }
        result
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Counted<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, buf);
        self.sent(result)
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
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.sent(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
