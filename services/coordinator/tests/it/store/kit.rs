//! Rows to store, and stores to put them into.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use muster_coordinator::store::{Handle, MemoryStore, SqliteStore, Store};
use muster_domain::{
    HostId, MessageId, SessionId, TaskId, Timestamp, TurnId, WorkspaceId,
    changeset::{Changeset, Chunk, Committed, Conflict, Versioned},
    delivery::{self, Delivery, Progress},
    feed::{Audience, Change, Event},
    host::{Dialler, Host},
    id::At,
    message::{self, Body, Message, Sent},
    session::{
        Access, Adapter, Input, Launch, Link, Observed, Process, Run, Source, Spec, State, Turn,
    },
    task::{Phase, Task},
};
use muster_runtime::Clock;
use tempfile::TempDir;

/// A store, and the folder that goes with it.
pub struct Opened {
    pub handle: Handle,
    _dir: Option<TempDir>,
}

impl Opened {
    pub fn memory() -> Self {
        Self {
            handle: Arc::new(MemoryStore::new(Clock::system())),
            _dir: None,
        }
    }

    pub async fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let handle = open(&dir.path().join("muster.db")).await;
        Self {
            handle,
            _dir: Some(dir),
        }
    }
}

pub async fn open(path: &Path) -> Handle {
    Arc::new(SqliteStore::open(path, Clock::system()).await.unwrap())
}

/// Commits one changeset.
pub async fn commit(store: &dyn Store, changeset: Changeset) -> Result<Committed, Conflict> {
    store.commit(vec![changeset]).await.pop().unwrap()
}

/// Commits one changeset that must go in; gives the revision.
pub async fn put(store: &dyn Store, changeset: Changeset) -> u64 {
    commit(store, changeset).await.unwrap().revision
}

pub fn main() -> WorkspaceId {
    WorkspaceId::main()
}

pub fn changes() -> Changeset {
    Changeset::new(main())
}

/// An id whose text begins with the number in eight hexadecimal digits.
pub fn uuid(n: u32) -> uuid::Uuid {
    uuid::Uuid::from_u128((u128::from(n) << 96) | 0x7000_8000_0000_0000_0001)
}

pub fn session_id(n: u32) -> SessionId {
    SessionId::new(uuid(n))
}

pub fn task_id(n: u32) -> TaskId {
    TaskId::new(uuid(n))
}

pub fn message_id(n: u32) -> MessageId {
    MessageId::new(uuid(n))
}

pub fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn seen<T>(value: T) -> Observed<T> {
    Observed::new(value, Source::Process, at(1), "s8_test")
}

/// A live session, made at microsecond `n`.
pub fn session(n: u32) -> State {
    State {
        spec: Spec {
            id: session_id(n),
            workspace: main(),
            task: None,
            slot: None,
            parent: None,
            root: session_id(n),
            host: HostId::new(uuid(1)),
            cwd: "/".to_owned(),
            adapter: Adapter::Generic,
            argv: vec!["cat".to_owned()],
            env: BTreeMap::new(),
            title: format!("session {n}"),
            access: Access::Full,
            source: Input::Cli,
            internal: false,
            client_key: format!("key {n}"),
            created_at: at(i64::from(n)),
        },
        version: 1,
        link: seen(Link::Connected),
        run: run(),
        turn: None,
        stop: None,
        interrupted_at: None,
        messages: 0,
        waiting: 0,
        in_flight: None,
        last_activity: at(1),
        archived: false,
        accepted: 0,
        resumes: Vec::new(),
    }
}

fn run() -> Run {
    Run {
        no: 1,
        launch: seen(Launch::Confirmed),
        process: seen(Process::Alive),
        identity: None,
        keeper: None,
        stdin_closed: false,
        consumed: 0,
        cursor: Vec::new(),
        exit: None,
        failure: None,
        cwd_exists: true,
        started_at: None,
        outputs: 0,
        damaged_lines: 0,
        late_bytes: 0,
        damage: None,
        partial: Vec::new(),
        line_damaged: false,
        base: 0,
        survivors: None,
        folder_missing: false,
        exit_damaged: false,
    }
}

