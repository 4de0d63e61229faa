//! One client of the feed.

mod snapshot;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt as _, future};
use muster_domain::{
    Fault, Reason, SessionId,
    feed::{Audience, Change},
    limits,
};
use tokio::sync::watch;

use super::{
    frame::{Command, Event, Frame, Subscription},
    hub::{Pulled, Shared},
    subscription::{Session, Stage, Workspace, changed},
};
use crate::store::Revised;

/// After so many semantic frames one preview may go (F12).
const SEMANTIC_IN_A_ROW: u32 = 8;

/// One client's view of the feed. [`Subscriber::step`] gives frames until there are none,
/// [`Subscriber::wait`] waits for more.
#[derive(Debug)]
pub struct Subscriber {
    shared: Arc<Shared>,
    ready: watch::Receiver<u64>,
    /// Answers to commands, in their order; they go first.
    answers: VecDeque<Frame>,
    out: VecDeque<Frame>,
    /// Events of pulled commits that were not looked at: what is sent is cut then.
    pending: VecDeque<(Subscription, Arc<Revised>, usize)>,
    workspace: Option<Workspace>,
    sessions: BTreeMap<SessionId, Session>,
    focus: Option<SessionId>,
    last_preview: Option<SessionId>,
    in_a_row: u32,
    next_progress: Duration,
}

