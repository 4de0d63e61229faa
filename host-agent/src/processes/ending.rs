//! Ending runs: the ladder and single signals, by the keeper; survivors of an ended run, by
//! their recorded identity.

use std::time::Duration;

use muster_domain::{Fault, Reason, limits};
use muster_proto::{
    agent::{ProcessIdentity, RunState, Rung, StopRequest, StopResponse, rung::Action},
    convert::time::from_duration,
    keeper::{self, FailureReason},
};

use super::{
    Processes,
    facts::of,
    stdin::{ANSWER_GRACE, Input, Spool, no_keeper},
};
use crate::{
    keeper_client::{KeeperClient, KeeperError},
    proc::{self, Identity, Signalled},
    run_dir::RunKey,
};

/// Signals that may be sent: HUP, INT, QUIT, KILL, USR1, USR2, TERM.
const SIGNALS: &[i32] = &[1, 2, 3, 9, 10, 12, 15];
/// Rungs of one ladder.
const RUNGS: usize = 16;
const RUNG_WAIT_MAX: Duration = Duration::from_secs(3600);
/// How long a run whose keeper is being replaced is waited for.
const KEEPER_WITHIN: Duration = Duration::from_secs(10);
pub(super) const PAUSE: Duration = Duration::from_millis(50);

impl Processes {
    /// Starts the stop ladder, or ends the survivors of a run that has ended.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `INVALID`, `NO_KEEPER`.
    pub(crate) async fn stop(
        &self,
        key: RunKey,
        stop_id: String,
        request: StopRequest,
    ) -> Result<StopResponse, Fault> {
        let waits = check_rungs(&request.rungs)?;
        if request.survivors {
            return self.stop_survivors(key, request.rungs, waits).await;
        }
        if !self.has_folder(key).await? {
            let rungs = signals(request.rungs, waits);
            return self.stop_folderless(key, request.process, rungs).await;
        }
        let (rungs, _spools) = self.keeper_rungs(key, request.rungs, &waits).await?;
        let stop = keeper::Stop {
            stop_id,
            rungs,
            requested: true,
        };
        let answer = self
            .ask_keeper(key, |client| {
                let stop = stop.clone();
                async move { client.stop(stop, ANSWER_GRACE).await }
            })
            .await?;
        Ok(StopResponse {
            already_ended: answer.is_none_or(|started| started.already_ended),
            survivors: Vec::new(),
        })
    }

    /// One signal to the whole tree; the processes it was sent to.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `INVALID`, `NO_KEEPER`.
    pub(crate) async fn signal(
        &self,
        key: RunKey,
        request_id: String,
        signal: i32,
    ) -> Result<Vec<ProcessIdentity>, Fault> {
        check_signal(signal)?;
        if !self.has_folder(key).await? {
            return self.signal_folderless(key, None, signal).await;
        }
        let call = keeper::Signal { signal, request_id };
        let answer = self
            .ask_keeper(key, |client| {
                let call = call.clone();
                async move { client.signal(call, ANSWER_GRACE).await }
            })
            .await?;
        let boot = &self.inner.config.boot_id;
        let targets = answer
            .map(|signalled| signalled.targets)
            .unwrap_or_default();
        let named = |target| super::facts::identity(boot, Identity::from(target));
        Ok(targets.into_iter().map(named).collect())
    }

    /// Calls the keeper of a run; `None` when the run has ended. A run whose keeper died gets
    /// another one soon: that is waited for.
    async fn ask_keeper<T, F>(
        &self,
        key: RunKey,
        call: impl Fn(KeeperClient) -> F,
    ) -> Result<Option<T>, Fault>
    where
        F: Future<Output = Result<T, KeeperError>>,
    {
        let dir = self.run_dir(key).await?;
        let until = self.inner.clock.boottime() + KEEPER_WITHIN;
        loop {
            let answer = match KeeperClient::connect(&dir, ANSWER_GRACE).await {
                Ok(client) => call(client).await,
                Err(error) => Err(error),
            };
            let error = match answer {
                Ok(answer) => return Ok(Some(answer)),
                Err(KeeperError::Refused(failure)) => return Err(refused(&failure)),
                Err(error) => error,
            };
            let facts = self.facts(key).await?;
            if !matches!(facts.state(), RunState::Alive | RunState::Starting) {
                return Ok(None);
            }
            if self.inner.clock.boottime() >= until {
                return Err(no_keeper(key).with_internal(error));
            }
            self.supervise(key, None);
            self.inner.clock.sleep(PAUSE).await;
        }
    }

