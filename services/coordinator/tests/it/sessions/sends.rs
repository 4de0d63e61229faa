//! What is said to programs.

use muster_coordinator::sessions::api::SessionsApi as _;
use muster_domain::{Reason, delivery::Answer, message::Delivery};

use super::{
    host::Mishap,
    kit::{World, eventually, over, sending},
};

#[tokio::test]
async fn s17_messages_arrive_in_order_once_each() {
    let world = World::new();
    let key = world.started(Some("the prompt")).await;
    let mut texts = vec!["the prompt".to_owned()];
    let mut last = None;
    for number in 0..50 {
        let text = format!("message {number}");
        last = Some(world.send(key, &text).await.unwrap());
        texts.push(text);
    }
    world.until_message(&last.unwrap(), Delivery::Written).await;
    assert_eq!(world.received(key), texts);
    assert_eq!(world.stored(key.session).await.waiting, 0);
}

#[tokio::test]
async fn s17_whatever_goes_wrong_with_a_delivery_it_arrives_once() {
    let world = World::new();
    let key = world.started(None).await;
    world.host.machine().deliver_mishaps.extend([
        Mishap::Answered(Answer::Retry),
        Mishap::Lost,
        Mishap::Dropped,
        Mishap::Answered(Answer::Busy),
        Mishap::Refused(Reason::DeliveryLimit),
        Mishap::Refused(Reason::EpochStale),
        Mishap::Answered(Answer::DiskFull),
        Mishap::Lost,
    ]);
    let mut sent = Vec::new();
    for text in ["a", "b", "c", "d"] {
        sent.push(world.send(key, text).await.unwrap());
    }
    for message in &sent {
        world.until_message(message, Delivery::Written).await;
    }
    assert_eq!(world.received(key), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn s17_a_refused_delivery_fails_its_message_alone() {
    let world = World::new();
    let key = world.started(None).await;
    let refused = Mishap::Refused(Reason::NotALine);
    world.host.machine().deliver_mishaps.push_back(refused);
    let bad = world.send(key, "bad").await.unwrap();
    let good = world.send(key, "good").await.unwrap();
    world.until_message(&bad, Delivery::Failed).await;
    world.until_message(&good, Delivery::Written).await;
    assert_eq!(world.received(key), ["good"]);
}

#[tokio::test]
async fn s14_the_same_key_gives_the_stored_message_also_after_the_actor_ended() {
    let world = World::new();
    let key = world.started(None).await;
    let first = world.sessions.send(key.session, sending("once")).await;
    let first = first.unwrap();
    assert!(!first.replayed);
    let again = world.sessions.send(key.session, sending("once")).await;
    let again = again.unwrap();
    assert!(again.replayed);
    assert_eq!(again.message.id, first.message.id);
    world.until_message(&first.message, Delivery::Written).await;
    world.host.exit(key, 0, false);
    world.until(key.session, over).await;
    eventually("the actor ends", async || {
        world.sessions.is_empty().then_some(())
    })
    .await;
    let late = world.sessions.send(key.session, sending("once")).await;
    assert!(late.unwrap().replayed);
    let fault = world.send(key, "another").await.unwrap_err();
    assert_eq!(fault.reason(), Reason::RunEnded);
    assert_eq!(world.received(key), ["once"]);
}

#[tokio::test]
async fn s15_a_message_is_taken_back_before_it_is_written_and_not_after() {
    let world = World::new();
    let key = world.started(None).await;
    let busy = std::iter::repeat_n(Mishap::Answered(Answer::Busy), 3);
    world.host.machine().deliver_mishaps.extend(busy);
    let first = world.send(key, "first").await.unwrap();
    let second = world.send(key, "second").await.unwrap();
    let cancelled = world.sessions.cancel(key.session, second.id).await;
    let sent = cancelled.unwrap().sent.unwrap();
    assert_eq!(sent.state, Delivery::Cancelled);
    world.until_message(&first, Delivery::Written).await;
    let fault = world.sessions.cancel(key.session, first.id).await;
    assert_eq!(fault.unwrap_err().reason(), Reason::AlreadyWritten);
    assert_eq!(world.received(key), ["first"]);
}

#[tokio::test]
async fn r3_callers_that_give_up_take_nothing_back() {
    let world = World::new();
    let key = world.started(None).await;
    world.store.let_through(false);
    {
        let sending = world.send(key, "heard");
        tokio::pin!(sending);
        let clock = muster_runtime::Clock::system();
        // It waits for its commit, and is dropped.
        let answer = clock
            .timeout(std::time::Duration::from_millis(50), &mut sending)
            .await;
        assert!(answer.is_err());
    }
    world.store.let_through(true);
    eventually("the message arrives", async || {
        (world.received(key) == ["heard"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn r7_many_callers_at_once_all_get_an_answer() {
    let world = World::new();
    let key = world.started(None).await;
    let texts: Vec<String> = (0..300).map(|number| format!("m{number}")).collect();
    let sends = texts.iter().map(|text| world.send(key, text));
    let answers = futures_util::future::join_all(sends).await;
    for answer in answers {
        world
            .until_message(&answer.unwrap(), Delivery::Written)
            .await;
    }
    let mut received = world.received(key);
    received.sort();
    let mut texts = texts;
    texts.sort();
    assert_eq!(received, texts);
}
