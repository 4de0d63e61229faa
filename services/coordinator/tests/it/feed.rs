//! The feed, through the public contract.

mod observer;

use muster_domain::Reason;
use muster_proto::public::{self as pb, SessionStatus as Status, subscribe_request::Command};

use crate::world::{World, eventually};
use observer::Observer;

fn session(id: muster_domain::SessionId, after: Option<u64>) -> Command {
    Command::SubscribeSession(pb::SubscribeSession {
        session_id: id.to_string(),
        tree: false,
        after_revision: after,
    })
}

fn workspace(after: Option<u64>) -> Command {
    Command::SubscribeWorkspace(pb::SubscribeWorkspace {
        after_revision: after,
    })
}

fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers
        .map(|number| format!("line {number}: größer\n"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_state_then_stream_without_a_seam() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let id = coordinator.start("k").await;
    world.agent.print(id, lines(0..10).as_bytes());
    let mut observer = Observer::open(&coordinator).await;
    observer.ask(workspace(None)).await;
    observer.ask(session(id, None)).await;
    // While the snapshot is on its way.
    for part in 1..20 {
        world
            .agent
            .print(id, lines(part * 10..part * 10 + 10).as_bytes());
    }
    world.agent.exit(id, 0);
    observer
        .until("the end is seen", |seen| {
            seen.status(id) == Some(Status::Exited)
        })
        .await;
    assert_eq!(observer.text(id), lines(0..200));
    assert_eq!(observer.snapshots, 2);
    assert_eq!(observer.answers, [Ok(1), Ok(2)]);
    assert_eq!(coordinator.output(id).await, lines(0..200));
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_resumes_by_revision_over_a_restart() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let id = coordinator.start("k").await;
    let mut observer = Observer::open(&coordinator).await;
    observer.ask(workspace(None)).await;
    observer.ask(session(id, None)).await;
    world.agent.print(id, lines(0..50).as_bytes());
    observer
        .until("the first part is seen", |seen| {
            seen.text(id) == lines(0..50)
        })
        .await;
    coordinator.end().await;
    observer.until_cut().await;
    assert_eq!(observer.cut_by, Some(Reason::ShuttingDown));

    world.agent.print(id, lines(50..100).as_bytes());
    let coordinator = world.coordinator().await;
    world.agent.print(id, lines(100..150).as_bytes());
    observer.again(&coordinator).await;
    let (all, one) = (observer.revision(""), observer.revision(&id.to_string()));
    observer.ask(workspace(all)).await;
    observer.ask(session(id, one)).await;
    world.agent.exit(id, 1);
    observer
        .until("the end is seen", |seen| {
            seen.status(id) == Some(Status::Failed)
        })
        .await;
    assert_eq!(observer.text(id), lines(0..150));
    assert_eq!(observer.snapshots, 2, "resumed, not begun anew");
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_revision_that_cannot_be_resumed_from_is_told_and_a_snapshot_follows() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let id = coordinator.start("k").await;
    let mut observer = Observer::open(&coordinator).await;
    observer.ask(session(id, Some(1_000_000))).await;
    observer
        .until("a snapshot comes", |seen| seen.snapshots == 1)
        .await;
    assert_eq!(
        observer.answers,
        [Err((1, "REVISION_COMPACTED".to_owned()))]
    );
    assert!(observer.status(id).is_some());
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f8_every_command_is_answered_by_its_id_in_order() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let id = coordinator.start("k").await;
    let mut observer = Observer::open(&coordinator).await;
    let name = id.to_string();
    let named = |text: &str| {
        Command::SubscribeSession(pb::SubscribeSession {
            session_id: text.to_owned(),
            ..pb::SubscribeSession::default()
        })
    };
    observer.ask(session(id, None)).await;
    observer
        .until("the snapshot is whole", |seen| seen.snapshots == 1)
        .await;
    for command in [
        session(id, None),
        named("nonsense"),
        named("ffffffff-ffff-7fff-8fff-ffffffffffff"),
        Command::FocusSession(pb::FocusSession {
            session_id: name.clone(),
        }),
        Command::RefreshGit(pb::RefreshGit {
            session_id: name.clone(),
        }),
        Command::UnsubscribeSession(pb::UnsubscribeSession {
            session_id: name.clone(),
        }),
        Command::UnsubscribeSession(pb::UnsubscribeSession { session_id: name }),
        Command::Ping(pb::Ping {}),
    ] {
        observer.ask(command).await;
    }
    observer
        .until("all are answered", |seen| seen.answers.len() == 9)
        .await;
    let refused = |id: u64, reason: Reason| Err((id, reason.as_str().to_owned()));
    assert_eq!(
        observer.answers,
        [
            Ok(1),
            Ok(2),
            refused(3, Reason::InvalidId),
            refused(4, Reason::SessionNotFound),
            Ok(5),
            refused(6, Reason::Unsupported),
            Ok(7),
            Ok(8),
            Ok(9),
        ]
    );
    assert_eq!(observer.snapshots, 1);
    // Nothing of the session comes any more; of the workspace nothing was asked for.
    let before = observer.events;
    world.agent.print(id, b"unheard\n");
    eventually("it is stored", async || {
        coordinator.output(id).await == "unheard\n"
    })
    .await;
    observer.ask(Command::Ping(pb::Ping {})).await;
    observer
        .until("the ping is answered", |seen| seen.answers.len() == 10)
        .await;
    assert_eq!(observer.events, before);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_who_does_not_read_keeps_nobody_waiting_and_loses_nothing() {
    const SLOW: usize = 8;
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let id = coordinator.start("k").await;
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut observer = Observer::open(&coordinator).await;
        observer.ask(session(id, None)).await;
        slow.push(observer);
    }
    let mut quick = Observer::open(&coordinator).await;
    quick.ask(session(id, None)).await;
    // More than a stream's window, so that the slow ones stop the sending.
    let part = "x".repeat(8_191) + "\n";
    for _ in 0..100 {
        world.agent.print(id, part.as_bytes());
    }
    let whole = part.repeat(100);
    quick
        .until("the quick one has all of it", |seen| seen.text(id) == whole)
        .await;
    world.agent.exit(id, 0);
    coordinator.until(id, Status::Exited).await;
    for observer in &mut slow {
        observer
            .until("the slow one has the end", |seen| {
                seen.status(id) == Some(Status::Exited)
            })
            .await;
        assert_eq!(observer.text(id), whole);
    }
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f9_detail_goes_only_to_those_who_opened_the_session() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let id = coordinator.start("k").await;
    let mut observer = Observer::open(&coordinator).await;
    observer.ask(workspace(None)).await;
    observer
        .until("the snapshot is whole", |seen| seen.snapshots == 1)
        .await;
    world.agent.print(id, b"text\n");
    world.agent.exit(id, 0);
    observer
        .until("the end is seen", |seen| {
            seen.status(id) == Some(Status::Exited)
        })
        .await;
    assert_eq!(observer.text(id), "");
    let request = pb::GetSessionRequest { id: id.to_string() };
    let task = coordinator.sessions().get_session(request).await.unwrap();
    let task = task.into_inner().session.unwrap().task_id;
    assert!(observer.tasks.contains_key(&task));
    assert!(observer.hosts.contains_key("local"));
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_a_link_s_change_is_an_event() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let mut observer = Observer::open(&coordinator).await;
    observer.ask(workspace(None)).await;
    observer
        .until("the snapshot is whole", |seen| seen.snapshots == 1)
        .await;
    let faults = world.agent.faults();
    faults.refuse(Some(muster_transport::DialFault::Refused));
    faults.cut();
    let link = |seen: &Observer| seen.hosts.get("local").map(pb::Host::link);
    observer
        .until("it is unreachable", |seen| {
            link(seen) == Some(pb::LinkState::Unreachable)
        })
        .await;
    faults.refuse(None);
    observer
        .until("it is connected", |seen| {
            link(seen) == Some(pb::LinkState::Connected)
        })
        .await;
    coordinator.end().await;
}
