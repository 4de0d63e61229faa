//! A coordinator's actors, their store and their host.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_coordinator::{
    hosts::{Hosts, api::RunKey},
    sessions::{
        Parts, Sessions,
        api::{NewSession, SendMode, Sending, SessionsApi},
    },
    store::{Sessions as _, Store as _, Tasks as _},
};
use muster_domain::{
    Fault, HostId, SessionId, TaskId, Timestamp, WorkspaceId,
    changeset::{Changeset, Versioned},
    message::{Delivery, Message},
    page::Request,
    session::{Access, Adapter, Input, Slot, Spec, State},
    task::{New, Task},
};
use muster_runtime::{Clock, Tasks};
use uuid::Uuid;

use super::{flaky::Flaky, host::FakeHost};

/// Deadline of everything that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Everything of one test.
pub struct World {
    pub store: Arc<Flaky>,
    pub host: Arc<FakeHost>,
    pub sessions: Sessions,
    hosts: Hosts,
    tasks: Tasks,
}

impl World {
    pub fn new() -> Self {
        let host = FakeHost::new(HostId::new(Uuid::from_u128(77)));
        let hosts = Hosts::default();
        hosts.insert_api(host.clone());
        let store = Flaky::new();
        let (tasks, sessions) = actors(&store, &hosts);
        Self {
            store,
            host,
            sessions,
            hosts,
            tasks,
        }
    }

    /// Ends the coordinator where it stands: nothing more of it is committed.
    pub async fn crash(&mut self) {
        self.store.let_through(false);
        let _ = self.tasks.shutdown(Duration::ZERO).await;
        self.store.let_through(true);
        self.rise().await;
    }

    /// Ends the coordinator in order.
    pub async fn restart(&mut self) {
        self.sessions.shutdown(PATIENCE).await.unwrap();
        self.rise().await;
    }

    async fn rise(&mut self) {
        (self.tasks, self.sessions) = actors(&self.store, &self.hosts);
        self.sessions.restore(&WorkspaceId::main()).await.unwrap();
    }

    /// Starts a session; its first run.
    pub async fn start(&self, prompt: Option<&str>) -> RunKey {
        let state = self.sessions.start(new(prompt)).await.unwrap();
        first(state.spec.id)
    }

    /// Starts a session, and waits until its program runs and is followed.
    pub async fn started(&self, prompt: Option<&str>) -> RunKey {
        let key = self.start(prompt).await;
        self.until(key.session, |state| {
            !state.run.process.rule.is_empty() && alive(state)
        })
        .await;
        key
    }

    pub async fn send(&self, key: RunKey, text: &str) -> Result<Message, Fault> {
        let sent = self.sessions.send(key.session, sending(text)).await;
        sent.map(|sent| sent.message)
    }

    /// Sends as a client does: again with the same key while the store cannot be reached.
    pub async fn send_surely(&self, key: RunKey, text: &str) -> Message {
        eventually("the message is accepted", async || {
            self.send(key, text).await.ok()
        })
        .await
    }

    pub async fn stored(&self, session: SessionId) -> State {
        self.store.session(session).await.unwrap().unwrap()
    }

    /// Waits until the stored state is so.
    pub async fn until(&self, session: SessionId, is: impl Fn(&State) -> bool) -> State {
        eventually("the session comes to a state", async || {
            let state = self.store.session(session).await.unwrap();
            state.filter(|state| is(state))
        })
        .await
    }

    /// Waits until the message is so.
    pub async fn until_message(&self, message: &Message, state: Delivery) {
        use muster_coordinator::store::Messages as _;
        eventually("the message comes to a state", async || {
            let found = self.store.message(message.id).await.unwrap().unwrap();
            (found.sent.unwrap().state == state).then_some(())
        })
        .await;
    }

    /// All messages, in order.
    pub async fn messages(&self, session: SessionId) -> Vec<Message> {
        use muster_coordinator::store::Messages as _;
        let page = Request {
            size: 1_000,
            token: String::new(),
        };
        self.store.messages(session, &page).await.unwrap().items
    }

    /// What reached the program, in order.
    pub fn received(&self, key: RunKey) -> Vec<String> {
        self.host.change(key, |run| {
            let texts = run.received.iter().map(|(_, text)| text.trim_end());
            texts.map(str::to_owned).collect()
        })
    }

    pub async fn put_task(&self, id: u128, expected: u64, task: &Task) {
        let mut changeset = Changeset::new(WorkspaceId::main());
        let mut row = task.clone();
        row.id = TaskId::new(Uuid::from_u128(id));
        row.version = expected + 1;
        changeset.tasks.push(Versioned { expected, row });
        self.store.commit(vec![changeset]).await.remove(0).unwrap();
    }

    pub async fn task(&self, id: u128) -> Task {
        let id = TaskId::new(Uuid::from_u128(id));
        self.store.task(id).await.unwrap().unwrap()
    }
}

fn actors(store: &Arc<Flaky>, hosts: &Hosts) -> (Tasks, Sessions) {
    let tasks = Tasks::new("test");
    let sessions = Sessions::new(Parts {
        store: store.clone(),
        hosts: Arc::new(hosts.clone()),
        clock: Clock::system(),
        tasks: tasks.clone(),
    });
    (tasks, sessions)
}

pub fn first(session: SessionId) -> RunKey {
    RunKey { session, run: 1 }
}

pub fn alive(state: &State) -> bool {
    state.run.process.value == muster_domain::session::Process::Alive
}

pub fn over(state: &State) -> bool {
    state.is_over()
}

pub fn sending(text: &str) -> Sending {
    Sending {
        client_key: format!("key of {text}"),
        text: text.to_owned(),
        mode: SendMode::Queue,
        if_turn: String::new(),
        images: 0,
        source: Input::Cli,
    }
}

/// A session that is to be, with a key of its own.
pub fn new(prompt: Option<&str>) -> NewSession {
    let id = SessionId::new(Uuid::now_v7());
    NewSession {
        spec: Spec {
            id,
            workspace: WorkspaceId::main(),
            task: None,
            slot: None,
            parent: None,
            root: id,
            host: HostId::new(Uuid::from_u128(77)),
            cwd: "/".to_owned(),
            adapter: Adapter::Generic,
            argv: vec!["program".to_owned()],
            env: BTreeMap::new(),
            title: "a session".to_owned(),
            access: Access::Workspace,
            source: Input::Cli,
            internal: false,
            client_key: format!("start {id}"),
            created_at: Timestamp(1),
        },
        task: None,
        prompt: prompt.map(str::to_owned),
    }
}

/// The same for the exec slot of a task.
pub fn new_for(mut task: Task) -> NewSession {
    let mut new = new(None);
    new.spec.task = Some(task.id);
    new.spec.slot = Some(Slot::Exec);
    task.exec_session = Some(new.spec.id);
    task.sessions.push(new.spec.id);
    let expected = task.version;
    task.version += 1;
    new.task = Some(Versioned {
        expected,
        row: task,
    });
    new
}

pub fn a_task() -> Task {
    let new = New {
        title: "a task".to_owned(),
        client_key: "task".to_owned(),
        ..New::default()
    };
    let id = TaskId::new(Uuid::from_u128(1));
    new.create(id, WorkspaceId::main(), Timestamp(1)).unwrap()
}

/// Waits until `what` gives something.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let clock = Clock::system();
    let end = clock.boottime() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(clock.boottime() < end, "not in time: {what}");
        clock.sleep(Duration::from_millis(5)).await;
    }
}