impl Subscriber {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            ready: shared.ready(),
            answers: VecDeque::new(),
            out: VecDeque::new(),
            pending: VecDeque::new(),
            workspace: None,
            sessions: BTreeMap::new(),
            focus: None,
            last_preview: None,
            in_a_row: 0,
            next_progress: shared.clock.boottime() + limits::FEED_PROGRESS,
            shared,
        }
    }

    /// Takes a command; the answer is among the next frames. Reads the store at most once.
    pub async fn command(&mut self, id: u64, command: Command) {
        let answer = match self.take(command).await {
            Ok(()) => Frame::Ack(id),
            Err(fault) => Frame::Error(id, fault),
        };
        self.answers.push_back(answer);
    }

    /// Refuses a command that made no sense.
    pub fn refuse(&mut self, id: u64, fault: Fault) {
        self.answers.push_back(Frame::Error(id, fault));
    }

    /// A command's answer was not taken yet.
    pub fn owes_an_answer(&self) -> bool {
        !self.answers.is_empty()
    }

    async fn take(&mut self, command: Command) -> Result<(), Fault> {
        match command {
            Command::SubscribeWorkspace { after } => {
                if self.workspace.is_none() {
                    let (stage, refused) = self.entry(after).await?;
                    self.workspace = Some(Workspace { stage });
                    refused.map_or(Ok(()), Err)?;
                }
                Ok(())
            }
            Command::SubscribeSession { session, after } => self.open(session, after).await,
            Command::Unsubscribe(session) => {
                self.sessions.remove(&session);
                self.pending
                    .retain(|(of, ..)| *of != Subscription::Session(session));
                Ok(())
            }
            Command::Focus(session) => {
                self.focus = session;
                Ok(())
            }
            Command::RefreshGit(_) => Err(Fault::unsupported("observing repositories")),
            Command::Ping => Ok(()),
        }
    }

    async fn open(&mut self, session: SessionId, after: Option<u64>) -> Result<(), Fault> {
        if self.sessions.contains_key(&session) {
            return Ok(());
        }
        if self.sessions.len() >= limits::FEED_SESSIONS {
            return Err(Fault::new(
                Reason::SubscriptionLimit,
                format!(
                    "at most {} sessions at the same time",
                    limits::FEED_SESSIONS
                ),
            ));
        }
        let known = self.shared.store.session(session).await?;
        let known = known.filter(|state| state.spec.workspace == self.shared.workspace);
        let Some(known) = known else {
            return Err(crate::app::no_session(&session.to_string()));
        };
        let host = self.shared.views.host_name(known.spec.host).await?;
        let (stage, refused) = self.entry(after).await?;
        self.sessions
            .insert(session, Session::new(stage, host.into()));
        refused.map_or(Ok(()), Err)
    }

    /// Where a subscription begins. A revision that cannot be resumed from is told, and a
    /// snapshot follows (F11).
    async fn entry(&self, after: Option<u64>) -> Result<(Stage, Option<Fault>), Fault> {
        let Some(after) = after else {
            return Ok((Stage::Wanted, None));
        };
        let bounds = self.shared.store.bounds(&self.shared.workspace).await?;
        if (bounds.compacted..=bounds.head).contains(&after) {
            return Ok((Stage::Live(after), None));
        }
        let fault = Fault::new(
            Reason::RevisionCompacted,
            format!("revision {after} cannot be resumed from; a snapshot follows"),
        )
        .with("oldest_revision", bounds.compacted)
        .with("head_revision", bounds.head);
        Ok((Stage::Wanted, Some(fault)))
    }

    /// The next frame; `None` when there is none for now. Not to be dropped half-way: a
    /// frame could be lost.
    ///
    /// # Errors
    /// The store cannot be read; the stream ends.
    pub async fn step(&mut self) -> Result<Option<Frame>, Fault> {
        loop {
            let first = self.answers.pop_front().or_else(|| self.out.pop_front());
            if let Some(frame) = first {
                return Ok(Some(frame));
            }
            if self.shared.clock.boottime() >= self.next_progress {
                self.next_progress = self.shared.clock.boottime() + limits::FEED_PROGRESS;
                return Ok(Some(Frame::Progress(self.reached())));
            }
            if self.snapshot().await? {
                continue;
            }
            if self.in_a_row >= SEMANTIC_IN_A_ROW {
                self.in_a_row = 0;
                if let Some(frame) = self.preview() {
                    return Ok(Some(frame));
                }
            }
            if let Some((subscription, commit, index)) = self.pending.pop_front() {
                if let Some(frame) = self.semantic(subscription, &commit, index).await? {
                    self.in_a_row += 1;
                    return Ok(Some(frame));
                }
                continue;
            }
            if self.pull().await? {
                continue;
            }
            return Ok(self.preview());
        }
    }

    /// Waits until [`Subscriber::step`] may have something. Cancel safe.
    pub async fn wait(&mut self) {
        let growing = self
            .sessions
            .iter_mut()
            .filter_map(|(id, session)| Some(changed(*id, session.live.as_mut()?).boxed()));
        let growing: Vec<_> = growing.collect();
        let growth = async {
            if growing.is_empty() {
                future::pending().await
            } else {
                future::select_all(growing).await.0
            }
        };
        let grown = tokio::select! {
            _ = self.ready.changed() => None,
            id = growth => Some(id),
            () = self.shared.clock.sleep_until(self.next_progress) => None,
        };
        if let Some(session) = grown.and_then(|id| self.sessions.get_mut(&id)) {
            session.unseen = true;
        }
    }

    /// Everything up to here was sent.
    fn reached(&self) -> u64 {
        let head = *self.ready.borrow();
        let behind = self
            .pending
            .front()
            .map(|(_, commit, _)| commit.revision - 1);
        self.cursors()
            .chain(behind)
            .chain([head])
            .min()
            .unwrap_or(head)
    }

    fn cursors(&self) -> impl Iterator<Item = u64> {
        let workspace = self.workspace.iter().map(|workspace| &workspace.stage);
        let sessions = self.sessions.values().map(|session| &session.stage);
        workspace.chain(sessions).filter_map(Stage::cursor)
    }

    /// Pulls the next commits for those who are furthest behind. `false`: nobody is behind.
    async fn pull(&mut self) -> Result<bool, Fault> {
        let head = *self.ready.borrow_and_update();
        let Some(low) = self.cursors().min().filter(|low| *low < head) else {
            return Ok(false);
        };
        match self.shared.pull(low).await? {
            Pulled::Commits(commits) => {
                // The store has what it announced; if it does not, nobody may spin on it.
                if commits.is_empty() {
                    return Ok(false);
                }
                for commit in commits {
                    self.distribute(&commit);
                }
            }
            Pulled::Compacted { oldest } => self.gap(oldest),
        }
        Ok(true)
    }

    fn distribute(&mut self, commit: &Arc<Revised>) {
        let revision = commit.revision;
        for (index, event) in commit.events.iter().enumerate() {
            let (all, of) = match event.audience {
                Audience::Workspace(of) => (true, of),
                Audience::Session(of) => (false, Some(of)),
            };
            let to_workspace = self.workspace.as_ref();
            if all && to_workspace.is_some_and(|workspace| workspace.stage.passes(revision)) {
                self.pending
                    .push_back((Subscription::Workspace, commit.clone(), index));
            }
            let Some(id) = of else { continue };
            let to_session = self.sessions.get(&id);
            if to_session.is_some_and(|session| session.stage.passes(revision)) {
                self.pending
                    .push_back((Subscription::Session(id), commit.clone(), index));
            }
        }
        if let Some(workspace) = &mut self.workspace {
            workspace.stage.advance(revision);
        }
        for session in self.sessions.values_mut() {
            session.stage.advance(revision);
        }
    }

    /// The outbox does not reach back to where some subscriptions are: they begin anew.
    fn gap(&mut self, oldest: u64) {
        let lost = |stage: &Stage| stage.cursor().is_some_and(|cursor| cursor < oldest);
        if let Some(workspace) = &mut self.workspace
            && lost(&workspace.stage)
        {
            workspace.stage = Stage::Wanted;
            self.out
                .push_back(Frame::Gap(Subscription::Workspace, oldest));
        }
        for (id, session) in &mut self.sessions {
            if lost(&session.stage) {
                *session = Session::new(Stage::Wanted, session.host.clone());
                self.out
                    .push_back(Frame::Gap(Subscription::Session(*id), oldest));
            }
        }
    }

    async fn semantic(
        &mut self,
        subscription: Subscription,
        commit: &Revised,
        index: usize,
    ) -> Result<Option<Frame>, Fault> {
        let Some(event) = commit.events.get(index) else {
            return Ok(None);
        };
        let event = match &event.change {
            Change::Session(state) => Some(Event::Session(Box::new(
                self.shared.views.session((**state).clone()).await?,
            ))),
            Change::Task(task) => Some(Event::Task(task.clone())),
            Change::Host(id) => {
                let row = self.shared.store.host(*id).await?;
                row.map(|row| Event::Host(Box::new(self.shared.views.host(row))))
            }
            Change::Interaction(interaction) => Some(Event::Interaction(interaction.clone())),
            change @ (Change::MessageAdded(_)
            | Change::MessageChanged(_)
            | Change::MessageDelta { .. }) => self.text(subscription, change),
            Change::Turn { id, outcome, more } => Some(Event::Turn {
                id: *id,
                outcome: *outcome,
                more: *more,
            }),
        };
        if let Subscription::Session(id) = subscription
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.unseen = true;
        }
        Ok(event.map(|event| Frame::Event {
            revision: Some(commit.revision),
            subscription,
            event: Box::new(event),
        }))
    }

    /// An event about a message, without the bytes that this client has.
    fn text(&mut self, subscription: Subscription, change: &Change) -> Option<Event> {
        let Subscription::Session(id) = subscription else {
            return None;
        };
        let session = self.sessions.get_mut(&id)?;
        let (growth, host) = (&mut session.growth, session.host.clone());
        match change {
            Change::MessageAdded(message) => {
                growth.has(message);
                Some(Event::MessageAdded(message.clone(), host))
            }
            Change::MessageChanged(message) => {
                growth.changed(message);
                Some(Event::MessageChanged(message.clone(), host))
            }
            Change::MessageDelta {
                message,
                from,
                text,
            } => {
                let (from, text) = growth.cut_stored(*message, *from, text)?;
                Some(Event::MessageDelta {
                    message: *message,
                    from,
                    text: text.to_owned(),
                })
            }
            Change::Session(_)
            | Change::Task(_)
            | Change::Host(_)
            | Change::Interaction(_)
            | Change::Turn { .. } => None,
        }
    }

    /// Growth of one session that was not shown yet: the one in focus first, else in turn.
    fn preview(&mut self) -> Option<Frame> {
        let after = self.last_preview;
        let later = self.sessions.keys().filter(|id| Some(**id) > after);
        let earlier = self.sessions.keys().filter(|id| Some(**id) <= after);
        let order: Vec<SessionId> = self
            .focus
            .iter()
            .chain(later)
            .chain(earlier)
            .copied()
            .collect();
        for id in order {
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            if session.stage.cursor().is_none() || !look(&self.shared, id, session) {
                continue;
            }
            session.unseen = false;
            let Some(live) = &mut session.live else {
                continue;
            };
            let growing = live.borrow_and_update().growing.clone();
            let Some(growing) = growing else { continue };
            let cut = session
                .growth
                .cut_preview(growing.message, growing.from, &growing.text);
            if let Some((from, text)) = cut {
                self.last_preview = Some(id);
                return Some(Frame::Event {
                    revision: None,
                    subscription: Subscription::Session(id),
                    event: Box::new(Event::MessageDelta {
                        message: growing.message,
                        from,
                        text: text.to_owned(),
                    }),
                });
            }
        }
        None
    }
}

/// Whether the session's actor may have something new to show; finds the actor where it is
/// not known.
fn look(shared: &Shared, id: SessionId, session: &mut Session) -> bool {
    let ended = session
        .live
        .as_ref()
        .is_none_or(|live| live.has_changed().is_err());
    if ended && session.unseen {
        session.live = shared.sessions.live(id);
    } else if ended {
        session.live = None;
    }
    session.unseen
        || session
            .live
            .as_ref()
            .is_some_and(|live| live.has_changed().unwrap_or(false))
}
