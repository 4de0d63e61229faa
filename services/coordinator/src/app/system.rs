//! The coordinator itself.

use std::time::Duration;

use muster_domain::{
    Fault, SessionId,
    session::{Process, State},
};

use super::{About, App};

/// How long stopped sessions may take to end: the whole ladder, and a little.
const STOP_PATIENCE: Duration = Duration::from_secs(45);
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

impl App {
    /// What the coordinator says of itself.
    pub fn status(&self) -> Status {
        Status {
            about: self.parts.about.clone(),
            ready: *self.parts.ready.borrow(),
            workspace: self.parts.workspace.clone(),
        }
    }

    /// Ends the coordinator; gives how many sessions were stopped before. Sessions that do
    /// not end in time go on being stopped by their keepers.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`: the sessions are not known, and the coordinator goes on.
    pub async fn shutdown(&self, what: StopAll) -> Result<u32, Fault> {
        let stopped = if what.sessions {
            self.stop_sessions().await?
        } else {
            0
        };
        if what.agent {
            let workstation = self.reach(&self.parts.workstation).await;
            let drained = match workstation {
                Ok(host) => host.drain(DRAIN_PATIENCE).await,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = drained {
                tracing::warn!(%fault, "the workstation's agent was not told to end");
            }
        }
        self.parts.end.cancel();
        Ok(stopped)
    }

    async fn stop_sessions(&self) -> Result<u32, Fault> {
        let end = self.parts.clock.boottime() + STOP_PATIENCE;
        let live = self
            .parts
            .store
            .live_sessions(&self.parts.workspace)
            .await?;
        let mut asked = Vec::new();
        for id in live {
            match self.parts.sessions.stop(id, false).await {
                Ok(control) if control.already_ended => {}
                Ok(_) => asked.push(id),
                Err(fault) => tracing::warn!(session = %id, %fault, "session not stopped"),
            }
        }
        let mut stopped = 0;
        for id in asked {
            let ended = self.parts.clock.timeout_at(end, self.ended(id)).await;
            stopped += u32::from(ended.is_ok());
        }
        Ok(stopped)
    }

    async fn ended(&self, id: SessionId) {
        let Some(mut live) = self.parts.sessions.live(id) else {
            return;
        };
        // An actor that went away has nothing left to end.
        let _ = live.wait_for(|live| is_over(&live.state)).await;
    }
}

fn is_over(state: &State) -> bool {
    matches!(state.run.process.value, Process::Exited | Process::Lost(_))
}
