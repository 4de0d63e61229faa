//! Everything that is on the wire: the three contracts, their generated code, and the
//! conversions between them and the domain.
//!
//! Validation happens on receive only (`TryFrom`); sending cannot fail (`From`).

pub mod convert;
pub mod fault;
pub mod json;
mod secrets;
pub mod sizes;

/// The descriptor set of all contracts, for reflection and for the contract tests.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/muster.binpb"));

#[allow(
    missing_debug_implementations,
    clippy::all,
    clippy::pedantic,
    unreachable_pub
)]
mod generated {
    pub mod keeper {
        include!(concat!(env!("OUT_DIR"), "/muster.keeper.v1.rs"));
    }
    pub mod agent {
        include!(concat!(env!("OUT_DIR"), "/muster.agent.v1.rs"));
    }
    pub mod public {
        include!(concat!(env!("OUT_DIR"), "/muster.v1.rs"));
    }
}

/// Which fields of a resource an update sets.
pub use prost_types::FieldMask;

/// `muster.agent.v1`: coordinator to host agent.
pub use generated::agent;
/// `muster.keeper.v1`: host agent to keeper.
pub use generated::keeper;
/// `muster.v1`: clients to coordinator.
pub use generated::public;
