//! The public API as any tool reaches it: generated clients over the socket that `status` names.

use std::path::PathBuf;
use std::time::Duration;

use muster_proto::public::messages_service_client::MessagesServiceClient;
use muster_proto::public::sessions_service_client::SessionsServiceClient;
use muster_proto::public::system_service_client::SystemServiceClient;
use muster_proto::public::{
    ListMessagesRequest, ListSessionsRequest, Message, Session, StartSessionRequest, TailData,
    TailFile, TailRequest, TailResponse, tail_request, tail_response,
};
use muster_runtime::Clock;
use muster_transport::{Connection, Profile, Unix};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::World;

/// One connection to the coordinator of a world.
#[derive(Clone, Debug)]
pub struct Api {
    channel: Channel,
    _connection: Connection,
}

impl Api {
    /// Connects with windows that no unread stream exhausts.
    ///
    /// # Panics
    /// When the coordinator of this world does not answer.
    pub async fn connect(world: &World) -> Self {
        let dial = Unix::new(socket(world));
        let clock = Clock::system();
        let cut = CancellationToken::new();
        let limit = Duration::from_secs(30);
        let connection = Connection::open(&dial, Profile::Tails, &clock, limit, &cut).await;
        let connection = connection.expect("the coordinator's socket answers");
        Self {
            channel: connection.channel(),
            _connection: connection,
        }
    }

    /// For clients of other services.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Client of `SessionsService`.
    #[must_use]
    pub fn sessions(&self) -> SessionsServiceClient<Channel> {
        SessionsServiceClient::new(self.channel.clone())
    }

    /// Client of `MessagesService`.
    #[must_use]
    pub fn messages(&self) -> MessagesServiceClient<Channel> {
        MessagesServiceClient::new(self.channel.clone())
    }

    /// Client of `SystemService`.
    #[must_use]
    pub fn system(&self) -> SystemServiceClient<Channel> {
        SystemServiceClient::new(self.channel.clone())
    }

    /// Starts a generic session; the key makes it repeatable.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(&self, key: &str, cwd: &str, argv: &[&str]) -> Session {
        let request = StartSessionRequest {
            client_key: key.to_owned(),
            cwd: cwd.to_owned(),
            argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
            ..StartSessionRequest::default()
        };
        let answer = self
            .sessions()
            .start_session(request)
            .await
            .expect("the session starts");
        answer
            .into_inner()
            .session
            .expect("the answer has the session")
    }

    /// All sessions that have not ended, over all pages.
    ///
    /// # Panics
    /// When the coordinator does not answer.
    pub async fn live_sessions(&self) -> Vec<Session> {
        let mut all = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListSessionsRequest {
                page_size: 1_000,
                page_token,
                live: true,
                ..ListSessionsRequest::default()
            };
            let page = self
                .sessions()
                .list_sessions(request)
                .await
                .expect("sessions are listed")
                .into_inner();
            all.extend(page.sessions);
            if page.next_page_token.is_empty() {
                return all;
            }
            page_token = page.next_page_token;
        }
    }

    /// Every message of a session, over all pages, in order.
    ///
    /// # Panics
    /// When the coordinator does not answer.
    pub async fn all_messages(&self, session: &str) -> Vec<Message> {
        let mut all = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListMessagesRequest {
                session_id: session.to_owned(),
                page_size: 1_000,
                page_token,
            };
            let page = self
                .messages()
                .list_messages(request)
                .await
                .expect("messages are listed")
                .into_inner();
            all.extend(page.messages);
            if page.next_page_token.is_empty() {
                return all;
            }
            page_token = page.next_page_token;
        }
    }

    /// Follows a session's output from its beginning.
    ///
    /// # Panics
    /// When the stream does not open.
    pub async fn follow(&self, session: &str) -> Streaming<TailResponse> {
        let request = TailRequest {
            session_id: session.to_owned(),
            file: TailFile::Stdout.into(),
            start: Some(tail_request::Start::Beginning(true)),
            follow: true,
            ..TailRequest::default()
        };
        self.sessions()
            .tail(request)
            .await
            .expect("the tail opens")
            .into_inner()
    }
}

/// The next data of a tail; `None` at its end.
///
/// # Panics
/// When the stream fails.
pub async fn next_data(tail: &mut Streaming<TailResponse>) -> Option<TailData> {
    loop {
        match tail.message().await.expect("the tail goes on")?.event {
            Some(tail_response::Event::Data(data)) => return Some(data),
            Some(tail_response::Event::End(_)) => return None,
            _ => {}
        }
    }
}

fn socket(world: &World) -> PathBuf {
    let status = world.json(&["status"]);
    let address = status["coordinator"]["address"]
        .as_str()
        .expect("the status names the address");
    address.strip_prefix("unix:").unwrap_or(address).into()
}
