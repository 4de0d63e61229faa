//! The hosts: links to their agents, and what is asked of them.

pub mod api;
mod bootstrap;
mod calls;
mod faults;
mod handshake;
mod host;
mod registry;
pub mod reports;
mod router;
mod streams;
mod wire;

pub use bootstrap::StartAgent;
pub use host::{Host, HostParts};
pub use registry::Hosts;
