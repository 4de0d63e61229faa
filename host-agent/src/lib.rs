//! The host agent and the keeper.

pub mod keeper;
pub mod keeper_client;
pub mod proc;
pub mod run_dir;
