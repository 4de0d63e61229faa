//! One owner per session: before the next run, that nothing of the earlier ones lives (S9).

use std::time::Duration;

use muster_domain::{
    Fault, Reason,
    session::{Process, State},
};

use crate::hosts::api::HostApi;

/// How long the host may take to say.
const ASK: Duration = Duration::from_secs(10);

/// Asks the host of an ended session whether anything of it lives.
///
/// # Errors
/// `SESSION_ALIVE`, `HOST_UNREACHABLE`.
pub(super) async fn confirm_free(host: &dyn HostApi, state: &State) -> Result<(), Fault> {
    let session = state.spec.id;
    let runs = host.list_runs(session, ASK).await?;
    let alive = runs.iter().find(|run| match run.process {
        None | Some(Process::Exited | Process::Lost(_)) => false,
        Some(Process::Starting | Process::Alive | Process::Unknown) => true,
    });
    if let Some(run) = alive {
        let fault = Fault::new(
            Reason::SessionAlive,
            "a run of the session may still be alive",
        );
        return Err(fault.with("run", run.run));
    }
    // Survivors count as well: the ladder of a stop may still be at work on them.
    let found = host.find_processes(session, ASK).await?;
    match found.first() {
        None => Ok(()),
        Some(found) => Err(Fault::new(
            Reason::SessionAlive,
            format!("a process of the session is alive: {}", found.name),
        )
        .with_hint(format!("muster session stop --survivors {session}"))
        .with("pid", found.identity.pid)),
    }
}
