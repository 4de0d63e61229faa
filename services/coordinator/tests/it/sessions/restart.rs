//! The coordinator ends and comes again.

use std::time::Duration;

use muster_coordinator::{hosts::api::Start, sessions::api::SessionsApi as _};
use muster_domain::{
    Reason, WorkspaceId,
    message::{Body, Delivery},
    session::{Link, Process},
};

use super::{
    host::Mishap,
    kit::{PATIENCE, World, alive, eventually, new, over},
};

#[tokio::test]
async fn s19_over_crashes_each_message_is_delivered_once() {
    let mut world = World::new();
    let key = world.started(None).await;
    let mut texts = Vec::new();
    for round in 0..10 {
        for number in 0..3 {
            let text = format!("{round}/{number}");
            if number == round % 3 {
                let mishap = [Mishap::Lost, Mishap::Dropped][round % 2].clone();
                world.host.machine().deliver_mishaps.push_back(mishap);
            }
            world.send_surely(key, &text).await;
            texts.push(text);
        }
        world.crash().await;
    }
    let last = world.send_surely(key, "the last").await;
    texts.push("the last".to_owned());
    world.until_message(&last, Delivery::Written).await;
    assert_eq!(world.received(key), texts);
    assert_eq!(world.host.machine().spawns, [key]);
}

#[tokio::test]
async fn s7_a_crash_around_the_start_starts_it_once() {
    for mishap in [Mishap::Lost, Mishap::Dropped] {
        let mut world = World::new();
        world.host.machine().spawn_mishaps.push_back(mishap);
        let key = world.start(Some("hello")).await;
        world.crash().await;
        world.until(key.session, alive).await;
        assert_eq!(world.host.machine().spawns, [key]);
        eventually("the prompt arrives", async || {
            (world.received(key) == ["hello"]).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn r2_output_goes_on_at_the_committed_cursor() {
    let mut world = World::new();
    let key = world.started(None).await;
    let mut whole = String::new();
    for round in 0..5 {
        let text = format!("line {round}\nhalf");
        world.host.print(key, &text);
        whole.push_str(&text);
        let size = whole.len() as u64;
        if round % 2 == 0 {
            world
                .until(key.session, |state| state.run.consumed == size)
                .await;
        }
        world.crash().await;
    }
    world.host.exit(key, 0, false);
    world.until(key.session, over).await;
    let messages = world.messages(key.session).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].body, Body::Text(whole));
    let follows = world.host.machine().follows.clone();
    assert!(
        follows.contains(&Start::Cursor(b"11".to_vec())),
        "{follows:?}"
    );
}

#[tokio::test]
async fn r3_a_shutdown_commits_what_is_folded() {
    let mut world = World::new();
    let key = world.started(None).await;
    // The first piece of a message is committed at once, what follows within a second.
    world.host.print(key, "not a");
    world
        .until(key.session, |state| state.run.consumed == 5)
        .await;
    world.host.print(key, " second old\n");
    let live = world.sessions.live(key.session).unwrap();
    eventually("it is folded", async || {
        live.borrow().growing.clone().map(|_| ())
    })
    .await;
    let old = world.sessions.clone();
    world.restart().await;
    assert_eq!(world.stored(key.session).await.run.consumed, 17);
    let fault = old.stop(key.session, false).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::ShuttingDown);
    let fault = old.start(new(None)).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::ShuttingDown);
}

#[tokio::test]
async fn s35_a_thousand_sessions_come_back_and_no_row_is_written() {
    let mut world = World::new();
    let starts = (0..1_000).map(|_| world.start(None));
    let keys = futures_util::future::join_all(starts).await;
    for key in &keys {
        world.until(key.session, alive).await;
    }
    world.restart().await;
    let commits = world.store.commits();
    assert_eq!(world.sessions.len(), 1_000);
    let clock = muster_runtime::Clock::system();
    clock
        .timeout(PATIENCE, world.sessions.reconciled())
        .await
        .unwrap();
    for key in &keys {
        let live = world.sessions.live(key.session).unwrap();
        assert_eq!(live.borrow().state.run.process.value, Process::Alive);
    }
    assert_eq!(world.store.commits(), commits);
    assert_eq!(world.host.machine().spawns.len(), 1_000);
}

#[tokio::test]
async fn s35_sessions_of_a_host_that_is_not_reached_are_unknown() {
    let mut world = World::new();
    let key = world.started(None).await;
    world.host.set_link(Link::Connecting);
    world.restart().await;
    let clock = muster_runtime::Clock::system();
    let waits = clock
        .timeout(Duration::from_millis(50), world.sessions.reconciled())
        .await;
    assert!(waits.is_err());
    let live = world.sessions.live(key.session).unwrap();
    assert_eq!(live.borrow().state.run.process.value, Process::Unknown);
    world.host.set_link(Link::Unreachable);
    clock
        .timeout(PATIENCE, world.sessions.reconciled())
        .await
        .unwrap();
    // It ended meanwhile.
    world.host.exit(key, 3, false);
    assert!(!world.stored(key.session).await.is_over());
    world.host.set_link(Link::Connected);
    world.until(key.session, over).await;
}

#[tokio::test]
async fn s35_a_restart_while_nobody_can_be_asked_restores_nothing_twice() {
    let mut world = World::new();
    let key = world.started(None).await;
    world.restart().await;
    let again = world.sessions.restore(&WorkspaceId::main()).await.unwrap();
    assert_eq!(again, 1);
    assert_eq!(world.sessions.len(), 1);
    let sent = world.send(key, "still there").await.unwrap();
    world.until_message(&sent, Delivery::Written).await;
}
