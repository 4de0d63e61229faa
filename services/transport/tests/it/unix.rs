use muster_runtime::{Clock, PeerListener, PeerPolicy, socket};
use muster_transport::{Connection, Dial as _, DialFault, Profile, Unix};
use tokio_util::sync::CancellationToken;

use crate::{
    LONG,
    service::{Served, echo},
};

#[tokio::test]
async fn a_call_goes_over_a_socket_at_any_path() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["short", &"long".repeat(40)] {
        let path = folder.path().join(name).join("agent.sock");
        let (listener, _guard) = socket::bind(&path).await.unwrap();
        let listener = PeerListener::new(listener, PeerPolicy::own_user());
        let served = Served::new(listener.into_incoming());
        let (dial, cut) = (Unix::new(&path), CancellationToken::new());
        let connection = Connection::open(&dial, Profile::Control, &Clock::system(), LONG, &cut)
            .await
            .unwrap();
        assert_eq!(echo(connection.channel(), "hi").await.unwrap(), "hi");
        served.stop().await;
    }
}

#[tokio::test]
async fn h4_nobody_there_is_agent_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/agent.sock");
    let fault = async || match Unix::new(&path).dial().await {
        Ok(_) => panic!("nobody listens"),
        Err(error) => DialFault::of(&error),
    };
    assert_eq!(fault().await, DialFault::AgentDown);
    let (listener, guard) = socket::bind(&path).await.unwrap();
    guard.keep();
    drop(listener);
    assert_eq!(fault().await, DialFault::AgentDown);
    // A file where a folder should be: the agent cannot be there either.
    let path = folder.path().join("file/agent.sock");
    std::fs::write(folder.path().join("file"), "").unwrap();
    match Unix::new(&path).dial().await {
        Ok(_) => panic!("nobody listens"),
        Err(error) => assert_eq!(DialFault::of(&error), DialFault::AgentDown),
    }
}
