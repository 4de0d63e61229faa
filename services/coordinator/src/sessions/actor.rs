//! The actor of one session.

use std::{future, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use muster_domain::{
    Fault, MessageId, Reason, SessionId, Timestamp,
    changeset::{Conflict, Versioned},
    session::{
        Fold, State,
        fold::{Accepted, Action, Command, Fact, Stored, Ticket},
    },
    task::Task,
};
use muster_runtime::Clock;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    api::{Growing, Live},
    calls::{self, Call},
    commit, facts,
    steady::Steady,
    tail::Tail,
};
use crate::{
    hosts::{
        api::{HostApi, HostsApi, LinkView},
        reports::{Report, Reports},
    },
    store,
};

/// Commands that wait for one actor.
pub(super) const MAILBOX: usize = 64;
/// First wait before a session is loaded again whose commit failed; doubles.
const RELOAD_FIRST: Duration = Duration::from_millis(50);
/// Longest wait before a session is loaded again.
const RELOAD_CAP: Duration = Duration::from_secs(5);

/// What all actors share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: store::Handle,
    pub(super) hosts: Arc<dyn HostsApi>,
    pub(super) clock: Clock,
    pub(super) shutdown: CancellationToken,
}

/// A command, and who waits for its answer.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) command: Command,
    pub(super) reply: Reply,
}

/// Who waits for an answer.
pub(super) type Reply = oneshot::Sender<Result<Answer, Fault>>;

/// What became of a command, committed.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) accepted: Accepted,
    pub(super) state: State,
}

/// Why an actor ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing more will come of its session by itself.
    Settled,
    /// The coordinator shuts down.
    Shutdown,
    /// A commit failed: what it has in hand is worth nothing.
    Failed(Conflict),
}

/// The start that an actor begins with.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) task: Option<Versioned<Task>>,
    pub(super) reply: Reply,
}

pub(super) struct Actor {
    shared: Arc<Shared>,
    fold: Fold,
    steady: Steady,
    host: Option<Arc<dyn HostApi>>,
    link: Option<watch::Receiver<LinkView>>,
    connection: u64,
    reports: Option<Reports>,
    tail: Tail,
    calls: FuturesUnordered<Call>,
    commit: Option<BoxFuture<'static, Result<Ticket, Conflict>>>,
    first_task: Option<Versioned<Task>>,
    waiters: Vec<(Ticket, Accepted, Reply)>,
    live: watch::Sender<Arc<Live>>,
}

/// What an actor wakes up for.
enum Event {
    Shutdown,
    Committed(Result<Ticket, Conflict>),
    Command(Envelope),
    Abandoned,
    Link,
    Report(Option<Report>),
    Facts(Vec<Fact>),
    Tick,
}

impl Actor {
    /// An actor for `fold`, which nobody else has.
    pub(super) fn new(shared: Arc<Shared>, fold: Fold, live: watch::Sender<Arc<Live>>) -> Self {
        let host = shared.hosts.get(fold.state().spec.host);
        let link = host.as_ref().map(|host| host.link());
        let reports = host.as_ref().map(|host| host.reports(fold.state().spec.id));
        let mut actor = Self {
            steady: Steady::new(shared.clock.clone()),
            shared,
            fold,
            host,
            link,
            connection: 0,
            reports,
            tail: Tail::closed(),
            calls: FuturesUnordered::new(),
            commit: None,
            first_task: None,
            waiters: Vec::new(),
            live,
        };
        actor.look_at_link();
        actor
    }

    /// The first commit inserts the session: it has `beginning`'s task row, and is answered.
    pub(super) fn begin(&mut self, beginning: Beginning) {
        self.first_task = beginning.task;
        let told = Accepted::Session {
            already_ended: false,
            replayed: false,
        };
        self.answer_later(told, beginning.reply);
    }

    /// Serves the session until it ends. Whoever still waits then is answered with a fault.
    pub(super) async fn serve(&mut self, mailbox: &mut mpsc::Receiver<Envelope>) -> End {
        let end = loop {
            self.proceed();
            if self.fold.is_settled() && self.calls.is_empty() && mailbox.is_empty() {
                break End::Settled;
            }
            match self.next(mailbox).await {
                Event::Shutdown => break self.flush().await,
                Event::Committed(result) => {
                    if let Err(conflict) = self.committed(result) {
                        break End::Failed(conflict);
                    }
                }
                Event::Command(envelope) => self.command(envelope).await,
                Event::Abandoned => break End::Settled,
                Event::Link => self.look_at_link(),
                Event::Report(Some(report)) => self.take(facts::of_report(report)),
                Event::Report(None) => self.reports = None,
                Event::Facts(facts) => facts.into_iter().for_each(|fact| self.take(fact)),
                Event::Tick => self.take(Fact::Tick),
            }
        };
        self.turn_away(&end);
        end
    }

