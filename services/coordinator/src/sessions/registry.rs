//! Which session has which actor.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use muster_domain::{
    Fault, HostId, MessageId, Reason, SessionId, Timestamp, WorkspaceId,
    message::Message,
    session::{
        Fold, State,
        fold::{Accepted, Command, Mode, Text},
    },
};
use muster_runtime::{Clock, Tasks};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};

use super::{
    actor::{self, Actor, Answer, Beginning, End, Envelope, MAILBOX, Shared},
    api::{Control, Live, NewSession, SendMode, Sending, SentMessage, SessionsApi},
};
use crate::{hosts::api::HostsApi, store};

/// Sessions that are loaded at once at start-up.
const LOADED_AT_ONCE: usize = 32;
/// Locks that keep two loads of one session apart.
const LOCKS: usize = 64;
/// How often a command is brought to an actor that just ended.
const TRIES: usize = 8;

/// What actors need.
#[derive(Debug)]
pub struct Parts {
    /// Where everything is stored.
    pub store: store::Handle,
    /// The machines.
    pub hosts: Arc<dyn HostsApi>,
    /// Time.
    pub clock: Clock,
    /// Owner of the actors' tasks. When it is cancelled, actors commit what they have in
    /// hand, and end.
    pub tasks: Tasks,
}

/// The actors of all sessions that are live, or that somebody asks for. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    tasks: Tasks,
    table: Mutex<HashMap<SessionId, Entry>>,
    loading: Vec<AsyncMutex<()>>,
}

#[derive(Clone)]
struct Entry {
    mailbox: mpsc::Sender<Envelope>,
    live: watch::Receiver<Arc<Live>>,
}

