//! `muster down`.

use std::time::Duration;

use muster_client::Reason;
use muster_runtime::Clock;
use serde_json::json;

use crate::{context::Context, exit::Failure, out};

/// How long the coordinator may take to end after it said that it will.
const END_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Ends the coordinator and waits until it is gone. Succeeds when none runs, and says so.
pub(crate) async fn run(context: &Context, sessions: bool, agent: bool) -> Result<(), Failure> {
    let client = context.client()?;
    let stopped = match client.shutdown(sessions, agent).await {
        Ok(stopped) => stopped,
        Err(fault)
            if fault.reason() == Reason::CoordinatorUnreachable
                && client.reach().await.is_err() =>
        {
            return said(context, false, 0);
        }
        Err(fault) => return Err(fault.into()),
    };
    let clock = Clock::system();
    let until = clock.boottime() + END_WITHIN;
    // A connection of its own each time: an open one may outlive the listener.
    while context.client()?.reach().await.is_ok() {
        if clock.boottime() > until {
            return Err(
                Failure::failed("the coordinator said that it ends and still answers")
                    .hint("its log is `coordinator.log` in the data folder"),
            );
        }
        clock.sleep(LOOK_EVERY).await;
    }
    said(context, true, stopped)
}

fn said(context: &Context, ran: bool, stopped: u32) -> Result<(), Failure> {
    if context.json {
        return out::json(&json!({ "ran": ran, "stopped_sessions": stopped }));
    }
    match (ran, stopped) {
        (false, _) => out::note("no coordinator runs"),
        (true, 0) => out::note("the coordinator has ended; sessions go on"),
        (true, count) => out::note(&format!(
            "the coordinator has ended; {count} sessions were stopped"
        )),
    }
    Ok(())
}
