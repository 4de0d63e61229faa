//! The link's state machine: what is known about a host's connection and what to do next.
//!
//! Pure: time (boottime) and chance are arguments, effects are return values. Unreachable
//! says something about the link alone, never about the processes behind it.

mod machine;

use std::{fmt, time::Duration};

pub use machine::LinkMachine;

/// Without an inbound byte for this long the link is suspect.
pub const SUSPECT_AFTER: Duration = Duration::from_secs(5);
/// Without an inbound byte for this long the link is given up.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(20);
/// Bytes come but the agent has not beaten for this long: it is wedged.
pub const WEDGED_AFTER: Duration = Duration::from_secs(60);
/// Ticks this far apart mean that the machine slept, not that the host was silent.
pub const SLEPT_AFTER: Duration = Duration::from_secs(10);
/// A connection that lived this long was a good one: the back-off begins anew.
pub const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The state as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// No attempt has ended yet, or a good connection was just lost.
    Connecting,
    /// The agent answers.
    Connected,
    /// Connected, but nothing has come in for a while.
    Suspect,
    /// Given up for now, or for good.
    Unreachable {
        /// Why.
        cause: Cause,
    },
}

impl LinkState {
    /// Whether calls may be made now.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Connected | Self::Suspect)
    }

    /// The state's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Suspect => "suspect",
            Self::Unreachable { .. } => "unreachable",
        }
    }
}

/// Protocol versions that a side speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolRange {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

impl ProtocolRange {
    /// The newest version that both speak.
    pub fn common(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

impl fmt::Display for ProtocolRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}–{}", self.min, self.max)
    }
}

/// Why a host is unreachable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// No answer, or the connection broke.
    #[error("the network does not reach it")]
    Network,
    /// The host refused the connection.
    #[error("it refuses the connection")]
    Refused,
    /// It does not accept our credentials. The next attempt comes after ten minutes.
    #[error("authentication failed")]
    AuthFailed,
    /// We do not accept its key. Never tried again by itself.
    #[error("its host key was refused")]
    HostKeyRefused,
    /// The host is there and no agent runs on it.
    #[error("no agent runs on it")]
    AgentDown,
    /// An agent is there and does not answer.
    #[error("its agent does not answer")]
    AgentWedged,
    /// Its agent obeys a later lease of the host: another coordinator's, or that of this one before its data went back to an older copy.
    #[error("its agent obeys another coordinator, whose lease is later")]
    EpochStale,
    /// No protocol version in common.
    #[error("its agent speaks protocol {theirs}, this side {ours}")]
    Incompatible {
        /// What we speak.
        ours: ProtocolRange,
        /// What the agent speaks.
        theirs: ProtocolRange,
    },
    /// No agent could be started.
    #[error("its agent could not be started: {text}")]
    BootstrapFailed {
        /// What the bootstrap said.
        text: String,
    },
}

impl Cause {
    /// The cause's name in interfaces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Refused => "refused",
            Self::AuthFailed => "auth_failed",
            Self::HostKeyRefused => "host_key_refused",
            Self::AgentDown => "agent_down",
            Self::AgentWedged => "agent_wedged",
            Self::EpochStale => "epoch_stale",
            Self::Incompatible { .. } => "incompatible",
            Self::BootstrapFailed { .. } => "bootstrap_failed",
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The dial gave a connection.
    DialledOk,
    /// The dial failed.
    DialFailed(Cause),
    /// The bootstrap ended.
    Bootstrapped(Result<(), String>),
    /// The agent has introduced itself on the new connection.
    HelloOk,
    /// It has not, or is not one we can work with.
    HelloFailed(Cause),
    /// The connection's last inbound byte came at this time.
    ByteSeen(Duration),
    /// A beat of the agent came at this time.
    Beat(Duration),
    /// The connection has ended.
    Lost,
    /// Time has passed. Comes about once a second.
    Tick,
    /// Somebody wants an attempt now.
    RetryNow,
    /// The agent is told to end. Where none answers, none is started until
    /// [`Input::RetryNow`].
    Rest,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Dial now; answer with [`Input::DialledOk`] or [`Input::DialFailed`].
    Dial,
    /// Make an agent be there; answer with [`Input::Bootstrapped`].
    Bootstrap,
    /// Say hello on the new connection; answer with [`Input::HelloOk`] or
    /// [`Input::HelloFailed`].
    Hello,
    /// Send something that must be answered.
    Probe,
    /// Drop the connection and all that belongs to it.
    Drop,
    /// The visible state is another one now.
    Changed(LinkState),
}
