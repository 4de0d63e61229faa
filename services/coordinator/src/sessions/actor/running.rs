//! An actor with its fold: everything that comes in is folded, then committed, then answered
//! and done.

use std::time::Duration;

use futures_util::{FutureExt as _, future::BoxFuture};
use muster_domain::{
    Fault, Timestamp,
    changeset::{Conflict, Versioned},
    message::Message,
    session::{
        Fold, State,
        fold::{Commit, Fact, Ticket},
    },
    task::Task,
};
use tokio::sync::oneshot;

use super::{
    Place,
    calls::{Calls, slot},
    commit::{self, Job},
    publish::Publisher,
    reach::Reach,
    replies::Replies,
    tail::Tail,
};
use crate::{
    sessions::registry::{Inbox, Request},
    store,
};

/// Shortest time between two ticks: a fold that wants one at once, again and again, must not
/// keep a processor busy.
const TICK_EVERY: Duration = Duration::from_millis(5);
/// Commands that wait for one commit; further ones stay in the queue.
const UNANSWERED: usize = 256;
/// Commits of a shutdown: what was folded, and what followed from it.
const LAST_COMMITS: usize = 4;

/// Why an actor runs no more.
pub(super) enum End {
    /// Nothing more will come, or the group ends.
    Over,
    /// A commit failed.
    Failed(Fault),
}

/// A fold and everything that moves for it.
pub(super) struct Running {
    pub(super) fold: Fold,
    pub(super) reach: Reach,
    pub(super) calls: Calls,
    pub(super) tail: Tail,
    /// The commit under way, and the row that it writes.
    commit: Option<BoxFuture<'static, Result<(), Conflict>>>,
    outstanding: Option<(Ticket, State)>,
    /// The task's row as the start makes it, until the first commit.
    given: Option<Versioned<Task>>,
    pub(super) replies: Replies,
    /// A command whose message the fold does not know, while the store is asked for it.
    /// Further commands wait, so that they stay in order.
    pub(super) lookup: Option<BoxFuture<'static, Looked>>,
    pub(super) publisher: Publisher,
    has_committed: bool,
    next_tick: Timestamp,
}

/// A command, and what the store has of the message that it is about.
pub(super) struct Looked {
    pub(super) found: store::Result<Option<Message>>,
    pub(super) request: Request,
}

enum Event {
    Ended,
    Request(Option<Request>),
    Looked(Box<Looked>),
    Facts(Vec<Fact>),
    Tick,
    Committed(Result<(), Conflict>),
}

impl Running {
    /// Of a session that is not in the store.
    pub(super) fn new(
        place: &Place,
        fold: Fold,
        task: Option<Versioned<Task>>,
        reply: oneshot::Sender<Result<State, Fault>>,
    ) -> Self {
        let mut running = Self::with(place, fold, Publisher::new(None));
        running.given = task;
        running.replies = Replies::start(reply);
        running
    }

    /// Of a session as the store has it.
    pub(super) fn restored(place: &mut Place, fold: Fold, committed: State) -> Self {
        Self::with(place, fold, Publisher::new(Some(committed)))
    }

    fn with(place: &Place, mut fold: Fold, publisher: Publisher) -> Self {
        let (hosts, clock) = (place.shared.hosts.clone(), place.clock().clone());
        let now = Timestamp::from_micros(clock.now_micros());
        let (reach, link) = Reach::new(hosts, fold.state().spec.host, place.id, clock);
        fold.input(link, now);
        Self {
            fold,
            reach,
            calls: Calls::default(),
            tail: Tail::default(),
            commit: None,
            outstanding: None,
            given: None,
            replies: Replies::default(),
            lookup: None,
            publisher,
            has_committed: false,
            next_tick: now,
        }
    }

    /// A commit went well since the fold was made.
    pub(super) fn has_committed(&self) -> bool {
        self.has_committed
    }

    /// Runs until the end. Not cancel safe: what was not committed is lost with it.
    pub(super) async fn run(&mut self, place: &mut Place, inbox: &mut Inbox) -> End {
        loop {
            self.settle(place);
            if self.is_settled() && place.shared.registry.leave(place.id, &place.entry, inbox) {
                return End::Over;
            }
            match self.next(place, inbox).await {
                Event::Ended | Event::Request(None) => return self.finish(place, inbox).await,
                Event::Request(Some(request)) => self.take(place, request),
                Event::Looked(looked) => self.looked(place, *looked),
                Event::Facts(facts) => self.fold_in(place, facts),
                Event::Tick => self.fold_in(place, vec![Fact::Tick]),
                Event::Committed(Ok(())) => self.committed(place),
                Event::Committed(Err(conflict)) => return End::Failed(self.fail(place, conflict)),
            }
        }
    }

