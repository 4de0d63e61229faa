//! The two things that differ between hosts.

use std::{fmt, io};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A byte stream whose kind does not matter any more.
pub type BoxIo = Box<dyn ByteStream>;

/// Opens a byte stream to the agent of one host.
#[async_trait]
pub trait Dial: Send + Sync + fmt::Debug {
    /// A new connection that shares nothing with earlier ones. Cancel safe: dropping the
    /// future drops the half-made connection. The caller sets the deadline.
    ///
    /// # Errors
    /// Any I/O error; one made by [`DialFault::error`] says what kind of failure it is,
    /// every other one counts as [`DialFault::Network`].
    async fn dial(&self) -> io::Result<BoxIo>;
}

/// Makes an agent be there: starts it, or brings it and starts it.
#[async_trait]
pub trait Bootstrap: Send + Sync + fmt::Debug {
    /// Called when the host was reached and no agent answered there. After success the next
    /// [`Dial::dial`] should find one. Must be safe to call when an agent already runs.
    ///
    /// # Errors
    /// [`BootstrapError`], shown to the user as it is.
    async fn bootstrap(&self) -> Result<(), BootstrapError>;
}

/// No agent could be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BootstrapError {
    /// What went wrong and what to do, without secrets.
    pub text: String,
}

impl BootstrapError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// Why a dial failed, as far as the dialler can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialFault {
    /// The host did not answer, or the connection broke.
    #[error("network failure")]
    Network,
    /// The host answered and refused the connection.
    #[error("connection refused")]
    Refused,
    /// The host did not accept our credentials.
    #[error("authentication failed")]
    AuthFailed,
    /// We did not accept the host's key.
    #[error("host key refused")]
    HostKeyRefused,
    /// The host was reached; no agent listens there.
    #[error("no agent is running")]
    AgentDown,
}

#[derive(Debug)]
struct Faulted {
    fault: DialFault,
    source: io::Error,
}

impl fmt::Display for Faulted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fault, f)
    }
}

impl std::error::Error for Faulted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl DialFault {
    /// An I/O error that carries this fault, with its cause.
    pub fn error(self, source: io::Error) -> io::Error {
        io::Error::new(
            source.kind(),
            Faulted {
                fault: self,
                source,
            },
        )
    }

    /// The fault that an error of [`Dial::dial`] carries.
    pub fn of(error: &io::Error) -> Self {
        error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Faulted>())
            .map_or(Self::Network, |faulted| faulted.fault)
    }
}
