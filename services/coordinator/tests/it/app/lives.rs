//! One session over several lives of the coordinator.

use muster_proto::public::{self as pb, SessionStatus as Status};
use muster_runtime::Clock;

use crate::world::{World, eventually, id, start};

#[tokio::test(flavor = "multi_thread")]
async fn s35_live_sessions_are_taken_up_where_they_were() {
    let mut world = World::new();
    world.agent.echo();
    let coordinator = world.coordinator().await;
    let going_on = coordinator.start("a").await;
    let ending = coordinator.start("b").await;
    coordinator.send(going_on, "m1", "before").await.unwrap();
    world.agent.print(ending, b"one\n");
    eventually("the first life has read", async || {
        coordinator.output(going_on).await == "got before\n"
            && coordinator.output(ending).await == "one\n"
    })
    .await;
    coordinator.end().await;

    // Nobody watches now.
    world.agent.print(ending, b"two\n");
    world.agent.exit(ending, 0);
    world.agent.print(going_on, b"alone\n");

    let coordinator = world.coordinator().await;
    assert_eq!(world.agent.epoch(), 2);
    coordinator.until(ending, Status::Exited).await;
    assert_eq!(coordinator.output(ending).await, "one\ntwo\n");
    coordinator.until(going_on, Status::Running).await;
    coordinator.send(going_on, "m2", "after").await.unwrap();
    let repeated = coordinator.send(going_on, "m1", "before").await.unwrap();
    assert!(repeated.replayed);
    eventually("the second life reads on", async || {
        coordinator.output(going_on).await == "got before\nalone\ngot after\n"
    })
    .await;
    assert_eq!(world.agent.received(going_on), ["before", "after"]);
    assert_eq!(world.agent.spawned(), 2);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s35_what_was_so_once_is_not_said_of_a_host_that_is_away() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    coordinator.until(session, Status::Running).await;
    coordinator.end().await;

    let faults = world.agent.faults();
    faults.refuse(Some(muster_transport::DialFault::Refused));
    let coordinator = world.coordinator_unreached().await;
    assert_eq!(
        coordinator.session(session).await.status(),
        Status::Unreachable
    );
    let sent = coordinator.send(session, "m", "waits").await.unwrap();
    assert_eq!(sent.position, 1);
    coordinator.until(session, Status::Unreachable).await;
    faults.refuse(None);
    coordinator.until(session, Status::Running).await;
    eventually("what waited is received", async || {
        world.agent.received(session) == ["waits"]
    })
    .await;
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s35_a_thousand_live_sessions_are_taken_up() {
    const COUNT: usize = 1_000;
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let mut ids = Vec::new();
    for number in 0..COUNT {
        let request = pb::StartSessionRequest {
            no_wait: true,
            ..start(&number.to_string())
        };
        let started = coordinator.sessions().start_session(request).await.unwrap();
        ids.push(id(&started.into_inner().session.unwrap()));
    }
    eventually("all were started", async || world.agent.spawned() == COUNT).await;
    coordinator.until(ids[COUNT - 1], Status::Running).await;
    coordinator.end().await;

    for id in &ids {
        world.agent.print(*id, b"meanwhile\n");
    }
    let clock = Clock::system();
    let began = clock.boottime();
    let coordinator = world.coordinator().await;
    let list = || pb::ListSessionsRequest {
        page_size: u32::try_from(COUNT).unwrap(),
        live: true,
        ..pb::ListSessionsRequest::default()
    };
    eventually(
        "all run, and what was printed meanwhile is read",
        async || {
            let listed = coordinator.sessions().list_sessions(list()).await.unwrap();
            let listed = listed.into_inner().sessions;
            let read = |session: &&pb::Session| {
                session.status() == Status::Running
                    && session.cursor.is_some_and(|cursor| cursor.offset == 10)
            };
            listed.iter().filter(read).count() == COUNT
        },
    )
    .await;
    eprintln!("taken up in {:?}", clock.boottime() - began);
    coordinator.end().await;
}
