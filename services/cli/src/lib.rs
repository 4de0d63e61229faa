//! The command line `muster`: it talks to the coordinator through `muster-client` alone, and
//! carries coordinator, host agent and keeper, so that one binary starts everything on a
//! workstation.
//!
//! Data goes to standard output, everything else to standard error.

mod agent;
mod args;
mod cmd;
mod context;
mod cuts;
mod duration;
mod exit;
mod follow;
mod out;
mod start;
mod table;
mod usage;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;
use muster_coordinator::up::Binary;

use crate::{args::Cli, context::Context, exit::Failure};

/// Runs the command that the process was started with. Keepers and the stages of detached
/// starts are looked at first: they must stay small.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = muster_host_agent::dispatch(&args) {
        return code;
    }
    if usage::wants_json(&args) {
        out::speak_json();
    }
    match args.get(1).and_then(|word| word.to_str()) {
        Some("agent") => return muster_host_agent::agent_main(without_verb(args)),
        Some("up") => return cmd::up::run(&Binary::muster(), without_verb(args)),
        _ => {}
    }
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage::refuse(&error, &args),
    };
    match run(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn without_verb(mut args: Vec<OsString>) -> Vec<OsString> {
    args.remove(1);
    args
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("start the runtime: {error}")))?;
    let result = runtime.block_on(async {
        let context = Context::new(&cli)?;
        Box::pin(cmd::run(context, cli.command)).await
    });
    runtime.shutdown_background();
    result
}
