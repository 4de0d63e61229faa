//! From the start to the end of a run.

use muster_coordinator::sessions::api::SessionsApi as _;
use muster_domain::{
    Reason,
    message::{Body, Kind},
    session::{Launch, Outcome},
    task::Phase,
};

use super::{
    host::Mishap,
    kit::{World, a_task, alive, eventually, new, new_for, over},
};

#[tokio::test]
async fn s7_a_run_from_start_to_exit() {
    let world = World::new();
    let key = world.started(None).await;
    world.host.print(key, "one\n");
    world.host.print(key, "two\n");
    world.host.exit(key, 0, false);
    let state = world.until(key.session, over).await;
    assert_eq!(state.outcome(), Some(Outcome::Completed));
    assert_eq!(state.run.consumed, 8);
    let messages = world.messages(key.session).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].kind, Kind::Output);
    assert_eq!(messages[0].body, Body::Text("one\ntwo\n".to_owned()));
    assert!(messages[0].complete);
    eventually("the actor ends", async || {
        world.sessions.is_empty().then_some(())
    })
    .await;
    assert!(world.sessions.live(key.session).is_none());
}

#[tokio::test]
async fn s7_an_unanswered_start_is_asked_for_and_not_repeated() {
    let world = World::new();
    world.host.machine().spawn_mishaps.push_back(Mishap::Lost);
    let key = world.started(None).await;
    assert_eq!(world.host.machine().spawns, [key]);
}

#[tokio::test]
async fn s7_a_start_that_never_arrived_is_made_again() {
    let world = World::new();
    world
        .host
        .machine()
        .spawn_mishaps
        .push_back(Mishap::Dropped);
    let key = world.started(None).await;
    assert_eq!(world.host.machine().spawns, [key]);
}

#[tokio::test]
async fn s8_a_refused_start_is_a_failed_session() {
    let world = World::new();
    let refused = Mishap::Refused(Reason::CwdMissing);
    world.host.machine().spawn_mishaps.push_back(refused);
    let key = world.start(None).await;
    let state = world.until(key.session, over).await;
    assert_eq!(state.run.launch.value, Launch::Failed);
    assert_eq!(state.run.failure.unwrap().reason, "CWD_MISSING");
}

#[tokio::test]
async fn s14_a_start_key_is_used_once_and_an_unknown_host_is_refused() {
    let world = World::new();
    let one = new(None);
    let mut two = new(None);
    two.spec.client_key.clone_from(&one.spec.client_key);
    world.sessions.start(one).await.unwrap();
    let fault = world.sessions.start(two).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::KeyReused);
    let mut nowhere = new(None);
    nowhere.spec.host = muster_domain::HostId::new(uuid::Uuid::from_u128(1));
    let fault = world.sessions.start(nowhere).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::HostNotFound);
    let fault = world.sessions.stop(new(None).spec.id, false).await;
    assert_eq!(fault.unwrap_err().reason(), Reason::SessionNotFound);
}

#[tokio::test]
async fn s38_the_task_moves_with_the_session_in_the_same_commit() {
    let world = World::new();
    world.put_task(1, 0, &a_task()).await;
    let task = world.task(1).await;
    let state = world.sessions.start(new_for(task)).await.unwrap();
    let session = state.spec.id;
    let begun = world.task(1).await;
    assert_eq!(begun.phase, Phase::InProgress);
    assert_eq!(begun.exec_session, Some(session));
    world.until(session, alive).await;
    // Somebody else moves the row meanwhile.
    let mut other = begun.clone();
    other.title = "renamed".to_owned();
    world.put_task(1, begun.version, &other).await;
    world.host.exit(super::kit::first(session), 1, false);
    world.until(session, over).await;
    let ended = world.task(1).await;
    assert_eq!(ended.phase, Phase::AwaitHumanAction);
    assert_eq!(ended.exec_session, None);
    assert_eq!(ended.title, "renamed");
    assert!(ended.needs_attention);
}

#[tokio::test]
async fn s38_a_resume_takes_its_slot_back_or_says_who_has_it() {
    let world = World::new();
    world.put_task(1, 0, &a_task()).await;
    let task = world.task(1).await;
    let first = world.sessions.start(new_for(task)).await.unwrap().spec.id;
    world.until(first, alive).await;
    world.host.exit(super::kit::first(first), 0, false);
    world.until(first, over).await;
    assert_eq!(world.task(1).await.exec_session, None);
    let task = world.task(1).await;
    let second = world.sessions.start(new_for(task)).await.unwrap().spec.id;
    world.until(second, alive).await;
    let resume = async |key: &str| world.sessions.resume(first, key.to_owned()).await;
    let fault = resume("r").await.unwrap_err();
    assert_eq!(fault.reason(), Reason::SlotOccupied);
    assert_eq!(fault.metadata()["occupant"], second.to_string());
    assert_eq!(world.stored(first).await.run.no, 1, "nothing was started");
    world.host.exit(super::kit::first(second), 0, false);
    world.until(second, over).await;
    let resumed = resume("r").await.unwrap();
    assert_eq!(resumed.state.run.no, 2);
    let task = world.task(1).await;
    assert_eq!(
        task.exec_session,
        Some(first),
        "in the commit of the resume"
    );
    assert_eq!(task.phase, Phase::InProgress);
}

#[tokio::test]
async fn s38_a_start_over_a_task_that_moved_is_refused_whole() {
    let world = World::new();
    world.put_task(1, 0, &a_task()).await;
    let new = new_for(world.task(1).await);
    let session = new.spec.id;
    let task = world.task(1).await;
    world.put_task(1, task.version, &task).await;
    let fault = world.sessions.start(new).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::VersionMismatch);
    eventually("the actor ends", async || {
        world.sessions.is_empty().then_some(())
    })
    .await;
    assert!(world.sessions.live(session).is_none());
    assert!(world.host.machine().spawns.is_empty());
}

#[tokio::test]
async fn f16_growing_text_is_shown_before_it_is_committed() {
    let world = World::new();
    let key = world.started(None).await;
    let live = world.sessions.live(key.session).unwrap();
    world.host.print(key, "first ");
    world
        .until(key.session, |state| state.run.consumed == 6)
        .await;
    world.host.print(key, "second");
    eventually("it is shown before it is committed", async || {
        let growing = live.borrow().growing.clone()?;
        (growing.from == 6 && &*growing.text == "second").then_some(())
    })
    .await;
}
