//! Tests of the actors, over a store in memory and a host that is none.

mod fake;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_domain::{
    Reason, SessionId, TaskId, Timestamp, WorkspaceId,
    changeset::{Changeset, Versioned},
    message::{Body, Delivery, Kind},
    page,
    session::{Access, Adapter, Attention, Input, Launch, Link, Slot, Spec, State, Status, status},
    task::{self, Phase, Task},
};
use muster_runtime::{Clock, Tasks};
use uuid::Uuid;

use super::{
    Parts, Sessions,
    api::{NewSession, Sending, SessionsApi as _},
};
use crate::store::{self, MemoryStore};
use fake::{FakeHost, FakeHosts};

/// A coordinator's worth of actors, which can die and come back.
struct World {
    store: store::Handle,
    host: Arc<FakeHost>,
    clock: Clock,
    tasks: Tasks,
    sessions: Sessions,
}

impl World {
    fn new() -> Self {
        let clock = Clock::system();
        let store: store::Handle = Arc::new(MemoryStore::new(clock.clone()));
        let host = FakeHost::new();
        let (tasks, sessions) = coordinator(&store, &host, &clock);
        Self {
            store,
            host,
            clock,
            tasks,
            sessions,
        }
    }

    /// The coordinator ends, with or without time to end well, and another one begins.
    async fn restart(&mut self, grace: Duration) {
        let _ = self.tasks.shutdown(grace).await;
        (self.tasks, self.sessions) = coordinator(&self.store, &self.host, &self.clock);
        let workspace = WorkspaceId::main();
        self.sessions.restore(&workspace).await.unwrap();
    }

    async fn start(&self, key: &str) -> SessionId {
        let state = self.sessions.start(new(key)).await.unwrap();
        state.spec.id
    }

    /// The session's row, once `holds` is true of it.
    async fn until(&self, id: SessionId, holds: impl Fn(&State) -> bool) -> State {
        let mut heads = self.store.heads(&WorkspaceId::main());
        let waited = self.clock.timeout(Duration::from_secs(60), async {
            loop {
                heads.mark_unchanged();
                if let Some(state) = self.store.session(id).await.unwrap()
                    && holds(&state)
                {
                    return state;
                }
                // Not every commit moves the feed, so it is looked at now and then too.
                let again = self
                    .clock
                    .timeout(Duration::from_millis(200), heads.changed());
                let _ = again.await;
            }
        });
        match waited.await {
            Ok(state) => state,
            Err(_) => panic!("not so: {:?}", self.store.session(id).await),
        }
    }

    async fn running(&self, key: &str) -> SessionId {
        let id = self.start(key).await;
        self.until(id, |s| s.run.launch.value == Launch::Confirmed)
            .await;
        id
    }

    async fn messages(&self, id: SessionId) -> Vec<muster_domain::message::Message> {
        let request = page::Request {
            size: 1_000,
            token: String::new(),
        };
        self.store.messages(id, &request).await.unwrap().items
    }

    async fn output(&self, id: SessionId) -> String {
        let messages = self.messages(id).await.into_iter();
        let output = messages.filter(|message| message.kind == Kind::Output);
        output
            .map(|message| match message.body {
                Body::Text(text) => text,
                Body::Reference { .. } => String::new(),
            })
            .collect()
    }

    fn received(&self, id: SessionId) -> Vec<String> {
        let run = self.host.run(id, 1).unwrap();
        let texts = run.received.into_iter();
        texts
            .map(|(_, text)| String::from_utf8(text).unwrap())
            .collect()
    }

    async fn written(&self, id: SessionId, count: usize) {
        self.until(id, |s| s.accepted as usize >= count && s.waiting == 0)
            .await;
    }
}

fn coordinator(store: &store::Handle, host: &Arc<FakeHost>, clock: &Clock) -> (Tasks, Sessions) {
    let tasks = Tasks::new("test");
    let sessions = Sessions::new(Parts {
        store: store.clone(),
        hosts: Arc::new(FakeHosts(host.clone())),
        clock: clock.clone(),
        tasks: tasks.clone(),
    });
    (tasks, sessions)
}

fn new(key: &str) -> NewSession {
    let id = SessionId::new(Uuid::now_v7());
    let spec = Spec {
        id,
        workspace: WorkspaceId::main(),
        task: None,
        slot: None,
        parent: None,
        root: id,
        host: FakeHost::host_id(),
        cwd: "/".to_owned(),
        adapter: Adapter::Generic,
        argv: vec!["cat".to_owned()],
        env: BTreeMap::new(),
        title: "cat".to_owned(),
        access: Access::Workspace,
        source: Input::Cli,
        internal: false,
        client_key: key.to_owned(),
        created_at: Timestamp(1),
    };
    NewSession {
        spec,
        task: None,
        prompt: None,
    }
}

fn sending(key: &str, text: &str) -> Sending {
    Sending {
        client_key: key.to_owned(),
        text: text.to_owned(),
        mode: super::api::SendMode::Queue,
        if_turn: String::new(),
        images: 0,
        source: Input::Cli,
    }
}

