use std::{os::fd::AsRawFd as _, path::Path, time::Duration};

use muster_runtime::{
    Admission, Peer, ServerBuilder, ServerWindows, Tasks,
    server::{Health, PeerListener, PeerPolicy},
    socket,
};
use tokio::io::AsyncReadExt as _;
use tokio_stream::StreamExt as _;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::{LONG, folder};

struct Served {
    tasks: Tasks,
    token: CancellationToken,
    health: Health,
    channel: Channel,
    _folder: tempfile::TempDir,
    _guard: socket::SocketGuard,
}

async fn serve(drain: Duration) -> Served {
    let folder = folder();
    let path = folder.path().join("run/s.sock");
    let (listener, guard) = socket::bind(&path).await.expect("a socket");
    let tasks = Tasks::new("server");
    let token = CancellationToken::new();
    let builder = ServerBuilder::new(ServerWindows::default());
    let health = builder.health();
    let incoming = PeerListener::new(listener, PeerPolicy::own_user()).into_incoming();
    tasks.spawn("serve", builder.serve(incoming, token.clone(), drain));
    Served {
        tasks,
        token,
        health,
        channel: connect(&path).await,
        _folder: folder,
        _guard: guard,
    }
}

/// Through the folder's handle: the path may be longer than an address of a socket.
async fn connect(path: &Path) -> Channel {
    let (folder, name) = path.parent().zip(path.file_name()).expect("a file's path");
    let folder = std::fs::File::open(folder).expect("its folder");
    let name = name.display();
    let uri = format!("unix:///proc/self/fd/{}/{name}", folder.as_raw_fd());
    let endpoint = Endpoint::from_shared(uri).expect("an address");
    endpoint.connect().await.expect("a connection")
}

fn whole_server() -> HealthCheckRequest {
    HealthCheckRequest {
        service: String::new(),
    }
}

#[tokio::test]
async fn health_follows_the_switch() {
    let served = serve(LONG).await;
    let mut client = HealthClient::new(served.channel.clone());
    let mut status = async || {
        client
            .check(whole_server())
            .await
            .unwrap()
            .into_inner()
            .status()
    };
    assert_eq!(status().await, ServingStatus::NotServing);
    served.health.set_serving(true).await;
    assert_eq!(status().await, ServingStatus::Serving);
    served.health.set_serving(false).await;
    assert_eq!(status().await, ServingStatus::NotServing);
    drop(client);
    served.token.cancel();
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let served = serve(LONG).await;
    let mut client = ServerReflectionClient::new(served.channel.clone());
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client
        .server_reflection_info(tokio_stream::once(request))
        .await;
    let answer = answers
        .unwrap()
        .into_inner()
        .message()
        .await
        .unwrap()
        .unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    assert!(
        names.contains(&"grpc.health.v1.Health".to_owned()),
        "{names:?}"
    );
}

#[tokio::test]
async fn the_drain_ends_although_a_stream_is_idle() {
    let served = serve(Duration::from_millis(200)).await;
    let mut client = HealthClient::new(served.channel.clone());
    let mut stream = client.watch(whole_server()).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::NotServing);
    served.token.cancel();
    // The stream never ends by itself; the server must.
    while !served.tasks.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let last = tokio::time::timeout(LONG, async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                end => break end,
            }
        }
    });
    let end = last.await.expect("the client sees the end");
    assert!(end.is_err(), "a cut stream is no clean end: {end:?}");
    served.tasks.shutdown(LONG).await.unwrap();
}

#[tokio::test]
async fn an_aborted_server_cuts_its_connections() {
    let served = serve(LONG).await;
    let mut client = HealthClient::new(served.channel.clone());
    let mut stream = client.watch(whole_server()).await.unwrap().into_inner();
    stream.message().await.unwrap();
    served.tasks.shutdown(Duration::ZERO).await.unwrap_err();
    let end = tokio::time::timeout(LONG, stream.message()).await.unwrap();
    assert!(end.is_err(), "{end:?}");
}

#[tokio::test]
async fn h15_a_peer_of_another_user_is_dropped() {
    let folder = folder();
    let own = PeerPolicy::own_user();
    let other = PeerPolicy {
        uid: own.uid + 1,
        allow_root: false,
    };
    assert!(own.allows(own.uid) && !own.allows(own.uid + 1));
    assert!(
        PeerPolicy {
            allow_root: true,
            ..other
        }
        .allows(0)
    );
    assert!(
        !PeerPolicy {
            uid: 1000,
            allow_root: false
        }
        .allows(0)
    );

    let path = folder.path().join("run/s.sock");
    let (listener, _guard) = socket::bind(&path).await.unwrap();
    let listener = PeerListener::new(listener, other);
    let mut client = socket::connect(&path).await.unwrap();
    let mut byte = [0];
    tokio::select! {
        _ = listener.accept() => panic!("another user was let in"),
        read = client.read(&mut byte) => assert_eq!(read.unwrap(), 0),
    }
}

#[tokio::test]
async fn the_peer_is_known() {
    let folder = folder();
    let path = folder.path().join("run/s.sock");
    let (listener, _guard) = socket::bind(&path).await.unwrap();
    let mut incoming =
        Box::pin(PeerListener::new(listener, PeerPolicy::own_user()).into_incoming());
    let _client = socket::connect(&path).await.unwrap();
    let stream = incoming.next().await.unwrap().unwrap();
    let peer = tonic::transport::server::Connected::connect_info(&stream);
    let own = Peer::this_process();
    assert_eq!((peer.uid, peer.gid, peer.pid), (own.uid, own.gid, own.pid));
    assert_eq!(peer.streams.limit(), 256);
}

#[tokio::test]
async fn h20_admission_refuses_above_its_cap() {
    let admission = Admission::new(2);
    let one = admission.enter().unwrap();
    let stream = admission.enter().unwrap().hold(tokio_stream::iter([1, 2]));
    let refused = admission.clone().enter().unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(admission.in_use(), 2);
    assert_eq!(stream.collect::<Vec<_>>().await, [1, 2]);
    drop(one);
    assert_eq!(admission.in_use(), 0);
    assert!(admission.try_enter().is_some());
}

#[test]
fn the_default_windows_cannot_freeze() {
    assert!(ServerWindows::default().is_freeze_free());
}
