//! One actor per session: it owns the session's [`Fold`](muster_domain::session::Fold), brings
//! facts and commands to it, commits what it decides, and then does it.

mod actor;
pub mod api;
mod calls;
mod commit;
mod facts;
mod registry;
mod steady;
mod tail;
#[cfg(test)]
mod tests;

pub use registry::{Parts, Sessions};