    /// The next event. Cancel safe.
    async fn next(&mut self, mailbox: &mut mpsc::Receiver<Envelope>) -> Event {
        let due = self.fold.next_wakeup();
        let wants_bytes = self.fold.wants_bytes();
        let shutdown = &self.shared.shutdown;
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Event::Shutdown,
            result = or_never(self.commit.as_mut()) => Event::Committed(result),
            envelope = mailbox.recv() => envelope.map_or(Event::Abandoned, Event::Command),
            () = changed(&mut self.link) => Event::Link,
            report = reported(&mut self.reports) => Event::Report(report),
            Some(facts) = self.calls.next() => Event::Facts(facts),
            fact = self.tail.next(), if wants_bytes => Event::Facts(vec![fact]),
            () = until(&mut self.steady, due) => Event::Tick,
        }
    }

    fn take(&mut self, fact: Fact) {
        let quiet = matches!(fact, Fact::Bytes { .. } | Fact::Tick);
        let now = self.steady.now();
        self.fold.input(fact, now);
        if !quiet {
            self.show();
        }
    }

    /// Does what is due: one commit at a time, actions, previews.
    fn proceed(&mut self) {
        let now = self.steady.now();
        if self.commit.is_none() {
            self.begin_commit(now);
        }
        for action in self.fold.take_actions() {
            self.act(action);
        }
        if self.fold.take_preview(now).is_some() {
            self.show();
        }
    }

    fn begin_commit(&mut self, now: Timestamp) {
        if let Some(commit) = self.fold.take_commit(now) {
            let store = self.shared.store.clone();
            let task = self.first_task.take();
            self.commit = Some(Box::pin(commit::write(store, commit, task, now)));
        }
    }

    fn act(&mut self, action: Action) {
        let Some(host) = self.host.clone() else {
            return;
        };
        let spec = &self.fold.state().spec;
        match action {
            Action::Attach { run, cursor } => self.tail.open(host, spec.id, run, cursor),
            Action::Detach { run } => self.tail.close(run),
            other => self.calls.extend(calls::make(host, spec, other)),
        }
    }

    fn committed(&mut self, result: Result<Ticket, Conflict>) -> Result<(), Conflict> {
        self.commit = None;
        let ticket = result?;
        let now = self.steady.now();
        self.fold.committed(ticket, now);
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiters)
            .into_iter()
            .partition(|(of, ..)| *of <= ticket);
        self.waiters = waiting;
        for (_, accepted, reply) in ready {
            self.answer(accepted, reply);
        }
        self.show();
        Ok(())
    }

    async fn command(&mut self, envelope: Envelope) {
        let Envelope { command, reply } = envelope;
        if let Err(error) = self.look_up(&command).await {
            let _ = reply.send(Err(error.into()));
            return;
        }
        let now = self.steady.now();
        match self.fold.command(command, now) {
            Ok(accepted) => self.answer_later(accepted, reply),
            Err(fault) => {
                let _ = reply.send(Err(fault));
            }
        }
        self.show();
    }

    /// Finds the message that a command is about where the fold does not know it.
    async fn look_up(&mut self, command: &Command) -> store::Result<()> {
        let id = match command {
            Command::Send { text, .. } => MessageId::sent(self.session(), &text.client_key),
            Command::Cancel { message } => *message,
            Command::Stop { .. } | Command::Interrupt | Command::Resume { .. } => return Ok(()),
        };
        if !self.fold.knows_message(id)
            && let Some(message) = self.shared.store.message(id).await?
        {
            self.fold.remember(message);
        }
        Ok(())
    }

    /// Answers once everything decided so far is committed (R3).
    fn answer_later(&mut self, accepted: Accepted, reply: Reply) {
        match self.fold.pending() {
            Some(ticket) => self.waiters.push((ticket, accepted, reply)),
            None => self.answer(accepted, reply),
        }
    }

    fn answer(&self, accepted: Accepted, reply: Reply) {
        let state = self.fold.state().clone();
        let _ = reply.send(Ok(Answer { accepted, state }));
    }

    fn look_at_link(&mut self) {
        let Some(link) = &mut self.link else {
            return;
        };
        let (value, connection) = {
            let view = link.borrow_and_update();
            (view.link, view.connection)
        };
        self.take(Fact::Link(value));
        if self.connection != connection && self.connection != 0 {
            self.take(Fact::Relist);
        }
        self.connection = connection;
    }

    /// Commits what is in hand, and answers for it.
    async fn flush(&mut self) -> End {
        loop {
            let now = self.steady.now();
            self.fold.flush(now);
            if self.commit.is_none() {
                self.begin_commit(now);
            }
            let Some(commit) = self.commit.as_mut() else {
                return End::Shutdown;
            };
            let result = commit.await;
            if let Err(conflict) = self.committed(result) {
                return End::Failed(conflict);
            }
        }
    }

    fn turn_away(&mut self, end: &End) {
        for (.., reply) in self.waiters.drain(..) {
            let _ = reply.send(Err(fault(end)));
        }
    }

    /// Shows what is in hand.
    fn show(&self) {
        self.live.send_replace(Arc::new(live_view(&self.fold)));
    }

    fn session(&self) -> SessionId {
        self.fold.state().spec.id
    }
}

