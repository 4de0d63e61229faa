//! One host over one link.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use muster_domain::{
    Fault, HostId, Reason, Timestamp, WorkspaceId, host,
    limits::{self, GRPC_DECODE_BYTES},
};
use muster_proto::agent::{
    self as pb, files_service_client::FilesServiceClient, host_service_client::HostServiceClient,
    processes_service_client::ProcessesServiceClient, tails_service_client::TailsServiceClient,
};
use muster_runtime::{Clock, Tasks};
use muster_transport::{
    Bootstrap, Dial, HostLink, Leased, LinkConfig, LinkError, LinkParts, StreamPermit,
};
use tokio::sync::{Semaphore, watch};
use tonic::{Response, Status, transport::Channel};

use super::{
    api::LinkView,
    faults,
    handshake::{AgentHandshake, Facts},
    router::Router,
};

/// How long a question waits before it is asked again: a broken link may look up for a moment.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// What a host needs to be reached.
#[derive(Debug)]
pub struct HostParts {
    /// The row.
    pub host: host::Host,
    /// Name space on whose behalf its agent is called.
    pub workspace: WorkspaceId,
    /// Id of this coordinator process.
    pub coordinator: String,
    /// How it is reached.
    pub dial: Arc<dyn Dial>,
    /// How an agent is made to be there.
    pub bootstrap: Option<Arc<dyn Bootstrap>>,
    /// What every program that is started there gets in its environment.
    pub spawn_env: BTreeMap<String, String>,
    /// Times of the link.
    pub config: LinkConfig,
}

/// One host. Dropping it ends its link.
#[derive(Debug)]
pub struct Host {
    pub(super) id: HostId,
    pub(super) name: String,
    pub(super) epoch: u64,
    pub(super) workspace: WorkspaceId,
    pub(super) clock: Clock,
    pub(super) link: HostLink,
    pub(super) view: watch::Receiver<LinkView>,
    pub(super) facts: watch::Receiver<Option<Facts>>,
    pub(super) router: Arc<Router>,
    pub(super) spawn_env: BTreeMap<String, String>,
    pub(super) deliveries: Arc<Semaphore>,
}

impl Host {
    /// Begins to reach the host; its tasks are `tasks`'.
    pub fn connect(tasks: &Tasks, clock: &Clock, parts: HostParts) -> Arc<Self> {
        let router = Arc::new(Router::default());
        let (facts, facts_seen) = watch::channel(None);
        let handshake = AgentHandshake {
            epoch: parts.host.epoch,
            coordinator: parts.coordinator,
            facts,
            router: router.clone(),
            clock: clock.clone(),
        };
        let link = HostLink::spawn(
            tasks,
            &parts.host.name,
            LinkParts {
                dial: parts.dial,
                bootstrap: parts.bootstrap,
                handshake: Arc::new(handshake),
                clock: clock.clone(),
                config: parts.config,
            },
        );
        let (view, view_seen) = watch::channel(project(
            &link.view().borrow(),
            facts_seen.borrow().as_ref(),
            clock,
        ));
        tasks.spawn(
            format_args!("view of host {}", parts.host.name),
            follow_link(
                link.view(),
                facts_seen.clone(),
                view,
                clock.clone(),
                tasks.token(),
            ),
        );
        Arc::new(Self {
            id: parts.host.id,
            name: parts.host.name,
            epoch: parts.host.epoch,
            workspace: parts.workspace,
            clock: clock.clone(),
            link,
            view: view_seen,
            facts: facts_seen,
            router,
            spawn_env: parts.spawn_env,
            deliveries: Arc::new(Semaphore::new(limits::DELIVERIES_AT_ONCE)),
        })
    }

    /// Asks for an attempt to reach the host now.
    pub fn retry_now(&self) {
        self.link.retry_now();
    }

    pub(super) fn mutation(&self, request: &dyn ToString) -> Option<pb::Mutation> {
        Some(pb::Mutation {
            request_id: request.to_string(),
            workspace_id: self.workspace.to_string(),
            epoch: self.epoch,
        })
    }

