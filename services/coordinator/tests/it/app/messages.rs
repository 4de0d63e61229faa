//! What is said to sessions.

use std::time::Duration;

use muster_domain::{Reason, limits};
use muster_proto::public::{self as pb, SessionStatus as Status, get_message_request::By};

use crate::world::{World, eventually, fault, text};

#[tokio::test(flavor = "multi_thread")]
async fn s14_a_message_is_stored_once_and_written_once() {
    let mut world = World::new();
    world.agent.echo();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let first = coordinator.send(session, "m", "hello").await.unwrap();
    assert!(!first.replayed);
    let again = coordinator.send(session, "m", "hello").await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.id, first.id);
    let waited = coordinator
        .messages()
        .wait_message(pb::WaitMessageRequest {
            id: first.id.clone(),
            wait_for: pb::WaitFor::Written.into(),
            timeout: Some(prost_types::Duration {
                seconds: 60,
                nanos: 0,
            }),
        })
        .await
        .unwrap()
        .into_inner()
        .message
        .unwrap();
    assert_eq!(waited.state(), pb::MessageState::Written);
    assert_eq!(world.agent.received(session), ["hello"]);
    eventually("the echo is read", async || {
        coordinator.output(session).await == "got hello\n"
    })
    .await;
    let by_key = pb::GetMessageRequest {
        by: Some(By::Key(pb::ClientKey {
            session_id: session.to_string(),
            client_key: "m".to_owned(),
        })),
    };
    let found = coordinator
        .messages()
        .get_message(by_key)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(text(&found.message.unwrap()), "hello");
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s22_what_a_line_program_cannot_take_is_refused() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let refused = async |key: &str, text: &str| {
        coordinator
            .send(session, key, text)
            .await
            .unwrap_err()
            .reason()
    };
    assert_eq!(refused("m", "two\nlines").await, Reason::MultilineText);
    assert_eq!(refused("m", "").await, Reason::MissingField);
    assert_eq!(refused("", "text").await, Reason::MissingField);
    let huge = "x".repeat(limits::MESSAGE_TEXT_BYTES + 1);
    assert_eq!(refused("m", &huge).await, Reason::MessageTooLarge);
    let long_key = "k".repeat(limits::CLIENT_KEY_BYTES + 1);
    assert_eq!(refused(&long_key, "text").await, Reason::Invalid);

    let request = |mode: pb::SendMode, if_turn: &str| pb::SendMessageRequest {
        session_id: session.to_string(),
        client_key: "m".to_owned(),
        text: "text".to_owned(),
        mode: mode.into(),
        if_turn: if_turn.to_owned(),
        ..pb::SendMessageRequest::default()
    };
    for request in [
        request(pb::SendMode::Interrupt, ""),
        request(pb::SendMode::AfterTurn, ""),
        request(pb::SendMode::Queue, "none"),
    ] {
        let status = coordinator
            .messages()
            .send_message(request)
            .await
            .unwrap_err();
        assert_eq!(fault(&status).reason(), Reason::Unsupported);
    }
    let largest = "x".repeat(limits::MESSAGE_TEXT_BYTES);
    let sent = coordinator.send(session, "m", &largest).await.unwrap();
    let wait = pb::WaitMessageRequest {
        id: sent.id,
        wait_for: pb::WaitFor::Seen.into(),
        timeout: Some(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        }),
    };
    let status = coordinator.messages().wait_message(wait).await.unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::Unsupported);
    eventually("it is received", async || {
        world.agent.received(session) == [largest.clone()]
    })
    .await;

    world.agent.exit(session, 0);
    coordinator.until(session, Status::Exited).await;
    let ended = coordinator.send(session, "late", "text").await.unwrap_err();
    assert_eq!(ended.reason(), Reason::RunEnded);
    assert!(ended.hint().is_some());
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s17_each_message_arrives_once_and_in_order_over_cut_links() {
    const COUNT: usize = 40;
    let mut world = World::new();
    world.agent.delay_deliveries(Duration::from_millis(5));
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    for number in 0..COUNT {
        let key = format!("m{number}");
        let sent = coordinator
            .send(session, &key, &format!("text {number}"))
            .await;
        sent.unwrap();
        if number % 7 == 3 {
            world.agent.faults().cut();
        }
    }
    let expected: Vec<String> = (0..COUNT).map(|number| format!("text {number}")).collect();
    eventually("all are received", async || {
        world.agent.received(session).len() >= COUNT
    })
    .await;
    assert_eq!(world.agent.received(session), expected);
    eventually("all are known to be written", async || {
        let messages = coordinator.list(session).await;
        messages
            .iter()
            .all(|message| message.state() == pb::MessageState::Written)
    })
    .await;
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_shown_in_order_and_can_be_taken_back() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let faults = world.agent.faults();
    faults.refuse(Some(muster_transport::DialFault::Refused));
    faults.cut();
    coordinator.until(session, Status::Unreachable).await;
    let mut ids = Vec::new();
    for number in 1..=3_u32 {
        let sent = coordinator
            .send(session, &number.to_string(), "text")
            .await
            .unwrap();
        assert_eq!(sent.position, number);
        ids.push(sent.id);
    }
    let cancel = |id: &str| pb::CancelMessageRequest { id: id.to_owned() };
    let cancelled = coordinator
        .messages()
        .cancel_message(cancel(&ids[1]))
        .await
        .unwrap();
    let state = cancelled.into_inner().message.unwrap().state();
    assert_eq!(state, pb::MessageState::Cancelled);
    let request = pb::ListQueueRequest {
        session_id: session.to_string(),
    };
    let queue = coordinator
        .messages()
        .list_queue(request)
        .await
        .unwrap()
        .into_inner();
    let queue: Vec<_> = queue
        .messages
        .into_iter()
        .map(|m| (m.id, m.position))
        .collect();
    assert_eq!(queue, [(ids[0].clone(), 1), (ids[2].clone(), 2)]);
    let wait = pb::WaitMessageRequest {
        id: ids[0].clone(),
        wait_for: pb::WaitFor::Written.into(),
        timeout: Some(prost_types::Duration {
            seconds: 0,
            nanos: 1_000_000,
        }),
    };
    let status = coordinator.messages().wait_message(wait).await.unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::WaitTimeout);

    faults.refuse(None);
    eventually("the others are received", async || {
        world.agent.received(session).len() == 2
    })
    .await;
    eventually("it is known to be written", async || {
        let messages = coordinator.list(session).await;
        messages
            .iter()
            .any(|m| m.id == ids[2] && m.state() == pb::MessageState::Written)
    })
    .await;
    let status = coordinator
        .messages()
        .cancel_message(cancel(&ids[2]))
        .await
        .unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::AlreadyWritten);
    coordinator.end().await;
}
