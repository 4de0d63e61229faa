//! Hosts: the machines (H1).

use serde::{Deserialize, Serialize};

use crate::{HostId, Timestamp, session::Link};

/// Name of the machine that the coordinator runs on.
pub const WORKSTATION: &str = "local";

/// How a host is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialler {
    /// Unix socket at this path.
    Unix(String),
}

impl std::fmt::Display for Dialler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// The row of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Id.
    pub id: HostId,
    /// Unique name.
    pub name: String,
    /// How it is reached.
    pub dialler: Dialler,
    /// Lease epoch of this coordinator.
    pub epoch: u64,
    /// Last boot id seen; another one means that the host was started anew.
    pub boot: Option<String>,
    /// When the row was made.
    pub created_at: Timestamp,
}

/// A host with what is known of its link now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The row.
    pub host: Host,
    /// The link.
    pub link: Link,
    /// Cause while it is not connected.
    pub cause: Option<String>,
    /// Attempts since it was last connected.
    pub attempts: u32,
    /// When the next attempt is due.
    pub next_try: Option<Timestamp>,
    /// Since when the link is as it is.
    pub since: Timestamp,
    /// What the agent said of itself.
    pub agent: Option<Agent>,
    /// Sessions that have not ended.
    pub sessions: u32,
}

/// What an agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agent {
    /// Process id.
    pub pid: i32,
    /// Build.
    pub version: String,
    /// New at every start.
    pub instance: String,
    /// The kernel's boot id.
    pub boot: String,
    /// Operating system.
    pub os: String,
    /// Machine.
    pub arch: String,
    /// What runs short.
    pub warnings: Vec<String>,
}
