//! A byte stream that can be cut from outside.
//!
//! tonic runs every connection as a task of its own that survives the server's future, so
//! the only handle on it is its I/O.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Fails every operation from the moment that its token is cancelled.
pub struct Severable<IO> {
    io: IO,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    is_cut: bool,
    why: &'static str,
}

impl<IO> Severable<IO> {
    /// The bytes of `io` until `token` is cancelled; then `ConnectionAborted`, which says `why`.
    pub fn new(io: IO, token: &CancellationToken, why: &'static str) -> Self {
        Self {
            io,
            cut: Box::pin(token.clone().cancelled_owned()),
            is_cut: false,
            why,
        }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.is_cut = self.is_cut || self.cut.as_mut().poll(cx).is_ready();
        if self.is_cut {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, self.why));
        }
        Ok(())
    }
}

impl<IO> fmt::Debug for Severable<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Severable")
            .field("is_cut", &self.is_cut)
            .finish_non_exhaustive()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Severable<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Severable<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_cut {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

impl<IO: Connected> Connected for Severable<IO> {
    type ConnectInfo = IO::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}
