//! The keeper: one small process per run. Parent and subreaper of the program, the only
//! writer of its stdin, the one that climbs the stop ladder and records the end. It outlives
//! the agent, has no async runtime, and stays out of the data path.

pub mod frame;
mod launcher;

pub use launcher::Launcher;

/// The subcommand that both binaries dispatch before anything else.
const SUBCOMMAND: &str = "keeper";
/// The first of the two stages of a start.
const STAGE1: &str = "--stage1";
