//! A dialler within the process, with faults to order: what tests use for a host.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use muster_runtime::{Peer, server::PeerStream};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    sync::{mpsc, watch},
    time::Sleep,
};
use tokio_stream::Stream;

use crate::dial::{BoxIo, Dial, DialFault};

/// What a kernel's socket buffer holds, about.
const BUFFER_BYTES: usize = 256 * 1024;
const BACKLOG: usize = 64;

/// A dialler and the server's end of it.
pub fn in_process() -> (InProcess, InProcessIncoming) {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let dial = InProcess {
        connections: sender,
        faults: Faults::default(),
    };
    (dial, InProcessIncoming { receiver })
}

/// Dials the other end in this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct InProcess {
    connections: mpsc::Sender<InProcessIo>,
    faults: Faults,
}

impl InProcess {
    /// The switches for faults of this dialler and of all its connections.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

#[async_trait]
impl Dial for InProcess {
    async fn dial(&self) -> io::Result<BoxIo> {
        let settings = self.faults.settings.borrow().clone();
        if let Some(fault) = settings.refuse {
            return Err(fault.error(io::ErrorKind::ConnectionRefused.into()));
        }
        let (client, server) = tokio::io::duplex(BUFFER_BYTES);
        let server = InProcessIo::new(server, Peer::this_process());
        if self.connections.send(server).await.is_err() {
            return Err(DialFault::AgentDown.error(io::ErrorKind::ConnectionRefused.into()));
        }
        Ok(Box::new(Faulty::new(client, &self.faults)))
    }
}

/// The server's ends of the dialled connections; a stream for the server builder.
#[derive(Debug)]
pub struct InProcessIncoming {
    receiver: mpsc::Receiver<InProcessIo>,
}

impl Stream for InProcessIncoming {
    type Item = io::Result<InProcessIo>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(cx).map(|io| io.map(Ok))
    }
}

/// The server's end of one connection.
pub type InProcessIo = PeerStream<DuplexStream>;

/// Faults to order. Cheap to clone; all clones are the same switches.
#[derive(Clone, Debug)]
pub struct Faults {
    settings: Arc<watch::Sender<Settings>>,
}

#[derive(Clone, Debug, Default)]
struct Settings {
    refuse: Option<DialFault>,
    black_hole: bool,
    delay: Duration,
    cuts: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            settings: Arc::new(watch::Sender::new(Settings::default())),
        }
    }
}

impl Faults {
    /// Every dial from now on fails with this, or works again.
    pub fn refuse(&self, fault: Option<DialFault>) {
        self.settings
            .send_modify(|settings| settings.refuse = fault);
    }

    /// Nothing goes through any more in either direction, and nobody is told; false lets
    /// it go on where it stood.
    pub fn black_hole(&self, on: bool) {
        self.settings
            .send_modify(|settings| settings.black_hole = on);
    }

    /// What comes in is held back for this long.
    pub fn delay(&self, delay: Duration) {
        self.settings.send_modify(|settings| settings.delay = delay);
    }

    /// Resets every connection that is open now.
    pub fn cut(&self) {
        self.settings.send_modify(|settings| settings.cuts += 1);
    }
}

type Changed = Pin<Box<dyn Future<Output = watch::Receiver<Settings>> + Send>>;

/// The client's end of a connection, subject to the faults.
struct Faulty {
    io: DuplexStream,
    settings: watch::Receiver<Settings>,
    changed: Changed,
    cuts: u64,
    late: Option<Pin<Box<Sleep>>>,
}

enum Verdict {
    Pass(Duration),
    Hold,
}

impl Faulty {
    fn new(io: DuplexStream, faults: &Faults) -> Self {
        let settings = faults.settings.subscribe();
        let cuts = settings.borrow().cuts;
        Self {
            io,
            changed: changed(settings.clone()),
            settings,
            cuts,
            late: None,
        }
    }

    /// Looks at the switches and leaves the waker with their next change.
    fn verdict(&mut self, cx: &mut Context<'_>) -> io::Result<Verdict> {
        while let Poll::Ready(receiver) = self.changed.as_mut().poll(cx) {
            self.changed = changed(receiver);
        }
        let settings = self.settings.borrow();
        if settings.cuts != self.cuts {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if settings.black_hole {
            return Ok(Verdict::Hold);
        }
        Ok(Verdict::Pass(settings.delay))
    }
}

fn changed(mut receiver: watch::Receiver<Settings>) -> Changed {
    Box::pin(async move {
        if receiver.changed().await.is_err() {
            // Nobody can order a fault any more.
            std::future::pending::<()>().await;
        }
        receiver
    })
}

impl AsyncRead for Faulty {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Verdict::Pass(delay) = self.verdict(cx)? else {
            return Poll::Pending;
        };
        if delay.is_zero() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let late = self
            .late
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(delay)));
        if late.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        if result.is_ready() {
            self.late = None;
        }
        result
    }
}

impl AsyncWrite for Faulty {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.verdict(cx)? {
            Verdict::Pass(_) => Pin::new(&mut self.io).poll_write(cx, buf),
            Verdict::Hold => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.verdict(cx)? {
            Verdict::Pass(_) => Pin::new(&mut self.io).poll_flush(cx),
            Verdict::Hold => Poll::Pending,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