/// The session as a changeset that adds it.
pub fn add_session(state: State) -> Changeset {
    let mut changeset = changes();
    changeset.session = Some(Versioned {
        expected: 0,
        row: state,
    });
    changeset
}

/// The session as a changeset that moves it from `expected` on.
pub fn move_session(mut state: State, expected: u64) -> Changeset {
    state.version = expected + 1;
    let mut changeset = changes();
    changeset.session = Some(Versioned {
        expected,
        row: state,
    });
    changeset
}

pub fn task(n: u32) -> Task {
    Task {
        id: task_id(n),
        workspace: main(),
        title: format!("task {n}"),
        description: String::new(),
        category: "inbox".to_owned(),
        project: "inbox".to_owned(),
        phase: Phase::Todo,
        needs_attention: false,
        plan_session: None,
        exec_session: None,
        sessions: Vec::new(),
        client_key: format!("key {n}"),
        created_at: at(i64::from(n)),
        updated_at: at(i64::from(n)),
        completed_at: None,
        version: 1,
    }
}

pub fn add_task(task: Task) -> Changeset {
    let mut changeset = changes();
    changeset.tasks.push(Versioned {
        expected: 0,
        row: task,
    });
    changeset
}

pub fn host(n: u32, name: &str) -> Host {
    Host {
        id: HostId::new(uuid(n)),
        name: name.to_owned(),
        dialler: Dialler::Unix("/run/agent.sock".to_owned()),
        epoch: 1,
        boot: None,
        created_at: at(1),
    }
}

/// A message that a program printed at `offset` of run 1.
pub fn output(n: u32, session: u32, offset: u64, text: &str) -> Message {
    Message {
        id: message_id(n),
        session: session_id(session),
        turn: None,
        kind: message::Kind::Output,
        at: At { run: 1, offset },
        index: 0,
        body: Body::Text(text.to_owned()),
        bytes: text.len() as u64,
        complete: true,
        created_at: at(1),
        updated_at: at(1),
        sent: None,
    }
}

/// A message that a person said.
pub fn said(n: u32, session: u32, sequence: u64, state: message::Delivery) -> Message {
    Message {
        kind: message::Kind::User,
        sent: Some(Sent {
            client_key: format!("key {n}"),
            source: Input::Cli,
            state,
            reason: None,
            text: None,
            delivery: None,
            sequence,
        }),
        ..output(n, session, 0, &format!("said {n}"))
    }
}

/// The same message with its text in chunks, `bytes` of them so far.
pub fn growing(n: u32, session: u32, bytes: u64) -> Message {
    Message {
        bytes,
        complete: false,
        ..output(n, session, u64::from(n), "")
    }
}

pub fn chunk(message: u32, from: u64, text: &str) -> Chunk {
    Chunk {
        message: message_id(message),
        from,
        text: text.to_owned(),
    }
}

pub fn delivery(n: u32, session: u32, progress: Progress) -> Delivery {
    Delivery {
        id: muster_domain::DeliveryId::new(uuid(n)),
        session: session_id(session),
        run: 1,
        kind: delivery::Kind::Message,
        messages: vec![message_id(n)],
        payload: vec![0, 255, b'\n'],
        progress,
        created_at: at(i64::from(n)),
    }
}

pub fn turn(n: u32, offset: u64) -> Turn {
    let began = At { run: 1, offset };
    Turn {
        id: TurnId::new(uuid(n)),
        run: 1,
        began,
        began_at: at(1),
        ended: None,
        ended_at: None,
        outcome: None,
    }
}

/// An event that can be told from others.
pub fn event(n: u32) -> Event {
    Event {
        audience: Audience::Workspace(None),
        change: Change::Host(HostId::new(uuid(n))),
    }
}

/// A changeset of one event.
pub fn tell(n: u32) -> Changeset {
    let mut changeset = changes();
    changeset.events.push(event(n));
    changeset
}

/// A page of so many rows.
pub fn page(size: u32, token: Option<String>) -> muster_domain::page::Request {
    muster_domain::page::Request {
        size,
        token: token.unwrap_or_default(),
    }
}
