//! The host agent and its keepers.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    muster_host_agent::dispatch(&args).unwrap_or_else(|| muster_host_agent::agent_main(args))
}