    /// What happens next.
    async fn next(&mut self, place: &mut Place, inbox: &mut Inbox) -> Event {
        let now = place.wall.now();
        let wake = self.fold.next_wakeup().map(|at| at.max(self.next_tick));
        let nap = wake.map_or(Duration::MAX, |at| at.since(now));
        let takes = self.lookup.is_none() && self.replies.len() < UNANSWERED;
        let pulls = self.fold.wants_bytes();
        let event = tokio::select! {
            () = place.ended.cancelled() => Event::Ended,
            request = inbox.recv(), if takes => Event::Request(request),
            looked = slot(&mut self.lookup) => Event::Looked(Box::new(looked)),
            done = slot(&mut self.commit) => Event::Committed(done),
            fact = self.reach.next() => Event::Facts(vec![fact]),
            facts = self.calls.next() => Event::Facts(facts),
            fact = self.tail.next(), if pulls => Event::Facts(vec![fact]),
            () = place.clock().sleep(nap), if wake.is_some() => Event::Tick,
        };
        if let Event::Tick = event {
            self.next_tick = place.wall.now().plus(TICK_EVERY);
        }
        event
    }

    fn fold_in(&mut self, place: &mut Place, facts: Vec<Fact>) {
        let now = place.wall.now();
        for fact in facts {
            self.fold.input(fact, now);
        }
    }

    /// Does what the fold wants done, and shows what it has.
    fn settle(&mut self, place: &mut Place) {
        let now = place.wall.now();
        for action in self.fold.take_actions() {
            self.act(place.store(), action);
        }
        if self.commit.is_none()
            && let Some(commit) = self.fold.take_commit(now)
        {
            self.write(place, commit, now);
        }
        let grew = self.fold.take_preview(now).is_some();
        self.publisher.publish(&self.fold, grew, &place.entry);
        place.see(self.fold.state());
    }

    fn is_settled(&self) -> bool {
        self.fold.is_settled()
            && self.calls.is_empty()
            && self.replies.is_empty()
            && self.lookup.is_none()
    }

    /// Hands a commit to the store.
    fn write(&mut self, place: &Place, commit: Commit, now: Timestamp) {
        let Commit {
            ticket,
            changeset,
            triggers,
        } = commit;
        // Every commit of a fold has its row.
        let row = changeset
            .session
            .as_ref()
            .map(|session| session.row.clone());
        self.outstanding = row.map(|row| (ticket, row));
        let job = Job {
            store: place.store().clone(),
            clock: place.clock().clone(),
            session: place.id,
            changeset,
            triggers,
            task: self.fold.state().spec.task,
            given: self.given.take(),
            now,
        };
        self.commit = Some(commit::write(job).boxed());
    }

    fn committed(&mut self, place: &mut Place) {
        self.has_committed = true;
        let Some((ticket, row)) = self.outstanding.take() else {
            return;
        };
        self.fold.committed(ticket, place.wall.now());
        self.publisher.committed(row);
        if let Some(state) = self.publisher.state(&self.fold) {
            self.replies.committed(ticket, &state);
        }
    }

    /// Nothing that was decided since holds.
    fn fail(&mut self, place: &Place, conflict: Conflict) -> Fault {
        tracing::warn!(session = %place.id, %conflict, "a commit failed");
        let fault = commit::fault(conflict, self.replies.is_starting());
        self.replies.fail(&fault);
        fault
    }

    /// The group ends: commits what is folded. What follows from that is done after the next
    /// start. Callers whose commands were not taken see that the queue closed.
    async fn finish(&mut self, place: &mut Place, inbox: &mut Inbox) -> End {
        inbox.close();
        for _ in 0..LAST_COMMITS {
            let now = place.wall.now();
            if self.commit.is_none() {
                self.fold.flush(now);
                match self.fold.take_commit(now) {
                    Some(commit) => self.write(place, commit, now),
                    None => break,
                }
            }
            match slot(&mut self.commit).await {
                Ok(()) => self.committed(place),
                Err(conflict) => {
                    self.fail(place, conflict);
                    break;
                }
            }
        }
        End::Over
    }
}
