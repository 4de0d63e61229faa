//! The slim binary for hosts: agent, keeper and proxy.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = muster_host_agent::keeper::dispatch(std::env::args_os()) {
        return code;
    }
    ExitCode::FAILURE
}
