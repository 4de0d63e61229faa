//! The coordinator itself.

use std::{future::pending, time::Duration};

use muster_domain::{
    Fault, SessionId,
    session::{Process, State},
};

use crate::hosts::api::RunKey;

use super::{About, App};

/// How long stopped sessions may take to end: the whole ladder, and a little.
const STOP_PATIENCE: Duration = Duration::from_secs(45);
/// How often a session that ends is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the local agent may take to say that it ends.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// What the coordinator says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its place in the world.
    pub about: About,
    /// Start-up is over.
    pub ready: bool,
    /// Name space.
    pub workspace: muster_domain::WorkspaceId,
}

/// What is stopped before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StopAll {
    /// All sessions.
    pub sessions: bool,
    /// The workstation's agent.
    pub agent: bool,
}

/// What was done before the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShutDown {
    /// Sessions that were stopped.
    pub stopped: u32,
    /// Sessions that were told to end and have not yet; their keepers go on with it.
    pub stopping: u32,
    /// Why the agent was not told to end.
    pub agent_failure: Option<Fault>,
}

impl App {
    /// What the coordinator says of itself.
    pub fn status(&self) -> Status {
        Status {
            about: self.parts.about.clone(),
            ready: *self.parts.ready.borrow(),
            workspace: self.parts.workspace.clone(),
        }
    }

    /// Ends the coordinator; gives what was done before.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`: the sessions are not known. That of the first session that cannot be
    /// stopped, as `HOST_UNREACHABLE`. The coordinator goes on then.
    pub async fn shutdown(&self, what: StopAll) -> Result<ShutDown, Fault> {
        let mut done = ShutDown::default();
        if what.sessions {
            (done.stopped, done.stopping) = self.stop_sessions().await?;
        }
        if what.agent {
            let workstation = self.reach(&self.parts.workstation).await;
            let drained = match workstation {
                Ok(host) => host.drain(DRAIN_PATIENCE).await,
                Err(fault) => Err(fault),
            };
            done.agent_failure = drained.err();
        }
        self.parts.end.cancel();
        Ok(done)
    }

    /// Gives how many sessions were stopped, and how many are on their way.
    async fn stop_sessions(&self) -> Result<(u32, u32), Fault> {
        let end = self.parts.clock.boottime() + STOP_PATIENCE;
        let live = self
            .parts
            .store
            .live_sessions(&self.parts.workspace)
            .await?;
        let mut asked = Vec::new();
        let mut refused = Vec::new();
        for id in live {
            match self.parts.sessions.stop(id, false).await {
                Ok(control) if control.already_ended => {}
                Ok(control) => asked.push((id, control.recorded)),
                Err(fault) => refused.push((id, fault)),
            }
        }
        let (mut stopped, mut stopping) = (0, 0);
        for (id, recorded) in asked {
            let ended = self.ended(id, recorded);
            match self.parts.clock.timeout_at(end, ended).await {
                Ok(()) => stopped += 1,
                Err(_) => stopping += 1,
            }
        }
        let count = refused.len();
        match refused.into_iter().next() {
            None => Ok((stopped, stopping)),
            Some((id, fault)) => Err(not_stopped(count, id, &fault)),
        }
    }

    /// Waits until a session that is being stopped has ended. Cancel safe.
    async fn ended(&self, id: SessionId, recorded: bool) {
        loop {
            let live = self.parts.sessions.live(id);
            let told = async {
                if let Some(mut live) = live
                    && live.wait_for(|live| is_over(&live.state)).await.is_ok()
                {
                    return;
                }
                // No actor, or one that went away: the rows and the host are looked at.
                pending::<()>().await;
            };
            if self.parts.clock.timeout(LOOK_EVERY, told).await.is_ok() {
                return;
            }
            let stored = match self.parts.store.session(id).await {
                Ok(Some(state)) => state,
                Ok(None) => return,
                Err(_) => continue,
            };
            if is_over(&stored) || (!recorded && self.ended_at_host(&stored).await) {
                return;
            }
        }
    }

    /// Its host says that the run has ended. No answer is no end.
    async fn ended_at_host(&self, state: &State) -> bool {
        let Some(host) = self.parts.hosts.get(state.spec.host) else {
            return false;
        };
        let key = RunKey {
            session: state.spec.id,
            run: state.run.no,
        };
        let process = state.run.identity.clone();
        let report = host.get_run(key, process, DRAIN_PATIENCE).await;
        report.is_ok_and(|report| report.process.is_some_and(Process::is_over))
    }
}

fn not_stopped(count: usize, first: SessionId, fault: &Fault) -> Fault {
    let text = format!(
        "{count} sessions cannot be stopped; {first}: {}",
        fault.message()
    );
    Fault::new(fault.reason(), text)
        .with("sessions", count)
        .with_hint("without stopping sessions, `muster down` ends the coordinator alone")
}

fn is_over(state: &State) -> bool {
    matches!(state.run.process.value, Process::Exited | Process::Lost(_))
}