fn word(state: &State) -> Status {
    status(state, Attention::None, state.last_activity).0
}

#[tokio::test]
async fn a_session_lives_from_start_to_exit_and_its_actor_ends() {
    let world = World::new();
    let mut start = new("a");
    start.prompt = Some("hello".to_owned());
    let id = world.sessions.start(start).await.unwrap().spec.id;
    world.written(id, 1).await;
    world.host.print(id, "one\ntwo\n");
    world.host.end(id, Some(0), false);
    let state = world.until(id, State::is_over).await;
    assert_eq!(word(&state), Status::Exited);
    assert_eq!(world.received(id), ["hello\n"]);
    assert_eq!(world.output(id).await, "one\ntwo\n");
    assert_eq!(world.host.run(id, 1).unwrap().spawns, 1);
    let ended = world.clock.timeout(Duration::from_secs(60), async {
        while world.sessions.live(id).is_some() {
            world.clock.sleep(Duration::from_millis(5)).await;
        }
    });
    ended.await.unwrap();
    let fault = world.sessions.send(id, sending("k", "late")).await;
    assert_eq!(fault.unwrap_err().reason(), Reason::RunEnded);
    let again = world
        .sessions
        .send(id, sending("a", "hello"))
        .await
        .unwrap();
    assert!(again.replayed);
    assert_eq!(again.message.sent.unwrap().state, Delivery::Written);
}

#[tokio::test]
async fn r3_what_is_answered_is_in_the_store() {
    let world = World::new();
    let id = world.running("a").await;
    for number in 0..20 {
        let key = format!("k{number}");
        let sent = world.sessions.send(id, sending(&key, &key)).await.unwrap();
        let stored = world.store.message(sent.message.id).await.unwrap();
        assert_eq!(stored.unwrap().sent.unwrap().client_key, key);
    }
    world.written(id, 20).await;
    let expected: Vec<_> = (0..20).map(|number| format!("k{number}\n")).collect();
    assert_eq!(world.received(id), expected);
}

#[tokio::test]
async fn s19_each_message_once_in_order_over_crashes_and_lost_answers() {
    let mut world = World::new();
    let id = world.running("a").await;
    let mut expected = Vec::new();
    for number in 0..30 {
        let key = format!("k{number}");
        if number % 4 == 1 {
            world.host.leave_unanswered(2);
        }
        loop {
            match world.sessions.send(id, sending(&key, &key)).await {
                Ok(_) => break,
                Err(fault) => assert_eq!(fault.reason(), Reason::ShuttingDown),
            }
        }
        expected.push(format!("{key}\n"));
        if number % 5 == 2 {
            world.restart(Duration::ZERO).await;
        }
        if number % 7 == 3 {
            world.host.link_is(Link::Unreachable);
            world.host.link_is(Link::Connected);
        }
    }
    world.written(id, 30).await;
    assert_eq!(world.received(id), expected);
}

#[tokio::test]
async fn s35_a_restart_goes_on_at_the_cursor() {
    let mut world = World::new();
    let id = world.running("a").await;
    world.host.print(id, "one\n");
    world.until(id, |s| s.run.consumed == 4).await;
    let before = world.store.session(id).await.unwrap().unwrap();
    world.restart(Duration::from_secs(30)).await;
    world.host.print(id, "two\n");
    let after = world.until(id, |s| s.run.consumed == 8).await;
    assert_eq!(after.run.process, before.run.process);
    assert_eq!(world.output(id).await, "one\ntwo\n");
    assert_eq!(world.sessions.count(FakeHost::host_id()), 1);
}

