//! The protocol's part of a link: hello, beats both ways, and the one watch of processes.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use muster_domain::{Fault, Reason, host::Agent, limits};
use muster_proto::{
    agent::{
        self as pb, host_service_client::HostServiceClient,
        processes_service_client::ProcessesServiceClient,
    },
    convert::{delivery, run},
};
use muster_runtime::Clock;
use muster_transport::{Cause, Handshake, HelloOk, ProtocolRange, Pulse};
use tokio::sync::watch;
use tonic::{Status, transport::Channel};

use super::{reports::Report, router::Router};

/// Versions of the agent's protocol that this coordinator speaks.
pub(super) const PROTOCOL: ProtocolRange = ProtocolRange { min: 1, max: 1 };

/// What the agent of the latest connection said of itself and of its machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Facts {
    pub(super) agent: Agent,
    pub(super) agent_home: String,
}

#[derive(Debug)]
pub(super) struct AgentHandshake {
    pub(super) epoch: u64,
    pub(super) coordinator: String,
    pub(super) facts: watch::Sender<Option<Facts>>,
    pub(super) router: Arc<Router>,
    pub(super) clock: Clock,
}

#[async_trait]
impl Handshake for AgentHandshake {
    async fn hello(&self, channel: Channel) -> Result<HelloOk, Cause> {
        let request = pb::HelloRequest {
            protocol_min: PROTOCOL.min,
            protocol_max: PROTOCOL.max,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: self.epoch,
            coordinator_id: self.coordinator.clone(),
        };
        let hello = HostServiceClient::new(channel)
            .hello(request)
            .await
            .map_err(|status| refusal(&status))?
            .into_inner();
        let theirs = ProtocolRange {
            min: hello.protocol_min,
            max: hello.protocol_max,
        };
        let protocol = PROTOCOL.common(theirs).ok_or(Cause::Incompatible {
            ours: PROTOCOL,
            theirs,
        })?;
        self.facts.send_replace(Some(facts(&hello)));
        Ok(HelloOk {
            protocol,
            instance_id: hello.instance_id,
            boot_id: hello.boot_id,
            build: hello.build,
            features: hello.features,
        })
    }

    async fn watch(&self, channel: Channel, pulse: Pulse) {
        let ended = tokio::select! {
            ended = self.beats(channel.clone(), pulse) => ended,
            ended = self.runs(channel) => ended,
        };
        if let Err(status) = ended {
            tracing::info!(code = ?status.code(), message = status.message(), "a watch of the agent ended");
        }
    }
}

impl AgentHandshake {
    async fn beats(&self, channel: Channel, pulse: Pulse) -> Result<(), Status> {
        let clock = self.clock.clone();
        let ours = async_stream::stream! {
            for beat in 1.. {
                yield pb::WatchRequest { beat };
                clock.sleep(limits::BEAT).await;
            }
        };
        let mut theirs = HostServiceClient::new(channel)
            .watch(ours)
            .await?
            .into_inner();
        while let Some(response) = theirs.message().await? {
            pulse.beat();
            match response.event {
                Some(pb::watch_response::Event::Limits(limits)) => {
                    self.facts.send_if_modified(|facts| warned(facts, &limits));
                }
                Some(pb::watch_response::Event::Moved(_)) => return Ok(()),
                Some(pb::watch_response::Event::Beat(_)) | None => {}
            }
        }
        Ok(())
    }

    async fn runs(&self, channel: Channel) -> Result<(), Status> {
        let mut events = ProcessesServiceClient::new(channel)
            .watch(pb::WatchRunsRequest {})
            .await?
            .into_inner();
        let mut seen = HashSet::new();
        let mut expected = 1;
        while let Some(response) = events.message().await? {
            if response.sequence != expected {
                return Err(Status::data_loss("a process event is missing"));
            }
            expected += 1;
            match response.event {
                Some(pb::watch_runs_response::Event::Facts(facts)) => match run::report(facts) {
                    Ok((session, report)) => {
                        seen.insert(session);
                        self.router.send(session, Report::Run(Box::new(report)));
                    }
                    Err(fault) => tracing::warn!(%fault, "facts of a run make no sense"),
                },
                Some(pb::watch_runs_response::Event::SnapshotEnd(_)) => {
                    self.router.synced(&seen);
                    seen = HashSet::new();
                }
                Some(pb::watch_runs_response::Event::DeliveryEnded(ended)) => {
                    self.delivery_ended(&ended);
                }
                Some(pb::watch_runs_response::Event::Moved(_)) => return Ok(()),
                None => {}
            }
        }
        Ok(())
    }

    fn delivery_ended(&self, ended: &pb::DeliveryEnded) {
        let Ok((session, run)) = run::run_key(ended.run.as_ref()) else {
            return;
        };
        let report = match delivery::answer(ended.outcome.as_ref()) {
            Ok((delivery, answer)) => Report::Delivery {
                run,
                delivery,
                answer,
            },
            // Something ended and makes no sense: whoever waits has to ask.
            Err(_) => Report::Relist,
        };
        self.router.send(session, report);
    }
}

fn facts(hello: &pb::HelloResponse) -> Facts {
    Facts {
        agent: Agent {
            pid: hello.pid,
            version: hello.build.clone(),
            instance: hello.instance_id.clone(),
            boot: hello.boot_id.clone(),
            os: hello.os.clone(),
            arch: hello.arch.clone(),
            warnings: hello
                .limits
                .as_ref()
                .map(|limits| limits.warnings.clone())
                .unwrap_or_default(),
        },
        agent_home: hello.agent_home.clone(),
    }
}

fn warned(facts: &mut Option<Facts>, limits: &pb::Limits) -> bool {
    match facts {
        Some(facts) if facts.agent.warnings != limits.warnings => {
            facts.agent.warnings.clone_from(&limits.warnings);
            true
        }
        _ => false,
    }
}

/// Why an agent that was reached did not introduce itself.
fn refusal(status: &Status) -> Cause {
    let fault = super::faults::said(status);
    let number = |key: &str| {
        let text = fault.as_ref()?.metadata().get(key)?;
        text.parse::<u32>().ok()
    };
    match fault.as_ref().map(Fault::reason) {
        Some(Reason::Incompatible) => {
            return Cause::Incompatible {
                ours: PROTOCOL,
                theirs: ProtocolRange {
                    min: number("protocol_min").unwrap_or(0),
                    max: number("protocol_max").unwrap_or(0),
                },
            };
        }
        Some(Reason::EpochStale) => return Cause::EpochStale,
        _ => {}
    }
    match status.code() {
        tonic::Code::Unimplemented => Cause::AgentWedged,
        tonic::Code::PermissionDenied | tonic::Code::Unauthenticated => Cause::AuthFailed,
        _ if fault.is_some() => Cause::AgentWedged,
        _ => Cause::Network,
    }
}