    async fn keeper_rungs(
        &self,
        key: RunKey,
        rungs: Vec<Rung>,
        waits: &[Duration],
    ) -> Result<(Vec<keeper::Rung>, Vec<Spool>), Fault> {
        use keeper::rung::Action as Kept;
        let dir = self.run_dir(key).await?;
        let mut kept = Vec::new();
        let mut spools = Vec::new();
        for (rung, wait) in rungs.into_iter().zip(waits) {
            let action = match rung.action.ok_or_else(|| Fault::missing("rungs.action"))? {
                Action::CloseStdin(close) => Kept::CloseStdin(close),
                Action::Signal(signal) => Kept::Signal(signal),
                Action::EndLine(line) => {
                    let input = Input {
                        delivery_id: line.delivery_id,
                        bytes: line.payload,
                        single_line: false,
                    };
                    let call = self.deliver_call(&dir, input, limits::DELIVER_WAIT).await;
                    let (call, spool) = call.map_err(Fault::internal)?;
                    spools.extend(spool);
                    Kept::EndLine(call)
                }
            };
            kept.push(keeper::Rung {
                action: Some(action),
                wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
            });
        }
        Ok((kept, spools))
    }

    /// Signals those survivors that still are who they were; the rest of the ladder goes on
    /// after the answer.
    async fn stop_survivors(
        &self,
        key: RunKey,
        rungs: Vec<Rung>,
        waits: Vec<Duration>,
    ) -> Result<StopResponse, Fault> {
        let facts = self.facts(key).await?;
        let survivors = facts.survivors.clone().unwrap_or_default().processes;
        let ladder = signals(rungs, waits);
        if !survivors.is_empty() {
            let this = self.clone();
            let targets = survivors.clone();
            self.inner.tasks.spawn("survivors", async move {
                for (signal, wait) in ladder {
                    if !this.climb(&targets, signal, wait).await {
                        return;
                    }
                }
            });
        }
        Ok(StopResponse {
            already_ended: !matches!(facts.state(), RunState::Alive | RunState::Starting),
            survivors,
        })
    }

    /// One rung: true when somebody is left after its wait.
    async fn climb(&self, targets: &[ProcessIdentity], signal: i32, wait: Duration) -> bool {
        let until = self.inner.clock.boottime() + wait;
        for target in targets {
            report(target, send(target, signal));
        }
        loop {
            if !targets
                .iter()
                .any(|target| is_alive(target).unwrap_or(true))
            {
                return false;
            }
            if self.inner.clock.boottime() >= until {
                return true;
            }
            self.inner.clock.sleep(PAUSE).await;
        }
    }
}

/// The rungs of a ladder that are signals, where nobody holds a stdin.
fn signals(rungs: Vec<Rung>, waits: Vec<Duration>) -> Vec<(i32, Duration)> {
    let rungs = rungs.into_iter().zip(waits);
    let signals = rungs.filter_map(|(rung, wait)| match rung.action {
        Some(Action::Signal(signal)) => Some((signal, wait)),
        _ => None,
    });
    signals.collect()
}

fn is_alive(target: &ProcessIdentity) -> std::io::Result<bool> {
    of(target).is_alive()
}

pub(super) fn send(target: &ProcessIdentity, signal: i32) -> std::io::Result<Signalled> {
    match proc::signal_of(signal) {
        Some(signal) => proc::signal_identity(&target.boot_id, of(target), signal),
        None => Ok(Signalled::Refused),
    }
}

pub(super) fn report(target: &ProcessIdentity, sent: std::io::Result<Signalled>) {
    match sent {
        Ok(Signalled::Sent | Signalled::Gone) => {}
        Ok(other) => tracing::warn!(pid = target.pid, ?other, "process not signalled"),
        Err(error) => tracing::warn!(pid = target.pid, %error, "process not signalled"),
    }
}

fn refused(failure: &keeper::Failure) -> Fault {
    let reason = match failure.reason() {
        FailureReason::DiskFull => Reason::DiskFull,
        FailureReason::NotALine => Reason::NotALine,
        FailureReason::TooLarge => Reason::MessageTooLarge,
        FailureReason::Invalid => Reason::Invalid,
        FailureReason::StdinHeld => Reason::StdinHeld,
        _ => return Fault::internal(&failure.message),
    };
    Fault::new(reason, failure.message.clone())
}

fn check_signal(signal: i32) -> Result<(), Fault> {
    if SIGNALS.contains(&signal) {
        return Ok(());
    }
    Err(Fault::invalid("signal", format!("is one of {SIGNALS:?}")))
}

fn check_rungs(rungs: &[Rung]) -> Result<Vec<Duration>, Fault> {
    if rungs.is_empty() {
        return Err(Fault::missing("rungs"));
    }
    if rungs.len() > RUNGS {
        return Err(Fault::invalid(
            "rungs",
            format!("a ladder has at most {RUNGS}"),
        ));
    }
    let wait = |rung: &Rung| {
        match &rung.action {
            None => return Err(Fault::missing("rungs.action")),
            Some(Action::Signal(signal)) => check_signal(*signal)?,
            Some(Action::CloseStdin(_)) => {}
            Some(Action::EndLine(line)) => {
                muster_proto::convert::id::client_key(
                    "rungs.end_line.delivery_id",
                    &line.delivery_id,
                )?;
            }
        }
        let wait = from_duration("rungs.wait", rung.wait.as_ref())?;
        Ok(wait.min(RUNG_WAIT_MAX))
    };
    rungs.iter().map(wait).collect()
}
