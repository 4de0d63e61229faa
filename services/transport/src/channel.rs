//! HTTP/2 connections with windows that unread streams cannot exhaust.
//!
//! With the libraries' defaults three server streams that nobody reads freeze every other
//! call on the connection. So each profile fixes its windows such that the connection's
//! window holds all of its streams', and its holder keeps the number of streams.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use muster_runtime::{Clock, ServerWindows};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::{
    counted::{Counted, Traffic},
    dial::{Dial, DialFault},
};

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;
const KEEPALIVE: Duration = Duration::from_secs(10);

/// What a connection is for; each has one purpose so that none can starve another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Calls, beats, process events, deliveries: many small streams.
    Control,
    /// Followed files: many streams, each slow on average.
    Tails,
    /// Reads and writes of whole ranges: few streams, large windows for long distances.
    Files,
}

/// Receive windows of a client connection, and how many streams its holder opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Bytes in flight per stream.
    pub stream: u32,
    /// Bytes in flight per connection.
    pub connection: u32,
    /// Streams at the same time.
    pub streams: u32,
}

impl Windows {
    /// Whether unread streams can never use up the connection's window.
    pub const fn is_freeze_free(&self) -> bool {
        self.connection as u64 >= self.stream as u64 * self.streams as u64
    }
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 3] = [Self::Control, Self::Tails, Self::Files];

    /// The profile's windows.
    pub const fn windows(self) -> Windows {
        match self {
            Self::Control => Windows {
                stream: 256 * KIB,
                connection: 16 * MIB,
                streams: 64,
            },
            Self::Tails => Windows {
                stream: 256 * KIB,
                connection: 68 * MIB,
                streams: 256,
            },
            Self::Files => Windows {
                stream: 16 * MIB,
                connection: 64 * MIB,
                streams: 4,
            },
        }
    }
}

impl Profile {
    /// The largest frame that the other side may send, in bytes. Larger ones cost less per
    /// byte, and keep everything else on the connection waiting for longer.
    const fn frame(self) -> u32 {
        match self {
            Self::Control => 16 * KIB,
            Self::Tails => 64 * KIB,
            Self::Files => 256 * KIB,
        }
    }
}

/// The windows of an agent's server, which cannot know the client's profile.
pub const SERVER_WINDOWS: ServerWindows = ServerWindows {
    stream: 256 * KIB,
    connection: 68 * MIB,
    max_streams: 272,
};

const _: () = {
    assert!(Profile::Control.windows().is_freeze_free());
    assert!(Profile::Tails.windows().is_freeze_free());
    assert!(Profile::Files.windows().is_freeze_free());
    assert!(SERVER_WINDOWS.is_freeze_free());
    assert!(Profile::Tails.windows().streams < SERVER_WINDOWS.max_streams);
};

/// No connection could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The dialler failed.
    #[error("dial")]
    Dial(#[source] io::Error),
    /// The stream was there and HTTP/2 did not start on it.
    #[error("open the HTTP/2 connection")]
    Http(#[source] tonic::transport::Error),
    /// Not done in time.
    #[error("no connection in time")]
    TimedOut,
}

impl ConnectError {
    /// What kind of failure it was.
    pub fn fault(&self) -> DialFault {
        match self {
            Self::Dial(error) => DialFault::of(error),
            Self::Http(_) | Self::TimedOut => DialFault::Network,
        }
    }
}

/// One HTTP/2 connection. It never reconnects: when it ends, its channel fails every call,
/// and a new connection shares nothing with it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: Channel,
    traffic: Traffic,
    slots: Arc<Semaphore>,
    cut: CancellationToken,
    ended: CancellationToken,
}

/// The right to have one stream open on a connection.
#[derive(Debug)]
pub struct StreamPermit {
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    /// Dials and opens HTTP/2 within `timeout`; cancelling `cut` ends the connection and all
    /// calls on it. Cancel safe.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn open(
        dial: &dyn Dial,
        profile: Profile,
        clock: &Clock,
        timeout: Duration,
        cut: &CancellationToken,
    ) -> Result<Self, ConnectError> {
        // Boxed: the HTTP/2 handshake's future is large and would be part of every caller's.
        let open = Box::pin(Self::open_unbounded(
            dial,
            profile,
            clock,
            cut.child_token(),
        ));
        match clock.timeout(timeout, open).await {
            Ok(result) => result,
            Err(_) => Err(ConnectError::TimedOut),
        }
    }

    async fn open_unbounded(
        dial: &dyn Dial,
        profile: Profile,
        clock: &Clock,
        cut: CancellationToken,
    ) -> Result<Self, ConnectError> {
        let traffic = Traffic::default();
        let ended = CancellationToken::new();
        let io = dial.dial().await.map_err(ConnectError::Dial)?;
        let io = Counted::new(io, clock.clone(), traffic.clone(), &cut, ended.clone());
        // The channel would dial again by itself when the connection breaks. It gets one
        // stream and no second one.
        let once = Mutex::new(Some(TokioIo::new(io)));
        let connector = tower::service_fn(move |_| {
            let io = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            async move { io.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)) }
        });
        let channel = endpoint(profile)
            .connect_with_connector(connector)
            .await
            .map_err(ConnectError::Http)?;
        Ok(Self {
            channel,
            traffic,
            slots: Arc::new(Semaphore::new(profile.windows().streams as usize)),
            cut,
            ended,
        })
    }

    /// The channel for calls. Streams are opened on it only with a permit.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Its counters.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// A permit for a stream if one is free.
    pub fn try_permit(&self) -> Option<StreamPermit> {
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        Some(StreamPermit { _slot: slot })
    }

    /// Waits for a permit for a stream; `None` when the connection ended first. Cancel safe.
    pub async fn permit(&self) -> Option<StreamPermit> {
        tokio::select! {
            slot = self.slots.clone().acquire_owned() => Some(StreamPermit { _slot: slot.ok()? }),
            () = self.ended.cancelled() => None,
        }
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        self.cut.is_cancelled() || self.ended.is_cancelled()
    }

    /// Waits until the connection has ended for any reason. Cancel safe.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Ends the connection and all calls on it.
    pub fn cut(&self) {
        self.cut.cancel();
    }
}

fn endpoint(profile: Profile) -> Endpoint {
    let windows = profile.windows();
    Endpoint::from_static("http://agent.muster")
        .initial_stream_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_frame_size(profile.frame())
        .http2_adaptive_window(false)
        .concurrency_limit(windows.streams as usize)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true)
}
