//! A whole coordinator over a fake agent, both in this process. The store is a file, so that
//! a coordinator can be ended and started anew.

use std::{collections::BTreeMap, future::Future, path::PathBuf, sync::Arc, time::Duration};

use muster_coordinator::{
    app::About,
    hosts::HostParts,
    serve::{Core, CoreParts},
    store::{self, SqliteStore},
};
use muster_domain::{
    Fault, HostId, SessionId, Timestamp, WorkspaceId,
    changeset::Changeset,
    host::{Dialler, Host},
};
use muster_proto::public::{
    self as pb, feed_service_client::FeedServiceClient, files_service_client::FilesServiceClient,
    hosts_service_client::HostsServiceClient,
    interactions_service_client::InteractionsServiceClient,
    messages_service_client::MessagesServiceClient, sessions_service_client::SessionsServiceClient,
    system_service_client::SystemServiceClient, tasks_service_client::TasksServiceClient,
};
use muster_runtime::{Clock, Tasks};
use muster_transport::{Connection, InProcess, LinkConfig, Profile, in_process};
use tokio_util::sync::CancellationToken;
use tonic::{Status, transport::Channel};
use uuid::Uuid;

use super::agent::FakeAgent;

/// Longest wait for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) agent: FakeAgent,
    folder: tempfile::TempDir,
    tasks: Tasks,
    starts: u64,
}

/// One life of the coordinator.
pub(crate) struct Coordinator {
    /// The server ends with its last dialler.
    _dial: InProcess,
    channel: Channel,
    _connection: Connection,
    end: CancellationToken,
    tasks: Tasks,
    over: tokio::sync::oneshot::Receiver<()>,
}

impl World {
    pub(crate) fn new() -> Self {
        let tasks = Tasks::new("world");
        Self {
            agent: FakeAgent::start(&tasks),
            folder: tempfile::tempdir().unwrap(),
            tasks,
            starts: 0,
        }
    }

    /// Starts a coordinator on this world's store and waits until its link is up.
    pub(crate) async fn coordinator(&mut self) -> Coordinator {
        let coordinator = self.coordinator_unreached().await;
        eventually("the host is connected", async || {
            let host = coordinator.host().await;
            host.link() == pb::LinkState::Connected
        })
        .await;
        coordinator
    }

    pub(crate) async fn coordinator_unreached(&mut self) -> Coordinator {
        self.starts += 1;
        let path: PathBuf = self.folder.path().join("muster.db");
        let clock = Clock::system();
        let store = SqliteStore::open(&path, clock.clone()).await.unwrap();
        let store: store::Handle = Arc::new(store);
        let host = Host {
            id: HostId::new(Uuid::from_u128(1)),
            name: "local".to_owned(),
            dialler: Dialler::Unix("/fake".to_owned()),
            epoch: self.starts,
            boot: None,
            created_at: Timestamp::from_micros(1),
        };
        let mut changeset = Changeset::new(WorkspaceId::main());
        changeset.hosts.push(host.clone());
        store.commit(vec![changeset]).await.remove(0).unwrap();
        let end = CancellationToken::new();
        let tasks = Tasks::new("coordinator");
        let core = Core::open(CoreParts {
            store,
            clock: clock.clone(),
            tasks: tasks.child("core"),
            workspace: WorkspaceId::main(),
            workstation: "local".to_owned(),
            about: About {
                address: "in-process".to_owned(),
                database: "sqlite".to_owned(),
                data_dir: self.folder.path().to_owned(),
            },
            end: end.clone(),
        })
        .await
        .unwrap();
        core.connect(HostParts {
            host,
            workspace: WorkspaceId::main(),
            coordinator: self.starts.to_string(),
            dial: Arc::new(self.agent.dial()),
            bootstrap: None,
            spawn_env: BTreeMap::from([("MUSTER_ADDR".to_owned(), "in-process".to_owned())]),
            config: LinkConfig::default(),
        });
        let (dial, incoming) = in_process();
        let (told, over) = tokio::sync::oneshot::channel();
        tasks.spawn("serve", async move {
            core.serve(incoming, || ()).await.unwrap();
            core.close().await;
            let _ = told.send(());
        });
        let cut = CancellationToken::new();
        let connection = Connection::open(&dial, Profile::Control, &clock, DEADLINE, &cut)
            .await
            .unwrap();
        Coordinator {
            _dial: dial,
            channel: connection.channel(),
            _connection: connection,
            end,
            tasks,
            over,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.token().cancel();
    }
}

impl Coordinator {
    /// Ends it in good order.
    pub(crate) async fn end(self) {
        self.end.cancel();
        within("the coordinator ends", self.over).await.unwrap();
        self.tasks.shutdown(DEADLINE).await.unwrap();
    }

