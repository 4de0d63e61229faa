//! Plumbing that every Muster process shares: owned tasks and shutdown, the clock,
//! the gRPC server, Unix sockets, locks, detached starts, telemetry.
//!
//! Nothing here knows a message, a session or a host. Time, tasks and sockets are
//! reached through this crate only, so that tests can replace the first, shutdown
//! can wait for the second, and the checks on the third exist once.

pub mod clock;
pub mod failpoint;
pub mod files;
pub mod limits;
pub mod lock;
pub mod process;
pub mod server;
pub mod socket;
pub mod tasks;
pub mod telemetry;

pub use clock::{Clock, Elapsed, ManualClock};
pub use server::{
    Admission, AdmissionPermit, Peer, PeerListener, PeerPolicy, ServerBuilder, ServerWindows,
};
pub use tasks::{Tasks, Unfinished, wait_terminate_signal};
