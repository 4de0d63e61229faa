//! Runs whose folder is gone while processes of them live: there is no way to their keeper, so
//! the agent itself ends them, by marker and identity.

use std::time::Duration;

use muster_domain::Fault;
use muster_proto::agent::{ProcessIdentity, StopResponse};

use super::{
    Processes,
    ending::{PAUSE, report, send},
    facts, no_run,
};
use crate::{
    proc::{Marker, Tree},
    run_dir::RunKey,
};

impl Processes {
    /// Whether a run has its folder. A failed look is a failure.
    pub(super) async fn has_folder(&self, key: RunKey) -> Result<bool, Fault> {
        let look = move |this: &Self| this.home().open_run(key).map_err(Fault::internal);
        Ok(self.blocking(look).await?.is_some())
    }

    /// Climbs the signals of a ladder for the whole tree; goes on after the answer. A second
    /// stop joins the first.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND` when no process of it lives either; a look that failed.
    pub(super) async fn stop_folderless(
        &self,
        key: RunKey,
        told: Option<ProcessIdentity>,
        ladder: Vec<(i32, Duration)>,
    ) -> Result<StopResponse, Fault> {
        if self.members(key, told.clone()).await?.is_empty() {
            return Err(no_run(key));
        }
        self.supervise(key, told.clone());
        if self.inner.ladders().insert(key) {
            let this = self.clone();
            let name = format!("stop without a folder {}/{}", key.session, key.run);
            self.inner.tasks.spawn(name, async move {
                for (signal, wait) in ladder {
                    if !this.climb_tree(key, told.clone(), signal, wait).await {
                        break;
                    }
                }
                this.inner.ladders().remove(&key);
            });
        }
        Ok(StopResponse {
            already_ended: false,
            survivors: Vec::new(),
        })
    }

    /// One signal to the whole tree; whom it was sent to.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND` when no process of it lives; a look that failed.
    pub(super) async fn signal_folderless(
        &self,
        key: RunKey,
        told: Option<ProcessIdentity>,
        signal: i32,
    ) -> Result<Vec<ProcessIdentity>, Fault> {
        let targets = self.members(key, told).await?;
        if targets.is_empty() {
            return Err(no_run(key));
        }
        for target in &targets {
            report(target, send(target, signal));
        }
        Ok(targets)
    }

    /// One rung: true when somebody is left after its wait. Whoever is started meanwhile gets
    /// the signal as well.
    async fn climb_tree(
        &self,
        key: RunKey,
        told: Option<ProcessIdentity>,
        signal: i32,
        wait: Duration,
    ) -> bool {
        let until = self.inner.clock.boottime() + wait;
        let mut signalled: Vec<ProcessIdentity> = Vec::new();
        loop {
            match self.members(key, told.clone()).await {
                Ok(members) if members.is_empty() => return false,
                Ok(members) => {
                    for member in members {
                        if !signalled.contains(&member) {
                            report(&member, send(&member, signal));
                            signalled.push(member);
                        }
                    }
                }
                // A failed look is not taken for their end.
                Err(fault) => tracing::warn!(?key, cause = fault.cause(), "tree not seen"),
            }
            if self.inner.clock.boottime() >= until {
                return true;
            }
            self.inner.clock.sleep(PAUSE).await;
        }
    }

    /// The living processes of the run that belong to this user.
    async fn members(
        &self,
        key: RunKey,
        told: Option<ProcessIdentity>,
    ) -> Result<Vec<ProcessIdentity>, Fault> {
        self.blocking(move |this| {
            let boot = &this.inner.config.boot_id;
            let program = told.filter(|told| told.boot_id == *boot);
            let tree = Tree {
                marker: Marker {
                    session: key.session.hyphenated().to_string(),
                    run: key.run,
                },
                program: program.as_ref().map(facts::of),
                reaper: None,
            };
            let members = tree.members().map_err(Fault::internal)?;
            let ours = members.into_iter().filter(|member| !member.foreign);
            Ok(ours
                .map(|member| facts::identity(boot, member.identity))
                .collect())
        })
        .await
    }
}