    /// Waits until it ended by itself.
    pub(crate) async fn ended(self) {
        within("the coordinator ends", self.over).await.unwrap();
    }

    pub(crate) fn sessions(&self) -> SessionsServiceClient<Channel> {
        SessionsServiceClient::new(self.channel.clone())
    }

    pub(crate) fn messages(&self) -> MessagesServiceClient<Channel> {
        MessagesServiceClient::new(self.channel.clone())
    }

    pub(crate) fn tasks(&self) -> TasksServiceClient<Channel> {
        TasksServiceClient::new(self.channel.clone())
    }

    pub(crate) fn hosts(&self) -> HostsServiceClient<Channel> {
        HostsServiceClient::new(self.channel.clone())
    }

    pub(crate) fn files(&self) -> FilesServiceClient<Channel> {
        FilesServiceClient::new(self.channel.clone())
    }

    pub(crate) fn interactions(&self) -> InteractionsServiceClient<Channel> {
        InteractionsServiceClient::new(self.channel.clone())
    }

    pub(crate) fn system(&self) -> SystemServiceClient<Channel> {
        SystemServiceClient::new(self.channel.clone())
    }

    pub(crate) fn feed(&self) -> FeedServiceClient<Channel> {
        FeedServiceClient::new(self.channel.clone())
    }

    pub(crate) async fn host(&self) -> pb::Host {
        let request = pb::GetHostRequest {
            name: "local".to_owned(),
        };
        let answer = self.hosts().get_host(request).await.unwrap();
        answer.into_inner().host.unwrap()
    }

    /// Starts a session of some program.
    pub(crate) async fn start(&self, key: &str) -> SessionId {
        let started = self.sessions().start_session(start(key)).await.unwrap();
        id(&started.into_inner().session.unwrap())
    }

    pub(crate) async fn session(&self, id: SessionId) -> pb::Session {
        let request = pb::GetSessionRequest { id: id.to_string() };
        let answer = self.sessions().get_session(request).await.unwrap();
        answer.into_inner().session.unwrap()
    }

    /// Waits until the session has this status.
    pub(crate) async fn until(&self, id: SessionId, status: pb::SessionStatus) -> pb::Session {
        eventually(&format!("{status:?}"), async || {
            self.session(id).await.status() == status
        })
        .await;
        self.session(id).await
    }

    pub(crate) async fn send(
        &self,
        session: SessionId,
        key: &str,
        text: &str,
    ) -> Result<pb::Message, Fault> {
        let request = pb::SendMessageRequest {
            session_id: session.to_string(),
            client_key: key.to_owned(),
            text: text.to_owned(),
            ..pb::SendMessageRequest::default()
        };
        let answer = self.messages().send_message(request).await;
        answer
            .map(|answer| answer.into_inner().message.unwrap())
            .map_err(|status| fault(&status))
    }

    pub(crate) async fn list(&self, session: SessionId) -> Vec<pb::Message> {
        let request = pb::ListMessagesRequest {
            session_id: session.to_string(),
            ..pb::ListMessagesRequest::default()
        };
        let answer = self.messages().list_messages(request).await.unwrap();
        answer.into_inner().messages
    }

    /// What the session printed, as far as it is stored.
    pub(crate) async fn output(&self, session: SessionId) -> String {
        let messages = self.list(session).await;
        let printed = messages
            .iter()
            .filter(|message| message.kind() == pb::MessageKind::Output);
        printed.map(text).collect()
    }
}

pub(crate) fn start(key: &str) -> pb::StartSessionRequest {
    pb::StartSessionRequest {
        client_key: key.to_owned(),
        cwd: "/work".to_owned(),
        argv: vec!["program".to_owned(), "argument".to_owned()],
        ..pb::StartSessionRequest::default()
    }
}

pub(crate) fn id(session: &pb::Session) -> SessionId {
    session.id.parse().unwrap()
}

pub(crate) fn text(message: &pb::Message) -> String {
    muster_proto::convert::message::text(message)
}

pub(crate) fn fault(status: &Status) -> Fault {
    muster_proto::fault::from_coordinator(status)
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let clock = Clock::system();
    let end = clock.boottime() + DEADLINE;
    while !is_so().await {
        assert!(clock.boottime() < end, "not so within a minute: {what}");
        clock.sleep(Duration::from_millis(5)).await;
    }
}

/// The output of a future that must end.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match Clock::system().timeout(DEADLINE, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within a minute: {what}"),
    }
}
