//! Byte streams to hosts, and HTTP/2 channels over them.
//!
//! Everything above [`Dial`] is the same code for every kind of host: a dialler gives a byte
//! stream, [`Bootstrap`] makes an agent be there, [`HostLink`] keeps the link honest. There
//! is no special case for the local machine.

pub mod backoff;
pub mod channel;
pub mod counted;
pub mod dial;
pub mod host_link;
pub mod in_process;
pub mod link;
pub mod unix;

pub use channel::{Connection, Profile, SERVER_WINDOWS, StreamPermit};
pub use counted::Traffic;
pub use dial::{Bootstrap, BootstrapError, BoxIo, ByteStream, Dial, DialFault};
pub use host_link::{
    Handshake, HelloOk, HostLink, Leased, LinkConfig, LinkError, LinkParts, LinkView, Pulse,
};
pub use in_process::{Faults, InProcess, InProcessIncoming, InProcessIo, in_process};
pub use link::{Cause, LinkState, ProtocolRange};
// Time is an input of every connection, so whoever opens one has to give it.
pub use muster_runtime::Clock;
pub use unix::Unix;
