//! One task per run that has not ended: it hears from the keeper, replaces a keeper that died,
//! and notices when the working directory goes.

use std::{sync::Arc, time::Duration};

use muster_domain::{Fault, Reason};
use muster_proto::{
    agent::{DeliveryEnded, ProcessIdentity, RunFacts, RunState},
    keeper,
};

use super::{Processes, RunEvent, facts, stdin};
use crate::{
    keeper_client::{self, Events, KeeperClient, KeeperError, StartError},
    run_dir::{RunDir, RunKey},
};

/// A vanished working directory is reported within 10 s (S33).
const CWD_EVERY: Duration = Duration::from_secs(5);
const KEEPER_DEADLINE: Duration = Duration::from_secs(5);
const ADOPT_DEADLINE: Duration = Duration::from_secs(20);
/// How often survivors of an ended run are looked at, and processes of one without a folder.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const SHORT_PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_secs(10);

/// How listening to a keeper ended.
enum Heard {
    /// The run is not as it was: its facts are read at once.
    News,
    /// The keeper is gone: it may be about to be seen so by the kernel.
    HungUp,
    /// There was none.
    Nobody,
}

impl Processes {
    /// Begins to watch a run, unless that is done already. Ends by itself with the run and its
    /// survivors. `told`: its program, where its folder does not say.
    pub(super) fn supervise(&self, key: RunKey, told: Option<ProcessIdentity>) {
        if !self.inner.supervised().insert(key) {
            return;
        }
        let this = self.clone();
        let name = format!("run {}/{}", key.session, key.run);
        self.inner.tasks.spawn(name, async move {
            let token = this.inner.tasks.token();
            let result = tokio::select! {
                () = token.cancelled() => Ok(()),
                result = this.watch_run(key, told) => result,
            };
            this.inner.supervised().remove(&key);
            result
        });
    }

    async fn watch_run(&self, key: RunKey, mut told: Option<ProcessIdentity>) -> Result<(), Fault> {
        let mut known: Option<RunFacts> = None;
        let mut pause = SHORT_PAUSE;
        loop {
            let process = told.clone();
            let look = move |this: &Self| this.get(key, process.as_ref());
            let facts = match self.blocking(look).await {
                Ok(facts) => facts,
                Err(fault) if fault.reason() == Reason::RunNotFound => {
                    self.gone(known);
                    return Ok(());
                }
                // A failed look says nothing about the run: it is made again.
                Err(fault) => {
                    tracing::warn!(?key, cause = fault.cause(), "run cannot be read");
                    self.inner.clock.sleep(LONG_PAUSE).await;
                    continue;
                }
            };
            told = facts.process.clone().or(told);
            let state = facts.state();
            if known.as_ref().is_none_or(|known| is_news(known, &facts)) {
                self.publish(RunEvent::Facts(Box::new(facts.clone())));
            }
            match state {
                RunState::Exited if has_survivors(&facts) => pause = LOOK_EVERY,
                RunState::Exited | RunState::Lost | RunState::NeverStarted => return Ok(()),
                RunState::Starting | RunState::Unspecified => {}
                RunState::Alive if facts.folder_missing => pause = LOOK_EVERY,
                RunState::Alive => match self.with_keeper(key, &facts).await? {
                    Heard::News => {
                        known = Some(facts);
                        pause = SHORT_PAUSE;
                        continue;
                    }
                    Heard::HungUp => pause = SHORT_PAUSE,
                    Heard::Nobody => {}
                },
            }
            known = Some(facts);
            self.inner.clock.sleep(pause).await;
            pause = (pause * 2).min(LONG_PAUSE);
        }
    }

    /// Neither the folder of a run nor a process of it is there any more.
    fn gone(&self, known: Option<RunFacts>) {
        let started = known.filter(|known| known.process.is_some() && known.exit.is_none());
        if let Some(known) = started {
            let facts = facts::lost_with_folder(known);
            self.publish(RunEvent::Facts(Box::new(facts)));
        }
    }

    /// Listens to the keeper until something changed; replaces it when it is gone.
    async fn with_keeper(&self, key: RunKey, facts: &RunFacts) -> Result<Heard, Fault> {
        let dir = self.run_dir(key).await?;
        match KeeperClient::connect(&dir, KEEPER_DEADLINE).await {
            Ok(client) => match client.watch(KEEPER_DEADLINE).await {
                Ok((_, events)) => Ok(self.listen(key, facts, events).await),
                Err(error) => {
                    tracing::info!(?key, %error, "the keeper does not let itself be watched");
                    Ok(Heard::Nobody)
                }
            },
            Err(KeeperError::NoKeeper) if facts.keeper.is_none() => {
                self.adopt(key, &dir).await;
                Ok(Heard::Nobody)
            }
            Err(error) => {
                tracing::debug!(?key, %error, "the keeper is not reached");
                Ok(Heard::Nobody)
            }
        }
    }

    async fn listen(&self, key: RunKey, facts: &RunFacts, mut events: Events) -> Heard {
        let mut next_look = self.inner.clock.boottime() + CWD_EVERY;
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Ok(Some(event)) => {
                        if !self.heard(key, event) {
                            return Heard::News;
                        }
                    }
                    Ok(None) | Err(_) => return Heard::HungUp,
                },
                () = self.inner.clock.sleep_until(next_look) => {
                    next_look = self.inner.clock.boottime() + CWD_EVERY;
                    let cwd = facts.cwd.clone();
                    let look = move |this: &Self| {
                        let folder = this.home().open_run(key).map_err(Fault::internal)?;
                        Ok((facts::is_there(&cwd), folder.is_some()))
                    };
                    let there = self.blocking(look).await;
                    let same = (facts.cwd_exists, true);
                    if there.is_ok_and(|there| there != same) {
                        return Heard::News;
                    }
                }
            }
        }
    }

    /// False when the run's facts have to be read anew.
    fn heard(&self, key: RunKey, event: keeper::Event) -> bool {
        match event.event {
            Some(keeper::event::Event::Outcome(outcome)) => {
                self.publish(RunEvent::DeliveryEnded(DeliveryEnded {
                    run: Some(facts::run_ref(key)),
                    outcome: Some(stdin::outcome(outcome)),
                }));
                true
            }
            Some(keeper::event::Event::ExitRecorded(_)) => false,
            None => true,
        }
    }

    /// The process lives, or its end is journalled, and its keeper does not: a new keeper records
    /// the end.
    async fn adopt(&self, key: RunKey, dir: &Arc<RunDir>) {
        tracing::warn!(
            ?key,
            "the keeper is gone and the end is not recorded: another keeper adopts the run"
        );
        let launcher = &self.inner.config.launcher;
        let adopted = keeper_client::adopt(launcher, &self.inner.tasks, dir.path(), ADOPT_DEADLINE);
        match adopted.await {
            Ok(_) => {}
            Err(StartError::Refused(failure)) => {
                tracing::warn!(?key, reason = ?failure.reason(), text = failure.message, "not adopted");
            }
            Err(StartError::Unknown(error)) => tracing::warn!(?key, %error, "not adopted"),
        }
    }
}

fn has_survivors(facts: &RunFacts) -> bool {
    let survivors = facts.survivors.as_ref();
    survivors.is_some_and(|survivors| !survivors.processes.is_empty())
}

/// Whether anything but the sizes of the growing files differs.
fn is_news(known: &RunFacts, now: &RunFacts) -> bool {
    let still = |facts: &RunFacts| RunFacts {
        stream_size: 0,
        stderr_size: 0,
        ..facts.clone()
    };
    still(known) != still(now)
}
