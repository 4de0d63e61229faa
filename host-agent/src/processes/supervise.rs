//! One task per run that has not ended: it hears from the keeper, replaces a keeper that died,
//! and notices when the working directory goes.

use std::{sync::Arc, time::Duration};

use muster_domain::Fault;
use muster_proto::{
    agent::{DeliveryEnded, RunFacts, RunState},
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
    /// Begins to watch a run, unless that is done already. Ends by itself with the run.
    pub(super) fn supervise(&self, key: RunKey) {
        if !self.inner.supervised().insert(key) {
            return;
        }
        let this = self.clone();
        let name = format!("run {}/{}", key.session, key.run);
        self.inner.tasks.spawn(name, async move {
            let token = this.inner.tasks.token();
            let result = tokio::select! {
                () = token.cancelled() => Ok(()),
                result = this.watch_run(key) => result,
            };
            this.inner.supervised().remove(&key);
            result
        });
    }

    async fn watch_run(&self, key: RunKey) -> Result<(), Fault> {
        let mut known: Option<RunFacts> = None;
        let mut pause = SHORT_PAUSE;
        loop {
            let facts = self.facts(key).await?;
            let state = facts.state();
            if known.as_ref().is_none_or(|known| is_news(known, &facts)) {
                self.publish(RunEvent::Facts(Box::new(facts.clone())));
            }
            match state {
                RunState::Exited | RunState::Lost | RunState::NeverStarted => return Ok(()),
                RunState::Starting | RunState::Unspecified => {}
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
                    let there = self.blocking(move |_| Ok(facts::is_there(&cwd))).await;
                    if there.is_ok_and(|there| there != facts.cwd_exists) {
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

    /// The process lives and its keeper does not: a new keeper records its end.
    async fn adopt(&self, key: RunKey, dir: &Arc<RunDir>) {
        tracing::warn!(
            ?key,
            "the keeper is gone, its process lives: another keeper adopts it"
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

/// Whether anything but the sizes of the growing files differs.
fn is_news(known: &RunFacts, now: &RunFacts) -> bool {
    let still = |facts: &RunFacts| RunFacts {
        stream_size: 0,
        stderr_size: 0,
        ..facts.clone()
    };
    still(known) != still(now)
}
