//! The calls of [`HostApi`] on a link.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use muster_domain::{
    DeliveryId, Fault, HostId, Reason, SessionId,
    delivery::Answer,
    limits, page,
    session::{Identity, RunReport},
};
use muster_proto::{agent as pb, convert::time};
use tokio::sync::watch;

use super::{
    api::{
        DeliverCall, FileInfo, FollowCall, Found, HostApi, LinkView, ReadCall, ReadStream, RunKey,
        SpawnCall, Stat, StopCall, Stopped, TailStream,
    },
    host::{Host, agent, processes},
    reports::Reports,
    wire,
};

/// Runs of one session that a listing asks for at once.
const RUNS_PAGE: u32 = 500;

#[async_trait]
impl HostApi for Host {
    fn id(&self) -> HostId {
        self.id
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn link(&self) -> watch::Receiver<LinkView> {
        self.view.clone()
    }

    fn reports(&self, session: SessionId) -> Reports {
        self.router.subscribe(session)
    }

    async fn spawn(&self, call: SpawnCall, deadline: Duration) -> Result<RunReport, Fault> {
        let env = self.spawn_env.clone().into_iter().chain(call.env);
        let request = pb::SpawnRequest {
            mutation: self.mutation(&format_args!("spawn/{}/{}", call.key.session, call.key.run)),
            run: Some(wire::run_ref(call.key)),
            argv: call.argv,
            cwd: call.cwd,
            env: env
                .map(|(name, value)| pb::EnvVar { name, value })
                .collect(),
            stdin_mode: wire::stdin_mode(call.stdin).into(),
        };
        let response = self
            .unary(deadline, |channel| async move {
                processes(channel).spawn(request).await
            })
            .await?;
        wire::report(response.facts)
    }

    async fn get_run(
        &self,
        run: RunKey,
        process: Option<Identity>,
        deadline: Duration,
    ) -> Result<RunReport, Fault> {
        let request = pb::GetRunRequest {
            run: Some(wire::run_ref(run)),
            process: process.as_ref().map(Into::into),
        };
        let response = self
            .ask(deadline, |channel| {
                let request = request.clone();
                async move { processes(channel).get(request).await }
            })
            .await?;
        wire::report(response.facts)
    }

    async fn list_runs(
        &self,
        session: SessionId,
        deadline: Duration,
    ) -> Result<Vec<RunReport>, Fault> {
        let end = self.clock.boottime().saturating_add(deadline);
        let mut runs = Vec::new();
        let mut token = String::new();
        loop {
            let rest = end.saturating_sub(self.clock.boottime());
            let request = pb::ListRunsRequest {
                page_size: RUNS_PAGE,
                page_token: token,
                session_id: session.to_string(),
            };
            let page = self
                .ask(rest, |channel| {
                    let request = request.clone();
                    async move { processes(channel).list(request).await }
                })
                .await?;
            for facts in page.runs {
                runs.push(wire::report(Some(facts))?);
            }
            if page.next_page_token.is_empty() {
                return Ok(runs);
            }
            token = page.next_page_token;
        }
    }

    async fn deliver(&self, call: DeliverCall, deadline: Duration) -> Result<Answer, Fault> {
        let end = self.clock.boottime().saturating_add(deadline);
        let place = self.deliveries.clone().acquire_owned();
        let Ok(Ok(_place)) = self.clock.timeout_at(end, place).await else {
            return Err(Fault::new(
                Reason::DeliveryLimit,
                format!("host `{}` has too many deliveries under way", self.name),
            ));
        };
        let rest = end.saturating_sub(self.clock.boottime());
        let request = pb::DeliverRequest {
            mutation: self.mutation(&call.delivery),
            run: Some(wire::run_ref(call.key)),
            payload: call.payload,
            wait: Some(time::duration(limits::DELIVER_WAIT.min(rest / 2))),
            single_line: call.single_line,
        };
        let response = self
            .unary(rest, |channel| async move {
                processes(channel).deliver(request).await
            })
            .await?;
        wire::answer(response.outcome.as_ref())
    }

    async fn get_delivery(
        &self,
        run: RunKey,
        delivery: DeliveryId,
        deadline: Duration,
    ) -> Result<Answer, Fault> {
        let request = pb::GetDeliveryRequest {
            run: Some(wire::run_ref(run)),
            delivery_id: delivery.to_string(),
        };
        let response = self
            .ask(deadline, |channel| {
                let request = request.clone();
                async move { processes(channel).get_delivery(request).await }
            })
            .await?;
        wire::answer(response.outcome.as_ref())
    }

    async fn close_stdin(&self, run: RunKey, deadline: Duration) -> Result<bool, Fault> {
        let request = pb::CloseStdinRequest {
            mutation: self.mutation(&format_args!("close/{}/{}", run.session, run.run)),
            run: Some(wire::run_ref(run)),
        };
        let response = self
            .unary(deadline, |channel| async move {
                processes(channel).close_stdin(request).await
            })
            .await?;
        Ok(response.already)
    }

    async fn stop(&self, call: StopCall, deadline: Duration) -> Result<Stopped, Fault> {
        let request = pb::StopRequest {
            mutation: self.mutation(&format_args!("stop/{}/{}", call.key.session, call.key.run)),
            run: Some(wire::run_ref(call.key)),
            rungs: call.rungs.into_iter().map(wire::rung).collect(),
            survivors: call.survivors,
            process: call.process.as_ref().map(Into::into),
        };
        let response = self
            .unary(deadline, |channel| async move {
                processes(channel).stop(request).await
            })
            .await?;
        Ok(Stopped {
            already_ended: response.already_ended,
            survivors: wire::identities(response.survivors)?,
        })
    }

    async fn signal(
        &self,
        run: RunKey,
        signal: i32,
        deadline: Duration,
    ) -> Result<Vec<Identity>, Fault> {
        let request = pb::SignalRequest {
            mutation: self.mutation(&uuid::Uuid::now_v7()),
            run: Some(wire::run_ref(run)),
            signal,
        };
        let response = self
            .unary(deadline, |channel| async move {
                processes(channel).signal(request).await
            })
            .await?;
        wire::identities(response.targets)
    }

    async fn find_processes(
        &self,
        session: SessionId,
        deadline: Duration,
    ) -> Result<Vec<Found>, Fault> {
        let request = pb::FindProcessesRequest {
            session_id: session.to_string(),
        };
        let response = self
            .ask(deadline, |channel| {
                let request = request.clone();
                async move { processes(channel).find(request).await }
            })
            .await?;
        Ok(response
            .processes
            .into_iter()
            .filter_map(wire::found)
            .collect())
    }

    async fn follow(&self, call: FollowCall, deadline: Duration) -> Result<TailStream, Fault> {
        self.open_tail(call, deadline).await
    }

    async fn stat(&self, path: &str, deadline: Duration) -> Result<Stat, Fault> {
        let response = self.stat_file(path.to_owned(), deadline).await?;
        Ok(Stat {
            info: wire::file_info(response.info.ok_or_else(|| wire::broken("no file"))?),
            resolved: response.resolved_path,
        })
    }

    async fn list(
        &self,
        path: &str,
        page: page::Request,
        deadline: Duration,
    ) -> Result<page::Page<FileInfo>, Fault> {
        self.list_folder(path.to_owned(), page, deadline).await
    }

    async fn read(&self, call: ReadCall, deadline: Duration) -> Result<ReadStream, Fault> {
        self.open_read(call, deadline).await
    }

    async fn drain(&self, deadline: Duration) -> Result<(), Fault> {
        let request = pb::DrainRequest {
            mutation: self.mutation(&uuid::Uuid::now_v7()),
        };
        // Before it is told: it may be gone before its answer is here, and where no agent
        // answers one is started.
        self.link.rest();
        let drained = self.ask(deadline, |channel| {
            let request = request.clone();
            async move { agent(channel).drain(request).await }
        });
        tokio::select! {
            answer = drained => {
                let pb::DrainResponse {} = answer?;
            }
            // It has ended, and the answer was lost with it.
            () = self.link.agent_down() => {}
        }
        self.link.close();
        Ok(())
    }
}

/// A host that is shared, for the registry.
pub(super) fn shared(host: &Arc<Host>) -> Arc<dyn HostApi> {
    host.clone()
}
