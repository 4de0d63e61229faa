//! What an actor has its host do. Each call has a deadline; what comes of it is a fact.
//!
//! At most one call of each kind is under way: a newer one takes the place of an older one,
//! which every call allows, as it can be repeated. So there is never a second delivery, and
//! never a second start, beside one whose answer is outstanding.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use muster_domain::{
    DeliveryId, Fault, Kind, Reason,
    delivery::Answer,
    session::{
        Failure, Identity, Spec,
        fold::{Fact, Rung, Step},
    },
};
use muster_runtime::failpoint;

use crate::{
    hosts::api::{self, DeliverCall, HostApi, RunKey, SpawnCall, StdinMode, StopCall},
    store,
};

/// How long a start may take to be answered; then the host is asked.
const SPAWN: Duration = Duration::from_secs(30);
/// How long any other call may take.
pub(in crate::sessions) const CALL: Duration = Duration::from_secs(10);
/// Signals that are under way at once.
const SIGNALS: usize = 16;

/// Calls under way. Dropping it withdraws interest in them.
#[derive(Default)]
pub(super) struct Calls {
    launch: Option<BoxFuture<'static, Vec<Fact>>>,
    delivery: Option<BoxFuture<'static, Vec<Fact>>>,
    stop: Option<BoxFuture<'static, Vec<Fact>>>,
    /// Signals, and what could not be called.
    signals: FuturesUnordered<BoxFuture<'static, Vec<Fact>>>,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.launch.is_none()
            && self.delivery.is_none()
            && self.stop.is_none()
            && self.signals.is_empty()
    }

    /// No further signal should be asked for now.
    pub(super) fn is_full(&self) -> bool {
        self.signals.len() >= SIGNALS
    }

    pub(super) fn spawn(&mut self, host: Arc<dyn HostApi>, key: RunKey, spec: &Spec) {
        let call = SpawnCall {
            key,
            argv: spec.argv.clone(),
            cwd: spec.cwd.clone(),
            env: spec.env.clone(),
            stdin: StdinMode::Closable,
        };
        self.launch = Some(spawn(host, call).boxed());
    }

    pub(super) fn ask_run(
        &mut self,
        host: Arc<dyn HostApi>,
        key: RunKey,
        process: Option<Identity>,
    ) {
        self.launch = Some(ask_run(host, key, process).boxed());
    }

    pub(super) fn recall(&mut self, store: store::Handle, key: RunKey, bytes: u64) {
        self.signals.push(recall(store, key, bytes).boxed());
    }

    pub(super) fn deliver(&mut self, host: Arc<dyn HostApi>, call: DeliverCall) {
        self.delivery = Some(deliver(host, call).boxed());
    }

    pub(super) fn ask_delivery(&mut self, host: Arc<dyn HostApi>, key: RunKey, id: DeliveryId) {
        self.delivery = Some(ask_delivery(host, key, id).boxed());
    }

    pub(super) fn stop(
        &mut self,
        host: Arc<dyn HostApi>,
        key: RunKey,
        rungs: Vec<Rung>,
        survivors: bool,
        process: Option<Identity>,
    ) {
        self.stop = Some(stop(host, stop_call(key, rungs, survivors, process)).boxed());
    }

    pub(super) fn signal(&mut self, host: Arc<dyn HostApi>, key: RunKey, signal: i32) {
        self.signals.push(send_signal(host, key, signal).boxed());
    }

    /// A call could not even be made.
    pub(super) fn failed(&mut self, fact: Fact) {
        self.signals.push(async { vec![fact] }.boxed());
    }

    /// What came of a call; for ever when there is none. Cancel safe.
    pub(super) async fn next(&mut self) -> Vec<Fact> {
        tokio::select! {
            facts = slot(&mut self.launch) => facts,
            facts = slot(&mut self.delivery) => facts,
            facts = slot(&mut self.stop) => facts,
            Some(facts) = self.signals.next(), if !self.signals.is_empty() => facts,
        }
    }
}

/// Waits for what is in the slot, and empties it.
pub(super) async fn slot<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => {
            let value = future.await;
            *slot = None;
            value
        }
        None => pending().await,
    }
}

async fn spawn(host: Arc<dyn HostApi>, call: SpawnCall) -> Vec<Fact> {
    let run = call.key.run;
    failpoint!("coordinator.before_spawn");
    let result = host.spawn(call, SPAWN).await;
    failpoint!("coordinator.after_spawn");
    vec![match result {
        Ok(report) => Fact::Report(Box::new(report)),
        Err(fault) if is_refusal(&fault) => Fact::SpawnRefused {
            run,
            failure: failure(&fault),
        },
        Err(fault) => {
            tracing::debug!(run, %fault, "nobody knows whether it was started");
            Fact::RunUnknown { run }
        }
    }]
}

async fn ask_run(host: Arc<dyn HostApi>, key: RunKey, process: Option<Identity>) -> Vec<Fact> {
    let run = key.run;
    vec![match host.get_run(key, process, CALL).await {
        Ok(report) => Fact::Report(Box::new(report)),
        Err(fault) if fault.reason() == Reason::RunNotFound => Fact::Absent { run },
        // A failed look is never taken for absence (R5).
        Err(_) => Fact::RunUnknown { run },
    }]
}

