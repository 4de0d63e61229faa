//! Stop, interrupt, resume.

use muster_coordinator::{
    hosts::api::{Found, RunKey},
    sessions::api::SessionsApi as _,
};
use muster_domain::{
    Reason,
    session::{Identity, Link, Outcome, Process},
};

use super::{
    host::Mishap,
    kit::{World, alive, eventually, over},
};

#[tokio::test]
async fn s39_a_stop_climbs_the_ladder_and_ends_as_stopped() {
    let world = World::new();
    let key = world.started(None).await;
    let told = world.sessions.stop(key.session, false).await.unwrap();
    assert!(!told.already_ended);
    assert!(told.state.is_stopping());
    let state = world.until(key.session, over).await;
    assert_eq!(state.outcome(), Some(Outcome::Interrupted));
    let rungs = world.host.change(key, |run| run.stops[0].rungs.len());
    assert_eq!(rungs, 4);
    let again = world.sessions.stop(key.session, false).await.unwrap();
    assert!(again.already_ended);
}

#[tokio::test]
async fn s39_an_interrupt_is_one_signal() {
    let world = World::new();
    let key = world.started(None).await;
    let told = world.sessions.interrupt(key.session).await.unwrap();
    assert!(!told.already_ended);
    eventually("the signal arrives", async || {
        let signals = world.host.change(key, |run| run.signals.clone());
        (signals == [2]).then_some(())
    })
    .await;
    // One that is lost is not repeated: the caller sees that nothing happened.
    world
        .host
        .machine()
        .signal_mishaps
        .push_back(Mishap::Dropped);
    world.sessions.interrupt(key.session).await.unwrap();
    world.host.exit(key, 0, false);
    world.until(key.session, over).await;
    assert_eq!(world.host.change(key, |run| run.signals.len()), 1);
    let late = world.sessions.interrupt(key.session).await.unwrap();
    assert!(late.already_ended);
}

#[tokio::test]
async fn s10_a_resume_is_the_next_run_once_per_key() {
    let world = World::new();
    let key = world.started(None).await;
    let fault = world.sessions.resume(key.session, "r".to_owned()).await;
    assert_eq!(fault.unwrap_err().reason(), Reason::SessionAlive);
    world.host.exit(key, 0, false);
    world.until(key.session, over).await;
    let resumed = world.sessions.resume(key.session, "r".to_owned()).await;
    assert_eq!(resumed.unwrap().state.run.no, 2);
    world
        .until(key.session, |state| state.run.no == 2 && alive(state))
        .await;
    let again = world.sessions.resume(key.session, "r".to_owned()).await;
    assert!(again.unwrap().replayed);
    let second = RunKey { run: 2, ..key };
    let sent = world.send(second, "to the second").await.unwrap();
    world
        .until_message(&sent, muster_domain::message::Delivery::Written)
        .await;
    assert_eq!(world.received(second), ["to the second"]);
    assert_eq!(world.host.machine().spawns, [key, second]);
}

#[tokio::test]
async fn s9_nothing_is_resumed_beside_a_living_process() {
    let world = World::new();
    let key = world.started(None).await;
    world.host.exit(key, 0, false);
    world.until(key.session, over).await;
    let other = Identity {
        boot: "boot".to_owned(),
        pid: 4_711,
        ticks: 9,
    };
    world.host.machine().processes.push(Found {
        identity: other,
        run: 1,
        name: "program".to_owned(),
    });
    let fault = world.sessions.resume(key.session, "r".to_owned()).await;
    assert_eq!(fault.unwrap_err().reason(), Reason::SessionAlive);
    world.host.machine().processes.clear();
    world.host.set_link(Link::Unreachable);
    let fault = world.sessions.resume(key.session, "r".to_owned()).await;
    assert_eq!(fault.unwrap_err().reason(), Reason::HostUnreachable);
    world.host.set_link(Link::Connected);
    world
        .sessions
        .resume(key.session, "r".to_owned())
        .await
        .unwrap();
}

#[tokio::test]
async fn s31_a_lost_link_changes_nothing_but_what_is_known() {
    let world = World::new();
    let key = world.started(None).await;
    world.host.print(key, "before ");
    world
        .until(key.session, |state| state.run.consumed == 7)
        .await;
    world.host.set_link(Link::Unreachable);
    let state = world
        .until(key.session, |state| !state.link.value.is_up())
        .await;
    assert_eq!(state.run.process.value, Process::Unknown);
    assert_eq!(state.outcome(), None);
    let waits = world.send(key, "waits").await.unwrap();
    let fault = world.sessions.stop(key.session, false).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::HostUnreachable);
    world.host.print(key, "after");
    world.host.set_link(Link::Connected);
    world
        .until(key.session, |state| state.run.consumed == 12)
        .await;
    world
        .until_message(&waits, muster_domain::message::Delivery::Written)
        .await;
    assert_eq!(world.received(key), ["waits"]);
    assert_eq!(world.host.machine().spawns, [key]);
}

#[tokio::test]
async fn sessions_of_a_host_are_counted() {
    let world = World::new();
    let one = world.started(None).await;
    world.started(None).await;
    let host = muster_coordinator::hosts::api::HostApi::id(&*world.host);
    assert_eq!(world.sessions.count(host), 2);
    world.host.exit(one, 0, false);
    eventually("one is over", async || {
        (world.sessions.count(host) == 1).then_some(())
    })
    .await;
}
