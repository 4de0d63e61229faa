//! `ProcessesService` of the fake.

use std::collections::BTreeMap;

use muster_domain::{DeliveryId, delivery::Answer};
use muster_proto::{
    agent::{self as pb, processes_service_server::ProcessesService},
    convert::{delivery, run},
};
use tonic::{Request, Response, Status, async_trait};

use super::{FakeAgent, Frames, Key, Run, no_run, refuse};

fn key(run: Option<&pb::RunRef>) -> Result<Key, Status> {
    run::run_key(run).map_err(|fault| refuse(&fault))
}

fn facts(key: Key, run: &Run) -> pb::RunFacts {
    run::run_facts(key.0, &run.report)
}

#[async_trait]
impl ProcessesService for FakeAgent {
    async fn spawn(
        &self,
        request: Request<pb::SpawnRequest>,
    ) -> Result<Response<pb::SpawnResponse>, Status> {
        self.called("spawn");
        let request = request.into_inner();
        self.fenced(request.mutation.as_ref())?;
        let key = key(request.run.as_ref())?;
        let response = {
            let mut state = self.state();
            if let Some(fault) = &state.refuse_spawn {
                return Err(refuse(fault));
            }
            let replayed = state.runs.contains_key(&key);
            let run = state
                .runs
                .entry(key)
                .or_insert_with(|| Run::new(key, &request));
            pb::SpawnResponse {
                facts: Some(facts(key, run)),
                replayed,
            }
        };
        self.announce();
        Ok(Response::new(response))
    }

    async fn get(
        &self,
        request: Request<pb::GetRunRequest>,
    ) -> Result<Response<pb::GetRunResponse>, Status> {
        let key = key(request.into_inner().run.as_ref())?;
        let state = self.state();
        let run = state.runs.get(&key).ok_or_else(no_run)?;
        Ok(Response::new(pb::GetRunResponse {
            facts: Some(facts(key, run)),
        }))
    }

    async fn list(
        &self,
        request: Request<pb::ListRunsRequest>,
    ) -> Result<Response<pb::ListRunsResponse>, Status> {
        self.called("list");
        let of = request.into_inner().session_id;
        let state = self.state();
        let runs = state
            .runs
            .iter()
            .filter(|(key, _)| of.is_empty() || key.0.to_string() == of)
            .map(|(key, run)| facts(*key, run));
        Ok(Response::new(pb::ListRunsResponse {
            runs: runs.collect(),
            next_page_token: String::new(),
        }))
    }

    async fn find(
        &self,
        _request: Request<pb::FindProcessesRequest>,
    ) -> Result<Response<pb::FindProcessesResponse>, Status> {
        Ok(Response::new(pb::FindProcessesResponse::default()))
    }

    type WatchStream = Frames<pb::WatchRunsResponse>;

    async fn watch(
        &self,
        _request: Request<pb::WatchRunsRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.called("watch");
        let agent = self.clone();
        Ok(Response::new(Box::pin(async_stream::stream! {
            use pb::watch_runs_response::Event;
            let mut changed = agent.changed.subscribe();
            let mut known: BTreeMap<Key, u64> = BTreeMap::new();
            let mut sequence = 0;
            let mut snapshot = true;
            loop {
                changed.borrow_and_update();
                let mut events = Vec::new();
                for (key, run) in &agent.state().runs {
                    if known.insert(*key, run.version) != Some(run.version) {
                        events.push(Event::Facts(facts(*key, run)));
                    }
                }
                if std::mem::take(&mut snapshot) {
                    events.push(Event::SnapshotEnd(pb::SnapshotEnd {}));
                }
                for event in events {
                    sequence += 1;
                    yield Ok(pb::WatchRunsResponse { sequence, event: Some(event) });
                }
                if changed.changed().await.is_err() {
                    return;
                }
            }
        })))
    }

    async fn deliver(
        &self,
        request: Request<pb::DeliverRequest>,
    ) -> Result<Response<pb::DeliverResponse>, Status> {
        self.called("deliver");
        let request = request.into_inner();
        self.fenced(request.mutation.as_ref())?;
        let id = request.mutation.unwrap_or_default().request_id;
        let key = key(request.run.as_ref())?;
        let (answer, delay) = {
            let mut state = self.state();
            let (echo, delay) = (state.echo, state.deliver_delay);
            let run = state.runs.get_mut(&key).ok_or_else(no_run)?;
            (run.deliver(&id, &request.payload, echo), delay)
        };
        self.announce();
        // The answer takes its time; the bytes do not: what a cut then leaves is unknown.
        tokio::time::sleep(delay).await;
        Ok(Response::new(pb::DeliverResponse {
            outcome: Some(outcome(&id, answer)),
        }))
    }

    async fn get_delivery(
        &self,
        request: Request<pb::GetDeliveryRequest>,
    ) -> Result<Response<pb::GetDeliveryResponse>, Status> {
        self.called("get_delivery");
        let request = request.into_inner();
        let key = key(request.run.as_ref())?;
        let state = self.state();
        let run = state.runs.get(&key).ok_or_else(no_run)?;
        let id = request.delivery_id;
        let known = run.written.iter().any(|(known, _)| *known == id);
        let answer = if known {
            Answer::Delivered {
                before: 0,
                after: 0,
            }
        } else {
            Answer::Unseen
        };
        Ok(Response::new(pb::GetDeliveryResponse {
            outcome: Some(outcome(&id, answer)),
        }))
    }

    async fn close_stdin(
        &self,
        _request: Request<pb::CloseStdinRequest>,
    ) -> Result<Response<pb::CloseStdinResponse>, Status> {
        Ok(Response::new(pb::CloseStdinResponse { already: false }))
    }

    async fn stop(
        &self,
        request: Request<pb::StopRequest>,
    ) -> Result<Response<pb::StopResponse>, Status> {
        self.called("stop");
        let request = request.into_inner();
        self.fenced(request.mutation.as_ref())?;
        let key = key(request.run.as_ref())?;
        let already_ended = {
            let mut state = self.state();
            let run = state.runs.get_mut(&key).ok_or_else(no_run)?;
            let over = run.is_over();
            if !over {
                run.end(Some(0), None, true);
                run.version += 1;
            }
            over
        };
        self.announce();
        Ok(Response::new(pb::StopResponse {
            already_ended,
            survivors: Vec::new(),
        }))
    }

    async fn signal(
        &self,
        _request: Request<pb::SignalRequest>,
    ) -> Result<Response<pb::SignalResponse>, Status> {
        self.called("signal");
        Ok(Response::new(pb::SignalResponse::default()))
    }
}

fn outcome(id: &str, answer: Answer) -> pb::DeliveryOutcome {
    let id: DeliveryId = id.parse().expect("deliveries have ids");
    delivery::outcome(id, answer)
}