async fn deliver(host: Arc<dyn HostApi>, call: DeliverCall) -> Vec<Fact> {
    let delivery = call.delivery;
    failpoint!("coordinator.before_deliver");
    let result = host.deliver(call, CALL).await;
    failpoint!("coordinator.after_deliver");
    let answer = match result {
        Ok(answer) => answer,
        Err(fault) => match fault.reason() {
            // Nothing was written.
            Reason::DeliveryLimit | Reason::EpochStale => Answer::Retry,
            Reason::DiskFull => Answer::DiskFull,
            Reason::StdinClosed => Answer::StdinClosed,
            Reason::NoKeeper => Answer::NoKeeper,
            // It has no folder; whether it lives is another question.
            Reason::RunNotFound => return vec![Fact::DeliveryUnknown { delivery }, Fact::Relist],
            _ if is_refusal(&fault) => {
                let failure = failure(&fault);
                return vec![Fact::DeliveryRefused { delivery, failure }];
            }
            _ => return vec![Fact::DeliveryUnknown { delivery }],
        },
    };
    vec![Fact::Answer { delivery, answer }]
}

async fn ask_delivery(host: Arc<dyn HostApi>, key: RunKey, delivery: DeliveryId) -> Vec<Fact> {
    match host.get_delivery(key, delivery, CALL).await {
        Ok(answer) => vec![Fact::Answer { delivery, answer }],
        Err(fault) if fault.reason() == Reason::RunNotFound => {
            vec![Fact::DeliveryUnknown { delivery }, Fact::Relist]
        }
        Err(_) => vec![Fact::DeliveryUnknown { delivery }],
    }
}

async fn stop(host: Arc<dyn HostApi>, call: StopCall) -> Vec<Fact> {
    let run = call.key.run;
    let survivors = call.survivors;
    failpoint!("coordinator.before_stop");
    match host.stop(call, CALL).await {
        // Its end may have been reported before anybody listened.
        Ok(stopped) if stopped.already_ended && !survivors => vec![Fact::Relist],
        Ok(_) => Vec::new(),
        // There is neither a folder nor a process: the run is looked at.
        Err(fault) if fault.reason() == Reason::RunNotFound => vec![Fact::Relist],
        Err(fault) => {
            tracing::debug!(run, %fault, "the stop did not reach the host");
            vec![Fact::ControlUnknown { run }]
        }
    }
}

/// The messages of a run that were said last, so many bytes of them with their newlines.
async fn recall(store: store::Handle, key: RunKey, bytes: u64) -> Vec<Fact> {
    let run = key.run;
    vec![match store.said_last(key.session, run, bytes).await {
        Ok(messages) => Fact::Recalled { run, messages },
        Err(error) => {
            tracing::warn!(session = %key.session, %error, "what was written cannot be looked up");
            Fact::RecallFailed { run }
        }
    }]
}

async fn send_signal(host: Arc<dyn HostApi>, key: RunKey, signal: i32) -> Vec<Fact> {
    let run = key.run;
    match host.signal(key, signal, CALL).await {
        Ok(_) => Vec::new(),
        Err(fault) => {
            tracing::debug!(run, %fault, "the signal did not reach the host");
            vec![Fact::ControlUnknown { run }]
        }
    }
}

/// The host looked at the call and will never do it; everything else may be tried again.
fn is_refusal(fault: &Fault) -> bool {
    match fault.kind() {
        Kind::Invalid
        | Kind::NotFound
        | Kind::AlreadyExists
        | Kind::Conflict
        | Kind::Denied
        | Kind::Unsupported => true,
        Kind::Exhausted => fault.reason() == Reason::DiskFull,
        Kind::Stale
        | Kind::Unauthenticated
        | Kind::Unavailable
        | Kind::Compacted
        | Kind::Deadline
        | Kind::Internal => false,
    }
}

fn failure(fault: &Fault) -> Failure {
    let tail = fault.metadata().get("stderr_tail");
    let text = match tail.filter(|tail| !tail.is_empty()) {
        Some(tail) => format!("{}: {tail}", fault.message()),
        None => fault.message().to_owned(),
    };
    Failure {
        reason: fault.reason().as_str().to_owned(),
        // Not every database stores a NUL character.
        text: text.replace('\0', "\u{2400}"),
    }
}

/// The call that climbs this ladder.
pub(in crate::sessions) fn stop_call(
    key: RunKey,
    rungs: Vec<Rung>,
    survivors: bool,
    process: Option<Identity>,
) -> StopCall {
    StopCall {
        key,
        rungs: rungs.into_iter().map(rung).collect(),
        survivors,
        process,
    }
}

fn rung(rung: Rung) -> api::Rung {
    api::Rung {
        action: match rung.step {
            Step::CloseStdin => api::RungAction::CloseStdin,
            Step::Signal(signal) => api::RungAction::Signal(signal),
        },
        wait: rung.wait,
    }
}
