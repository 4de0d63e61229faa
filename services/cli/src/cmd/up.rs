//! `muster up`: the coordinator, with the host agent of this machine.

use std::{ffi::OsString, process::ExitCode};

use muster_coordinator::up::{Binary, up_main};

use crate::{context::Context, out};

/// Runs it; `args` begin with the program's name. In the background, one that answers is as
/// good as a new one.
pub(crate) fn run(binary: &Binary, args: Vec<OsString>) -> ExitCode {
    if let [_, only] = args.as_slice()
        && only == "--detach"
        && let Some(address) = answering()
    {
        out::note("the coordinator runs already");
        return match out::line(&address) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        };
    }
    up_main(binary, args)
}

/// Address of a coordinator of this data folder that answers now.
fn answering() -> Option<String> {
    let context = Context::own().ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let reached = runtime.block_on(async { context.client().ok()?.reach().await.ok() });
    runtime.shutdown_background();
    reached.map(|()| context.address)
}
