//! The coordinator by itself; the host agent is the `muster-agent` beside it.

use std::process::ExitCode;

use muster_coordinator::up::{Binary, up_main};

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    muster_runtime::process::stage1_main(args.iter().cloned())
        .unwrap_or_else(|| up_main(&Binary::musterd(), args))
}
