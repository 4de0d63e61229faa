//! Actions of a fold as calls to the session's host, each with a deadline.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use muster_domain::{
    Reason, SessionId, limits,
    session::{
        Spec,
        fold::{Action, Fact, Rung as FoldRung, Step},
    },
};
use muster_runtime::failpoint;

use super::facts;
use crate::hosts::api::{
    DeliverCall, FileRef, FollowCall, Framing, HostApi, RunFile, RunKey, Rung, RungAction,
    SpawnCall, Start, StdinMode, StopCall,
};

/// Deadline of a call that only passes something on.
pub(super) const CALL: Duration = Duration::from_secs(10);

/// A call under way, and what it will say.
pub(super) type Call = BoxFuture<'static, Vec<Fact>>;

/// The call that does `action`; `None` for what is no call but a change of the tail.
pub(super) fn make(host: Arc<dyn HostApi>, spec: &Spec, action: Action) -> Option<Call> {
    let session = spec.id;
    let key = move |run| RunKey { session, run };
    Some(match action {
        Action::Spawn { run } => {
            let call = SpawnCall {
                key: key(run),
                argv: spec.argv.clone(),
                cwd: spec.cwd.clone(),
                env: spec.env.clone(),
                stdin: StdinMode::Closable,
            };
            Box::pin(async move {
                failpoint!("session.before_spawn");
                let answer = host.spawn(call, limits::START_DEADLINE).await;
                failpoint!("session.after_spawn");
                vec![facts::of_spawn(run, answer)]
            })
        }
        Action::AskRun { run } => Box::pin(async move {
            let answer = host.get_run(key(run), CALL).await;
            vec![facts::of_run(run, answer)]
        }),
        Action::Deliver {
            run,
            delivery,
            payload,
            single_line,
        } => {
            let call = DeliverCall {
                key: key(run),
                delivery,
                payload: payload.into(),
                single_line,
            };
            Box::pin(async move {
                failpoint!("session.before_deliver");
                let answer = host.deliver(call, limits::DELIVER_WAIT + CALL).await;
                failpoint!("session.after_deliver");
                facts::of_delivery(run, delivery, answer)
            })
        }
        Action::AskDelivery { run, delivery } => Box::pin(async move {
            let answer = host.get_delivery(key(run), delivery, CALL).await;
            facts::of_delivery(run, delivery, answer)
        }),
        Action::Stop {
            run,
            rungs,
            survivors,
        } => {
            let call = StopCall {
                key: key(run),
                rungs: rungs.into_iter().map(rung).collect(),
                survivors,
            };
            Box::pin(stop(host, call))
        }
        Action::Signal { run, signal } => Box::pin(async move {
            if let Err(fault) = host.signal(key(run), signal, CALL).await {
                tracing::warn!(session_id = %session, %fault, "the signal did not arrive");
            }
            Vec::new()
        }),
        Action::Attach { .. } | Action::Detach { .. } => return None,
    })
}

async fn stop(host: Arc<dyn HostApi>, call: StopCall) -> Vec<Fact> {
    let run = call.key.run;
    match host.stop(call, CALL).await {
        // The end is reported; this is for when the report was missed.
        Ok(stopped) if stopped.already_ended => vec![Fact::Relist],
        Ok(_) => Vec::new(),
        Err(fault) if fault.reason() == Reason::RunNotFound => vec![Fact::Absent { run }],
        Err(_) => vec![Fact::ControlUnknown { run }],
    }
}

/// The call that follows a run's output from `cursor`.
pub(super) fn follow(session: SessionId, run: u32, cursor: Vec<u8>) -> FollowCall {
    FollowCall {
        file: FileRef::Run(RunKey { session, run }, RunFile::Stdout),
        framing: Framing::Chunks,
        start: if cursor.is_empty() {
            Start::Beginning
        } else {
            Start::Cursor(cursor)
        },
        follow: true,
        late_bytes: false,
    }
}

fn rung(rung: FoldRung) -> Rung {
    Rung {
        action: match rung.step {
            Step::CloseStdin => RungAction::CloseStdin,
            Step::Signal(signal) => RungAction::Signal(signal),
        },
        wait: rung.wait,
    }
}
