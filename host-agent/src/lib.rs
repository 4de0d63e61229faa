//! The host agent: it moves bytes and states facts about files and processes, and knows no
//! program's format and no task. The keeper, which outlives it, lives here as well.

mod files;
pub mod keeper;
pub mod keeper_client;
pub mod proc;
pub mod run_dir;
mod tails;
