//! `muster down`.

use std::time::Duration;

use muster_client::Reason;
use muster_runtime::Clock;
use serde_json::json;

use crate::{context::Context, exit::Failure, out};

/// How long the coordinator may take to end after it said that it will.
const END_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is ended beside the coordinator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// All sessions, before it.
    pub(crate) sessions: bool,
    /// This machine's host agent.
    pub(crate) agent: bool,
}

/// Ends the coordinator and waits until it is gone. Succeeds when none runs, and says so.
pub(crate) async fn run(context: &Context, asked: Asked) -> Result<(), Failure> {
    let client = context.client()?;
    let stopped = match client.shutdown(asked.sessions, asked.agent).await {
        Ok(stopped) => stopped,
        Err(fault)
            if fault.reason() == Reason::CoordinatorUnreachable
                && client.reach().await.is_err() =>
        {
            if asked.agent {
                return Err(
                    Failure::failed("no coordinator runs that could end the host agent")
                        .hint("`muster up --detach` first"),
                );
            }
            return said(context, asked, false, 0);
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
    said(context, asked, true, stopped)
}

fn said(context: &Context, asked: Asked, ran: bool, stopped: u32) -> Result<(), Failure> {
    if context.json {
        return out::json(&json!({ "ran": ran, "stopped_sessions": stopped }));
    }
    if !ran {
        out::note("no coordinator runs");
        return Ok(());
    }
    let agent = if asked.agent {
        " and the host agent have"
    } else {
        " has"
    };
    let sessions = match (asked.sessions, stopped) {
        (false, _) => "sessions go on".to_owned(),
        (true, 0) => "no session ran".to_owned(),
        (true, 1) => "one session was stopped".to_owned(),
        (true, count) => format!("{count} sessions were stopped"),
    };
    out::note(&format!("the coordinator{agent} ended; {sessions}"));
    Ok(())
}
