//! A store that fails, and one that is slow.

use muster_coordinator::sessions::api::SessionsApi as _;
use muster_domain::{
    Reason,
    message::{Body, Delivery},
    session::Outcome,
};

use super::kit::{World, alive, eventually, new, over};

/// A life with one failed commit: the result is that of a life without.
async fn life(failed: u64) -> u64 {
    let world = World::new();
    world.store.fail(failed);
    let key = loop {
        match world.sessions.start(new(Some("the prompt"))).await {
            Ok(state) => break super::kit::first(state.spec.id),
            Err(fault) => assert_eq!(fault.reason(), Reason::StoreUnavailable),
        }
    };
    world.until(key.session, alive).await;
    let mut last = None;
    for text in ["one", "two", "three"] {
        world.host.print(key, &format!("before {text}\n"));
        last = Some(world.send_surely(key, text).await);
    }
    world.until_message(&last.unwrap(), Delivery::Written).await;
    world.host.print(key, "the end\n");
    world.host.exit(key, 0, false);
    let state = world.until(key.session, over).await;
    let case = format!("commit {failed} fails");
    assert_eq!(state.outcome(), Some(Outcome::Completed), "{case}");
    assert_eq!(
        world.received(key),
        ["the prompt", "one", "two", "three"],
        "{case}"
    );
    assert_eq!(world.host.machine().spawns, [key], "{case}");
    let mut output = String::new();
    for message in world.messages(key.session).await {
        match (message.sent, message.body) {
            (None, Body::Text(text)) => output.push_str(&text),
            (Some(sent), _) => assert_eq!(sent.state, Delivery::Written, "{case}"),
            (None, Body::Reference { .. }) => panic!("{case}: the output is short"),
        }
    }
    let whole = "before one\nbefore two\nbefore three\nthe end\n";
    assert_eq!(output, whole, "{case}");
    world.store.commits()
}

#[tokio::test]
async fn r2_any_commit_may_fail() {
    let commits = life(u64::MAX / 2).await;
    for failed in 1..=commits {
        life(failed).await;
    }
}

#[tokio::test]
async fn r3_a_failed_commit_is_told_and_nothing_of_it_happens() {
    let world = World::new();
    let key = world.started(None).await;
    world.store.fail(1);
    let fault = world.send(key, "lost").await.unwrap_err();
    assert_eq!(fault.reason(), Reason::StoreUnavailable);
    let kept = world.send_surely(key, "kept").await;
    world.until_message(&kept, Delivery::Written).await;
    assert_eq!(world.received(key), ["kept"]);
}

#[tokio::test]
async fn s39_a_full_store_keeps_no_program_from_its_end() {
    let world = World::new();
    let key = world.started(None).await;
    world.store.fill(true);
    let refused = world.send(key, "lost").await.unwrap_err();
    assert_eq!(refused.reason(), Reason::StoreUnavailable);
    let interrupted = world.sessions.interrupt(key.session).await.unwrap();
    assert!(!interrupted.recorded && !interrupted.already_ended);
    let stopped = world.sessions.stop(key.session, false).await.unwrap();
    assert!(!stopped.recorded && !stopped.already_ended);
    assert_eq!(world.host.change(key, |run| run.stops.len()), 1);
    assert_eq!(world.host.change(key, |run| run.signals.clone()), [2]);
    world.host.exit(key, 0, true);
    world.store.fill(false);
    // The record of the end tells that it was asked for.
    let state = world.until(key.session, over).await;
    assert_eq!(state.outcome(), Some(Outcome::Interrupted));
    assert!(world.received(key).is_empty());
}

#[tokio::test]
async fn f19_a_slow_store_slows_its_own_session_and_loses_nothing() {
    let world = World::new();
    let key = world.started(None).await;
    world.store.let_through(false);
    let line = "x".repeat(1023) + "\n";
    let mut size = 0;
    for _ in 0..4_096 {
        world.host.print(key, &line);
        size += line.len() as u64;
    }
    // What is not committed stays on the host: the actor's memory has a bound.
    let live = world.sessions.live(key.session).unwrap();
    eventually("something is shown", async || {
        live.borrow().growing.clone().map(|_| ())
    })
    .await;
    assert_eq!(world.stored(key.session).await.run.consumed, 0);
    world.store.let_through(true);
    world.host.exit(key, 0, false);
    let state = world.until(key.session, over).await;
    assert_eq!(state.run.consumed, size);
    assert_eq!(state.outcome(), Some(Outcome::Completed));
    let messages = world.messages(key.session).await;
    let bytes: u64 = messages.iter().map(|message| message.bytes).sum();
    assert_eq!(bytes, size);
}

#[tokio::test]
async fn r3_what_is_shown_is_committed() {
    let world = World::new();
    let key = world.started(None).await;
    world.store.let_through(false);
    let stop = world.sessions.stop(key.session, false);
    tokio::pin!(stop);
    let clock = muster_runtime::Clock::system();
    let answer = clock
        .timeout(std::time::Duration::from_millis(50), &mut stop)
        .await;
    assert!(answer.is_err());
    let live = world.sessions.live(key.session).unwrap();
    assert!(!live.borrow().state.is_stopping());
    assert!(world.host.change(key, |run| run.stops.is_empty()));
    world.store.let_through(true);
    assert!(stop.await.unwrap().state.is_stopping());
}
