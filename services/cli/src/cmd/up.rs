//! `muster up`: the coordinator, with the host agent of this machine.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::Parser as _;
use muster_coordinator::up::{self, Binary, Up};
use serde_json::json;

use crate::{agent, context::Context, exit::Failure, out, usage};

/// How long a coordinator may take to say that it is there.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Runs it; `args` begin with the program's name. In the background, one that answers is as
/// good as a new one.
pub(crate) fn run(binary: &Binary, mut args: Vec<OsString>) -> ExitCode {
    // What the help calls this command.
    if let Some(name) = args.first_mut() {
        *name = "muster up".into();
    }
    args.retain(|arg| arg != "--json");
    let up = match Up::try_parse_from(&args) {
        Ok(up) => up,
        Err(error) => return usage::refuse(&error, &args),
    };
    if up.detach
        && args.len() == 2
        && let Some(address) = answering()
    {
        out::note("the coordinator runs already");
        return match said(&address, &address) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        };
    }
    let say = |address: &str| {
        let next = "next: muster run -- bash -c 'echo hello'";
        // Whoever started us may have closed our standard output; that ends nothing.
        let _ = said(address, &format!("muster is up at {address}\n{next}"));
    };
    match up::run(&up, binary, say) {
        Ok(()) => {
            if up.detach {
                warn_of_agent(&up);
            }
            ExitCode::SUCCESS
        }
        Err(refused) => {
            let failure = Failure::with_code(refused.code, refused.text);
            match refused.hint {
                Some(hint) => failure.hint(hint).report(),
                None => failure.report(),
            }
        }
    }
}

fn said(address: &str, text: &str) -> Result<(), Failure> {
    if out::is_json() {
        return out::json(&json!({ "address": address }));
    }
    out::line(text)
}

/// A coordinator without its machine's agent runs, and can start nothing here.
fn warn_of_agent(up: &Up) {
    let Ok(context) = (match &up.home {
        Some(home) => Context::of_folder(home),
        None => Context::own(),
    }) else {
        return;
    };
    let missing = briefly(async {
        let client = context.client().ok()?.with_deadline(ANSWERS_WITHIN);
        agent::missing(&client, None).await
    });
    if let Some(missing) = missing {
        out::note(&format!(
            "warning: {}\nhint: {}",
            missing.text, missing.hint
        ));
    }
}

/// Address of a coordinator of this data folder that answers now.
fn answering() -> Option<String> {
    let context = Context::own().ok()?;
    // Asked, not only connected to: another program may listen on the socket.
    let ask = async {
        let client = context.client().ok()?.with_deadline(ANSWERS_WITHIN);
        client.reach().await.ok()?;
        client.status().await.ok()
    };
    briefly(ask).map(|_| context.address)
}

/// Asks the coordinator something before there is anything else.
fn briefly<T>(ask: impl Future<Output = Option<T>>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let answer = runtime.block_on(ask);
    runtime.shutdown_background();
    answer
}