async fn eventually_output(world: &World, id: SessionId, text: &str) {
    let until = world.clock.boottime() + Duration::from_secs(60);
    while world.output(id).await != text {
        assert!(world.clock.boottime() < until, "{text:?} is not stored");
        world.clock.sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn what_is_in_hand_is_committed_at_the_shutdown() {
    let world = World::new();
    let id = world.running("a").await;
    let mut live = world.sessions.live(id).unwrap();
    // The first piece of a message is committed at once, what follows within a second.
    world.host.print(id, "ab");
    eventually_output(&world, id, "ab").await;
    world.host.print(id, "c");
    let seen = live.wait_for(|live| live.growing.as_ref().is_some_and(|g| &*g.text == "c"));
    world
        .clock
        .timeout(Duration::from_secs(60), seen)
        .await
        .unwrap()
        .unwrap();
    world.tasks.shutdown(Duration::from_secs(60)).await.unwrap();
    assert_eq!(world.output(id).await, "abc");
    let fault = world
        .sessions
        .send(id, sending("k", "x"))
        .await
        .unwrap_err();
    assert_eq!(fault.reason(), Reason::ShuttingDown);
}

#[tokio::test]
async fn a_failed_commit_drops_what_is_in_hand_and_loads_the_session_again() {
    let world = World::new();
    let id = world.running("a").await;
    // Somebody else writes the row.
    let state = world.store.session(id).await.unwrap().unwrap();
    let mut foreign = Changeset::new(WorkspaceId::main());
    let expected = state.version;
    let row = State {
        version: expected + 1,
        ..state
    };
    foreign.session = Some(Versioned { expected, row });
    world.store.commit(vec![foreign]).await.remove(0).unwrap();
    let fault = world
        .sessions
        .send(id, sending("k", "x"))
        .await
        .unwrap_err();
    assert_eq!(fault.reason(), Reason::StoreUnavailable);
    // Not accepted, so it may be said again.
    loop {
        match world.sessions.send(id, sending("k", "x")).await {
            Ok(sent) => {
                assert!(!sent.replayed);
                break;
            }
            Err(fault) => assert_eq!(fault.reason(), Reason::StoreUnavailable),
        }
    }
    world.written(id, 1).await;
    assert_eq!(world.received(id), ["x\n"]);
}

#[tokio::test]
async fn s31_a_cut_link_loses_nothing() {
    let world = World::new();
    let id = world.running("a").await;
    world.host.print(id, "one\n");
    world.until(id, |s| s.run.consumed == 4).await;
    world.host.link_is(Link::Unreachable);
    let state = world.until(id, |s| word(s) == Status::Unreachable).await;
    assert!(state.open_turn().is_some());
    let sent = world.sessions.send(id, sending("k", "x")).await.unwrap();
    assert_eq!(sent.position, 1);
    let fault = world.sessions.stop(id, false).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::HostUnreachable);
    world.host.print(id, "two\n");
    world.host.link_is(Link::Connected);
    world
        .until(id, |s| s.run.consumed == 8 && s.waiting == 0)
        .await;
    assert_eq!(world.output(id).await, "one\ntwo\n");
    assert_eq!(world.received(id), ["x\n"]);
}

#[tokio::test]
async fn s39_a_stop_is_answered_when_it_is_stored_and_then_done() {
    let world = World::new();
    let id = world.running("a").await;
    let control = world.sessions.stop(id, false).await.unwrap();
    assert!(!control.already_ended);
    let state = world.until(id, State::is_over).await;
    assert_eq!(word(&state), Status::Stopped);
    assert!(world.sessions.stop(id, false).await.unwrap().already_ended);
    assert!(world.sessions.interrupt(id).await.unwrap().already_ended);
    let resumed = world.sessions.resume(id, "r".to_owned()).await.unwrap();
    assert_eq!(resumed.state.run.no, 2);
    assert!(
        world
            .sessions
            .resume(id, "r".to_owned())
            .await
            .unwrap()
            .replayed
    );
}

#[tokio::test]
async fn s38_the_task_moves_with_the_session() {
    let world = World::new();
    let task = task::New {
        title: "t".to_owned(),
        client_key: "t".to_owned(),
        ..task::New::default()
    };
    let id = TaskId::new(Uuid::now_v7());
    let mut row = task.create(id, WorkspaceId::main(), Timestamp(1)).unwrap();
    let mut start = new("a");
    let session = start.spec.id;
    start.spec.task = Some(id);
    start.spec.slot = Some(Slot::Exec);
    row.exec_session = Some(session);
    row.sessions.push(session);
    row.version = 1;
    start.task = Some(Versioned { expected: 0, row });
    world.sessions.start(start).await.unwrap();
    let task = |state: Option<Task>| state.unwrap();
    let begun = task(world.store.task(id).await.unwrap());
    assert_eq!(begun.phase, Phase::InProgress);
    world
        .until(session, |s| s.run.launch.value == Launch::Confirmed)
        .await;
    // A person moves the row meanwhile.
    let mut moved = begun.clone();
    moved.description = "more".to_owned();
    moved.version += 1;
    let mut changeset = Changeset::new(WorkspaceId::main());
    changeset.tasks.push(Versioned {
        expected: begun.version,
        row: moved,
    });
    world.store.commit(vec![changeset]).await.remove(0).unwrap();
    world.host.end(session, Some(0), false);
    world.until(session, State::is_over).await;
    let done = task(world.store.task(id).await.unwrap());
    assert_eq!(
        (done.phase, done.exec_session),
        (Phase::AgentComplete, None)
    );
    assert_eq!(done.description, "more");
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let world = World::new();
    let nobody = SessionId::new(Uuid::now_v7());
    let fault = world.sessions.send(nobody, sending("k", "x")).await;
    assert_eq!(fault.unwrap_err().reason(), Reason::SessionNotFound);
    world.running("a").await;
    let fault = world.sessions.start(new("a")).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::KeyReused);
    let mut multiline = new("b");
    multiline.prompt = Some("a\nb".to_owned());
    let fault = world.sessions.start(multiline).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::MultilineText);
    world.host.refuse_starts(Reason::CwdMissing);
    let id = world.start("c").await;
    let state = world.until(id, State::is_over).await;
    assert_eq!(word(&state), Status::Failed);
    assert_eq!(state.run.failure.unwrap().reason, "CWD_MISSING");
    world.tasks.shutdown(Duration::from_secs(60)).await.unwrap();
    assert!(world.sessions.is_empty());
}