    /// One unary call on the control connection, within `deadline` in all.
    pub(super) async fn unary<T, F>(
        &self,
        deadline: Duration,
        call: impl FnOnce(Channel) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let end = self.clock.boottime().saturating_add(deadline);
        let channel = match self.link.control(deadline).await {
            Ok(channel) => channel,
            Err(error) => return Err(self.no_channel(&error)),
        };
        match self.clock.timeout_at(end, Box::pin(call(channel))).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failed(&status)),
            Err(_) => Err(self.late()),
        }
    }

    /// A question: as [`Host::unary`], asked again when the link broke before the answer came.
    pub(super) async fn ask<T, F>(
        &self,
        deadline: Duration,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let end = self.clock.boottime().saturating_add(deadline);
        loop {
            let rest = end.saturating_sub(self.clock.boottime());
            match self.unary(rest, &call).await {
                Err(fault) if self.is_cut(&fault, end) => self.clock.sleep(AGAIN_AFTER).await,
                answer => return answer,
            }
        }
    }

    /// A stream on a connection with a place for it, opened within `deadline` in all; asked
    /// for again when the link broke before it was open.
    pub(super) async fn open<T, F, L>(
        &self,
        deadline: Duration,
        lease: impl Fn(Duration) -> L,
        call: impl Fn(Channel) -> F,
    ) -> Result<(T, StreamPermit), Fault>
    where
        F: Future<Output = Result<Response<T>, Status>>,
        L: Future<Output = Result<Leased, LinkError>>,
    {
        let end = self.clock.boottime().saturating_add(deadline);
        loop {
            let rest = end.saturating_sub(self.clock.boottime());
            let (channel, permit) = match Box::pin(lease(rest)).await {
                Ok(leased) => leased.into_parts(),
                Err(error) => return Err(self.no_channel(&error)),
            };
            let fault = match self.clock.timeout_at(end, Box::pin(call(channel))).await {
                Ok(Ok(response)) => return Ok((response.into_inner(), permit)),
                Ok(Err(status)) => self.failed(&status),
                Err(_) => return Err(self.late()),
            };
            if !self.is_cut(&fault, end) {
                return Err(fault);
            }
            self.clock.sleep(AGAIN_AFTER).await;
        }
    }

    /// The link broke, and there is time to ask again.
    fn is_cut(&self, fault: &Fault, end: Duration) -> bool {
        fault.reason() == Reason::HostUnreachable
            && self.clock.boottime().saturating_add(AGAIN_AFTER) < end
    }

    pub(super) fn failed(&self, status: &Status) -> Fault {
        faults::failed(&self.name, &self.view.borrow(), status)
    }

    fn late(&self) -> Fault {
        faults::late(&self.name, &self.view.borrow())
    }

    fn no_channel(&self, error: &LinkError) -> Fault {
        faults::no_channel(&self.name, &self.view.borrow(), error)
    }
}

pub(super) fn processes(channel: Channel) -> ProcessesServiceClient<Channel> {
    ProcessesServiceClient::new(channel).max_decoding_message_size(GRPC_DECODE_BYTES)
}

pub(super) fn files(channel: Channel) -> FilesServiceClient<Channel> {
    FilesServiceClient::new(channel).max_decoding_message_size(GRPC_DECODE_BYTES)
}

pub(super) fn tails(channel: Channel) -> TailsServiceClient<Channel> {
    TailsServiceClient::new(channel).max_decoding_message_size(GRPC_DECODE_BYTES)
}

pub(super) fn agent(channel: Channel) -> HostServiceClient<Channel> {
    HostServiceClient::new(channel).max_decoding_message_size(GRPC_DECODE_BYTES)
}

async fn follow_link(
    mut link: watch::Receiver<muster_transport::LinkView>,
    mut facts: watch::Receiver<Option<Facts>>,
    view: watch::Sender<LinkView>,
    clock: Clock,
    ended: tokio_util::sync::CancellationToken,
) {
    loop {
        let next = project(
            &link.borrow_and_update(),
            facts.borrow_and_update().as_ref(),
            &clock,
        );
        view.send_if_modified(|view| {
            let changed = *view != next;
            *view = next;
            changed
        });
        let goes_on = tokio::select! {
            changed = link.changed() => changed.is_ok(),
            changed = facts.changed() => changed.is_ok(),
            () = ended.cancelled() => false,
        };
        if !goes_on {
            return;
        }
    }
}

fn project(link: &muster_transport::LinkView, facts: Option<&Facts>, clock: &Clock) -> LinkView {
    let now = clock.boottime();
    let wall = Timestamp::from_micros(clock.now_micros());
    LinkView {
        link: faults::state(&link.state),
        cause: link.cause().map(|cause| match cause {
            muster_transport::Cause::Incompatible { .. }
            | muster_transport::Cause::BootstrapFailed { .. } => {
                format!("{}: {cause}", cause.name())
            }
            _ => cause.name().to_owned(),
        }),
        attempts: link.attempts,
        next_try: link.next_try_at.map(|at| wall.plus(at.saturating_sub(now))),
        since: Timestamp::from_micros(link.since_micros),
        agent: facts.map(|facts| facts.agent.clone()),
        connection: link.generation,
    }
}
