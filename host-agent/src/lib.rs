//! The host agent: it moves bytes and states facts about files and processes, and knows no
//! program's format and no task. The keeper, which outlives it, lives here as well.

mod cli;
mod files;
mod host;
pub mod keeper;
pub mod keeper_client;
mod pipes;
pub mod proc;
mod processes;
mod rpc;
pub mod run_dir;
mod serve;
mod spawn;
mod tails;

pub use cli::{agent_main, dispatch};
pub use serve::{Agent, AgentConfig};