/// What `fold` has in hand.
pub(super) fn live_view(fold: &Fold) -> Live {
    Live {
        state: fold.state().clone(),
        growing: fold.growth().map(|growth| Growing {
            message: growth.message,
            from: growth.from,
            text: growth.text.as_str().into(),
        }),
    }
}

/// What to tell those whose command was not committed.
pub(super) fn fault(end: &End) -> Fault {
    match end {
        End::Settled | End::Shutdown => {
            Fault::new(Reason::ShuttingDown, "the coordinator is shutting down")
        }
        End::Failed(Conflict::Version { what, .. }) => Fault::new(
            Reason::VersionMismatch,
            format!("the {what} was changed at the same time"),
        ),
        End::Failed(Conflict::KeyTaken) => Fault::new(Reason::KeyReused, "the client key is taken"),
        End::Failed(Conflict::Unavailable(cause)) => {
            Fault::new(Reason::StoreUnavailable, "the store cannot be written")
                .with_hint("check the disk that holds the data folder")
                .with_internal(cause)
        }
    }
}

/// Serves a session for as long as it lives, also over failed commits: then its actor is
/// made anew from what the store has.
pub(super) async fn supervise(mut actor: Actor, mailbox: &mut mpsc::Receiver<Envelope>) -> End {
    let mut wait = RELOAD_FIRST;
    loop {
        let end = actor.serve(mailbox).await;
        let End::Failed(conflict) = &end else {
            return end;
        };
        let session = actor.session();
        tracing::warn!(session_id = %session, %conflict, "a commit failed; the session is loaded again");
        let (shared, live) = (actor.shared.clone(), actor.live.clone());
        drop(actor);
        actor = loop {
            if !turn_away_for(&shared, mailbox, wait, &end).await {
                return End::Shutdown;
            }
            wait = (wait * 2).min(RELOAD_CAP);
            match shared.store.load(session).await {
                Ok(Some(stored)) => break reload(&shared, stored, live),
                // The first commit failed: there is no such session.
                Ok(None) => return end,
                Err(error) => tracing::warn!(session_id = %session, %error, "not loaded"),
            }
        };
    }
}

fn reload(
    shared: &Arc<Shared>,
    stored: store::StoredSession,
    live: watch::Sender<Arc<Live>>,
) -> Actor {
    let now = Timestamp::from_micros(shared.clock.now_micros());
    let fold = Fold::restore(of_store(stored), now);
    Actor::new(shared.clone(), fold, live)
}

pub(super) fn of_store(stored: store::StoredSession) -> Stored {
    let store::StoredSession {
        state,
        waiting,
        deliveries,
        growing,
    } = stored;
    Stored {
        state,
        waiting,
        deliveries,
        growing,
    }
}

/// Answers commands with the fault for `wait`; `false`: the coordinator shuts down.
async fn turn_away_for(
    shared: &Shared,
    mailbox: &mut mpsc::Receiver<Envelope>,
    wait: Duration,
    end: &End,
) -> bool {
    let over = shared.clock.sleep(wait);
    tokio::pin!(over);
    loop {
        tokio::select! {
            biased;
            () = shared.shutdown.cancelled() => return false,
            () = &mut over => return true,
            envelope = mailbox.recv() => match envelope {
                Some(envelope) => {
                    let _ = envelope.reply.send(Err(fault(end)));
                }
                None => return false,
            },
        }
    }
}

async fn or_never<T>(future: Option<&mut BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => future::pending().await,
    }
}

async fn changed(link: &mut Option<watch::Receiver<LinkView>>) {
    if let Some(receiver) = link {
        if receiver.changed().await.is_ok() {
            return;
        }
        *link = None;
    }
    future::pending().await
}

async fn reported(reports: &mut Option<Reports>) -> Option<Report> {
    match reports {
        Some(reports) => reports.recv().await,
        None => future::pending().await,
    }
}

async fn until(steady: &mut Steady, due: Option<Timestamp>) {
    match due {
        Some(at) => steady.sleep_until(at).await,
        None => future::pending().await,
    }
}
