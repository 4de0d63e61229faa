//! Everything of a coordinator but its place in the world: what tests run with a store in
//! memory and agents in the same process.

use std::{io, sync::Arc, time::Duration};

use futures_util::Stream;
use muster_domain::{WorkspaceId, limits};
use muster_runtime::{Clock, ServerBuilder, ServerWindows, Tasks};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::{StartError, background, workstation::Reachable};
use crate::{
    app::{About, App, Parts, Views},
    feed::Feed,
    hosts::{
        Host, HostParts, Hosts,
        api::{HostApi, HostsApi},
    },
    rpc::Rpc,
    sessions::{self, Sessions, api::SessionsApi},
    store,
};

/// How long running calls get at the end; streams end at once.
const DRAIN: Duration = Duration::from_secs(5);
/// How long actors get to commit what they have in hand.
const FLUSH: Duration = Duration::from_secs(10);

/// What a [`Core`] is made of.
#[derive(Debug)]
pub struct CoreParts {
    /// The rows.
    pub store: store::Handle,
    /// Time.
    pub clock: Clock,
    /// Owner of everything that runs; ended by [`Core::close`].
    pub tasks: Tasks,
    /// Name space.
    pub workspace: WorkspaceId,
    /// Name of the host that is meant where none is named.
    pub workstation: String,
    /// What it says of itself.
    pub about: About,
    /// Cancelled to end it.
    pub end: CancellationToken,
}

/// A coordinator without a listener.
#[derive(Debug)]
pub struct Core {
    /// The use cases.
    pub app: App,
    /// The feed.
    pub feed: Feed,
    /// The machines.
    pub hosts: Hosts,
    sessions: Sessions,
    store: store::Handle,
    clock: Clock,
    tasks: Tasks,
    workspace: WorkspaceId,
    id: String,
    end: CancellationToken,
    ready: watch::Sender<bool>,
}

impl Core {
    /// Puts it together. Nothing runs but the feed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(parts: CoreParts) -> store::Result<Self> {
        let hosts = Hosts::default();
        let sessions = Sessions::new(sessions::Parts {
            store: parts.store.clone(),
            hosts: Arc::new(hosts.clone()),
            clock: parts.clock.clone(),
            tasks: parts.tasks.clone(),
        });
        let (ready, seen_ready) = watch::channel(false);
        let (hosts_api, sessions_api): (Arc<dyn HostsApi>, Arc<dyn SessionsApi>) =
            (Arc::new(hosts.clone()), Arc::new(sessions.clone()));
        let feed = Feed::open(
            &parts.tasks,
            parts.clock.clone(),
            parts.workspace.clone(),
            parts.store.clone(),
            sessions_api.clone(),
            Views::new(parts.store.clone(), hosts_api.clone(), sessions_api.clone()),
        )
        .await?;
        let app = App::new(Parts {
            store: parts.store.clone(),
            sessions: sessions_api,
            hosts: hosts_api,
            clock: parts.clock.clone(),
            workspace: parts.workspace.clone(),
            workstation: parts.workstation,
            about: parts.about,
            ready: seen_ready,
            end: parts.end.clone(),
        });
        parts.tasks.spawn(
            "outbox",
            background::prune(
                parts.store.clone(),
                parts.clock.clone(),
                parts.workspace.clone(),
                parts.tasks.token(),
            ),
        );
        Ok(Self {
            app,
            feed,
            hosts,
            sessions,
            store: parts.store,
            clock: parts.clock,
            tasks: parts.tasks,
            workspace: parts.workspace,
            id: uuid::Uuid::now_v7().to_string(),
            end: parts.end,
            ready,
        })
    }

    /// Begins to reach the workstation. `tasks` own what outlives this coordinator's end.
    pub(super) fn reach(&self, host: Reachable, tasks: &Tasks) {
        self.connect(host.parts(&self.id, tasks));
    }

    /// Begins to reach a host, whose row is stored. Before [`Core::serve`], so that actors
    /// find it.
    pub fn connect(&self, parts: HostParts) {
        let row = parts.host.clone();
        let host = Host::connect(&self.tasks, &self.clock, parts);
        self.hosts.insert(&host);
        self.tasks.spawn(
            format!("changes of host {}", row.name),
            background::publish_link(
                self.store.clone(),
                self.workspace.clone(),
                row,
                host.link(),
                self.tasks.token(),
            ),
        );
    }

    /// Answers the connections of `incoming` until the end is asked for. `ready` is called
    /// when the start is over.
    ///
    /// # Errors
    /// [`StartError`]: the server failed.
    pub async fn serve<I, IO>(&self, incoming: I, ready: impl FnOnce()) -> Result<(), StartError>
    where
        I: Stream<Item = io::Result<IO>> + Send,
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
        IO::ConnectInfo: Clone + Send + Sync + 'static,
    {
        let rpc = Rpc::new(
            self.app.clone(),
            self.feed.clone(),
            self.clock.clone(),
            self.end.clone(),
        );
        let server = rpc.register(ServerBuilder::new(ServerWindows::default()));
        let health = server.health();
        let mut serving = Box::pin(server.serve(incoming, self.end.clone(), DRAIN));
        let starting = async {
            self.take_up().await;
            health.set_serving(true).await;
            self.ready.send_replace(true);
            ready();
        };
        tokio::select! {
            served = &mut serving => return Ok(served?),
            () = starting => {}
        }
        Ok(serving.await?)
    }

    /// Loads the sessions, and waits for what their hosts say of them (S35).
    async fn take_up(&self) {
        let until = self.clock.boottime() + limits::READY_AFTER;
        let taken_up = async {
            self.sessions.restore(&self.workspace).await?;
            for host in self.hosts.all() {
                let mut link = host.link();
                let seen = link.wait_for(|link| link.is_up() || link.has_no_agent());
                if let Ok(link) = seen.await
                    && link.has_no_agent()
                {
                    let cause = link.cause.as_deref();
                    tracing::warn!(cause, "no program can be started on this host");
                }
            }
            self.sessions.reconciled().await;
            store::Result::Ok(())
        };
        match self.clock.timeout_at(until, taken_up).await {
            Ok(Ok(())) => tracing::info!(sessions = self.sessions.len(), "ready"),
            Ok(Err(error)) => tracing::error!(%error, "the sessions cannot be loaded"),
            Err(_) => {
                tracing::warn!("ready, though not every host or session has been heard of");
            }
        }
    }

    /// Ends what runs: actors commit what they have in hand, links end, the store is closed.
    pub async fn close(&self) {
        self.end.cancel();
        if let Err(unfinished) = self.tasks.shutdown(FLUSH).await {
            tracing::error!(%unfinished, "not everything ended in time");
        }
        self.store.close().await;
    }
}