impl Sessions {
    /// No actor runs yet.
    pub fn new(parts: Parts) -> Self {
        let tasks = parts.tasks.child("sessions");
        let shared = Shared {
            store: parts.store,
            hosts: parts.hosts,
            clock: parts.clock,
            shutdown: tasks.token(),
        };
        let inner = Inner {
            shared: Arc::new(shared),
            tasks,
            table: Mutex::new(HashMap::new()),
            loading: (0..LOCKS).map(|_| AsyncMutex::new(())).collect(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Starts the actors of all sessions that have not ended; gives how many.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn restore(&self, workspace: &WorkspaceId) -> store::Result<usize> {
        let ids = self.inner.shared.store.live_sessions(workspace).await?;
        let count = ids.len();
        let mut loads = stream::iter(ids)
            .map(|id| async move { (id, self.get(id).await) })
            .buffer_unordered(LOADED_AT_ONCE);
        while let Some((id, loaded)) = loads.next().await {
            if let Err(fault) = loaded {
                tracing::error!(session_id = %id, %fault, "a session was not taken up");
            }
        }
        Ok(count)
    }

    /// How many actors run.
    pub fn len(&self) -> usize {
        self.inner.table().len()
    }

    /// No actor runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The actor of a session, started when there is none.
    async fn get(&self, session: SessionId) -> Result<Entry, Fault> {
        if let Some(entry) = self.running(session) {
            return Ok(entry);
        }
        let stripe = session.as_uuid().as_u128() as usize % LOCKS;
        let _one_load = self.inner.loading[stripe].lock().await;
        if let Some(entry) = self.running(session) {
            return Ok(entry);
        }
        let shared = &self.inner.shared;
        let stored = shared.store.load(session).await?;
        let stored = stored
            .ok_or_else(|| Fault::new(Reason::SessionNotFound, "there is no such session"))?;
        let fold = Fold::restore(actor::of_store(stored), self.now());
        Ok(self.launch(session, fold, None))
    }

    fn running(&self, session: SessionId) -> Option<Entry> {
        let table = self.inner.table();
        let entry = table.get(&session)?;
        (!entry.mailbox.is_closed()).then(|| entry.clone())
    }

    fn launch(&self, session: SessionId, fold: Fold, beginning: Option<Beginning>) -> Entry {
        let (mailbox, mut commands) = mpsc::channel(MAILBOX);
        let live = watch::Sender::new(Arc::new(actor::live_view(&fold)));
        let entry = Entry {
            mailbox,
            live: live.subscribe(),
        };
        self.inner.table().insert(session, entry.clone());
        let mut actor = Actor::new(self.inner.shared.clone(), fold, live);
        if let Some(beginning) = beginning {
            actor.begin(beginning);
        }
        let inner = self.inner.clone();
        self.inner
            .tasks
            .spawn(format!("session {session}"), async move {
                let end = actor::supervise(actor, &mut commands).await;
                inner.retire(session, commands, &end);
            });
        entry
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.inner.shared.clock.now_micros())
    }

    /// Brings a command to the session's actor, and waits for its commit.
    async fn ask(&self, session: SessionId, command: Command) -> Result<Answer, Fault> {
        for _ in 0..TRIES {
            if self.inner.tasks.is_cancelled() {
                break;
            }
            let entry = self.get(session).await?;
            let (reply, answer) = oneshot::channel();
            let envelope = Envelope {
                command: command.clone(),
                reply,
            };
            if entry.mailbox.send(envelope).await.is_err() {
                continue;
            }
            // A dropped reply: the actor ended before it took the command.
            if let Ok(answer) = answer.await {
                return answer;
            }
        }
        Err(actor::fault(&End::Shutdown))
    }

    async fn control(&self, session: SessionId, command: Command) -> Result<Control, Fault> {
        let Answer { accepted, state } = self.ask(session, command).await?;
        match accepted {
            Accepted::Session {
                already_ended,
                replayed,
            } => Ok(Control {
                state,
                already_ended,
                replayed,
            }),
            Accepted::Message { .. } => Err(Fault::internal("a control command gave a message")),
        }
    }

    async fn message(&self, session: SessionId, command: Command) -> Result<SentMessage, Fault> {
        match self.ask(session, command).await?.accepted {
            Accepted::Message {
                message,
                position,
                replayed,
            } => Ok(SentMessage {
                message: *message,
                position,
                replayed,
            }),
            Accepted::Session { .. } => Err(Fault::internal("a message command gave no message")),
        }
    }
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The actor has ended: commands that came too late go to the next one.
    fn retire(&self, session: SessionId, mut commands: mpsc::Receiver<Envelope>, end: &End) {
        let mut table = self.table();
        commands.close();
        if table
            .get(&session)
            .is_some_and(|entry| entry.mailbox.is_closed())
        {
            table.remove(&session);
        }
        drop(table);
        while let Ok(envelope) = commands.try_recv() {
            if *end != End::Settled {
                let _ = envelope.reply.send(Err(actor::fault(end)));
            }
        }
    }
}

#[async_trait]
impl SessionsApi for Sessions {
    async fn start(&self, start: NewSession) -> Result<State, Fault> {
        let NewSession { spec, task, prompt } = start;
        let session = spec.id;
        let prompt = prompt.map(|text| Text {
            client_key: spec.client_key.clone(),
            text,
            source: spec.source,
        });
        let fold = Fold::start(spec, prompt, self.now())?;
        let (reply, answer) = oneshot::channel();
        self.launch(session, fold, Some(Beginning { task, reply }));
        let answer = answer.await;
        let answer = answer.unwrap_or_else(|_| Err(actor::fault(&End::Shutdown)))?;
        Ok(answer.state)
    }

    async fn send(&self, session: SessionId, text: Sending) -> Result<SentMessage, Fault> {
        let command = Command::Send {
            text: Text {
                client_key: text.client_key,
                text: text.text,
                source: text.source,
            },
            mode: match text.mode {
                SendMode::Queue => Mode::Queue,
                SendMode::AfterTurn => Mode::AfterTurn,
                SendMode::Interrupt => Mode::Interrupt,
            },
            if_turn: Some(text.if_turn).filter(|turn| !turn.is_empty()),
            images: text.images,
        };
        self.message(session, command).await
    }

    async fn cancel(&self, session: SessionId, message: MessageId) -> Result<Message, Fault> {
        let sent = self.message(session, Command::Cancel { message }).await?;
        Ok(sent.message)
    }

    async fn stop(&self, session: SessionId, survivors: bool) -> Result<Control, Fault> {
        self.control(session, Command::Stop { survivors }).await
    }

    async fn interrupt(&self, session: SessionId) -> Result<Control, Fault> {
        self.control(session, Command::Interrupt).await
    }

    async fn resume(&self, session: SessionId, client_key: String) -> Result<Control, Fault> {
        self.control(session, Command::Resume { client_key }).await
    }

    fn live(&self, session: SessionId) -> Option<watch::Receiver<Arc<Live>>> {
        let table = self.inner.table();
        table.get(&session).map(|entry| entry.live.clone())
    }

    fn count(&self, host: HostId) -> u32 {
        let table = self.inner.table();
        let counted = table.values().filter(|entry| {
            let live = entry.live.borrow();
            live.state.spec.host == host && !live.state.is_over()
        });
        u32::try_from(counted.count()).unwrap_or(u32::MAX)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("actors", &self.len())
            .finish_non_exhaustive()
    }
}
