//! `muster up`: the coordinator, with the host agent of this machine.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use muster_coordinator::up::{Binary, up_main};

use crate::{context::Context, out};

/// How long a coordinator may take to say that it is there.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

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
    // Asked, not only connected to: another program may listen on the socket.
    let ask = async {
        let client = context.client().ok()?.with_deadline(ANSWERS_WITHIN);
        client.reach().await.ok()?;
        client.status().await.ok()
    };
    let status = runtime.block_on(ask);
    runtime.shutdown_background();
    status.map(|_| context.address)
}
