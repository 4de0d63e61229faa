//! `muster down`.

use std::time::Duration;

use muster_client::{Reason, ShutDown};
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
    let done = match client.shutdown(asked.sessions, asked.agent).await {
        Ok(done) => done,
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
            if context.json {
                return out::json(&json!({ "ran": false, "stopped_sessions": 0 }));
            }
            out::note("no coordinator runs");
            return Ok(());
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
    said(context, asked, &done)
}

fn said(context: &Context, asked: Asked, done: &ShutDown) -> Result<(), Failure> {
    if context.json {
        out::json(&json!({
            "ran": true,
            "stopped_sessions": done.stopped_sessions,
            "stopping_sessions": done.stopping_sessions,
            "agent_ended": asked.agent && done.agent_failure.is_none(),
        }))?;
    } else {
        out::note(&told(asked, done));
    }
    if let Some(why) = &done.agent_failure {
        return Err(Failure::failed(format!(
            "the host agent was not told to end: {why}"
        )));
    }
    if done.stopping_sessions > 0 {
        let text = "not every session has ended; its keeper goes on with that";
        return Err(Failure::failed(text)
            .hint("`muster up --detach` and `muster session ls --live` tell how they stand"));
    }
    Ok(())
}

fn told(asked: Asked, done: &ShutDown) -> String {
    let agent = if asked.agent && done.agent_failure.is_none() {
        " and the host agent have"
    } else {
        " has"
    };
    let sessions = match (
        asked.sessions,
        done.stopped_sessions,
        done.stopping_sessions,
    ) {
        (false, ..) => "sessions go on".to_owned(),
        (true, 0, 0) => "no session ran".to_owned(),
        (true, 1, 0) => "one session was stopped".to_owned(),
        (true, count, 0) => format!("{count} sessions were stopped"),
        (true, count, going) => format!("{count} sessions were stopped, {going} still are being"),
    };
    format!("the coordinator{agent} ended; {sessions}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_not_told() {
        let asked = Asked {
            sessions: true,
            agent: true,
        };
        let done = ShutDown {
            stopped_sessions: 2,
            stopping_sessions: 1,
            agent_failure: Some("it is away".to_owned()),
        };
        let text = told(asked, &done);
        assert_eq!(
            text,
            "the coordinator has ended; 2 sessions were stopped, 1 still are being"
        );
        let all = told(asked, &ShutDown::default());
        assert_eq!(
            all,
            "the coordinator and the host agent have ended; no session ran"
        );
    }
}
