//! A store, a keeper and a stream, as small as they can be, for one fold.

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

use crate::{
    DeliveryId, HostId, MessageId, SessionId, Timestamp, WorkspaceId,
    delivery::{Answer, Delivery, Progress},
    message::{Body, Delivery as Sent, Kind, Message},
    session::{
        Access, Adapter, Exit, Fold, Input, Link, Process, RunReport, Spec, State,
        fold::{Accepted, Action, Command, Commit, Fact, Mode, Stored, Text, Ticket},
    },
};

pub(super) fn spec() -> Spec {
    let id = SessionId::new(Uuid::from_u128(7));
    Spec {
        id,
        workspace: WorkspaceId::main(),
        task: None,
        slot: None,
        parent: None,
        root: id,
        host: HostId::new(Uuid::from_u128(8)),
        cwd: "/".to_owned(),
        adapter: Adapter::Generic,
        argv: vec!["cat".to_owned()],
        env: BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]),
        title: "cat".to_owned(),
        access: Access::Workspace,
        source: Input::Cli,
        internal: false,
        client_key: "start".to_owned(),
        created_at: Timestamp(0),
    }
}

pub(super) fn text(key: &str, text: &str) -> Text {
    Text {
        client_key: key.to_owned(),
        text: text.to_owned(),
        source: Input::Cli,
    }
}

pub(super) fn send(key: &str, said: &str) -> Command {
    Command::Send {
        text: text(key, said),
        mode: Mode::Queue,
        if_turn: None,
        images: 0,
    }
}

/// What is committed.
#[derive(Debug, Clone, Default)]
pub(super) struct Store {
    pub(super) state: Option<State>,
    pub(super) messages: BTreeMap<MessageId, Message>,
    pub(super) chunks: BTreeMap<(MessageId, u64), String>,
    pub(super) deliveries: BTreeMap<DeliveryId, Delivery>,
}

impl Store {
    /// Writes a commit, and checks what must hold for every one.
    pub(super) fn write(&mut self, commit: &Commit) {
        let changeset = &commit.changeset;
        let session = changeset
            .session
            .as_ref()
            .expect("every commit has the row");
        let version = self.state.as_ref().map_or(0, |state| state.version);
        assert_eq!(session.expected, version);
        assert_eq!(session.row.version, version + 1);
        self.state = Some(session.row.clone());
        for message in &changeset.messages {
            if let Some(old) = self.messages.get(&message.id) {
                let sent = |message: &Message| message.sent.as_ref().map(|sent| sent.state);
                if sent(old).is_some_and(|state| state.is_final()) {
                    let unread = sent(old) == Some(Sent::Written)
                        && matches!(sent(message), Some(Sent::Failed | Sent::Unconfirmed));
                    let same = sent(old) == sent(message);
                    assert!(same || unread, "nothing final changes");
                }
                assert!(!old.complete || message.complete);
            }
            self.messages.insert(message.id, message.clone());
        }
        for chunk in &changeset.chunks {
            let key = (chunk.message, chunk.from);
            let old = self.chunks.insert(key, chunk.text.clone());
            assert_eq!(old, None, "a place is written once");
        }
        for delivery in &changeset.deliveries {
            let old = self.deliveries.insert(delivery.id, delivery.clone());
            if let Some(old) = old {
                assert_eq!(old.progress, Progress::Committed);
            }
        }
        let committed = self.in_flight();
        assert!(committed.len() <= 1, "never two in flight");
        let named = committed.first().map(|delivery| delivery.id);
        assert_eq!(session.row.in_flight, named);
        assert_eq!(session.row.waiting as usize, self.waiting().len());
    }

    fn in_flight(&self) -> Vec<Delivery> {
        let all = self.deliveries.values();
        all.filter(|delivery| delivery.progress == Progress::Committed)
            .cloned()
            .collect()
    }

    pub(super) fn said(&self) -> Vec<Message> {
        let all = self.messages.values();
        let mut said: Vec<_> = all
            .filter(|message| message.sent.is_some())
            .cloned()
            .collect();
        said.sort_by_key(|message| message.sent.as_ref().map(|sent| sent.sequence));
        said
    }

    /// What was said to a run last, so many bytes of it.
    fn latest(&self, run: u32, bytes: u64) -> Vec<Message> {
        let mut said = self.said();
        said.retain(|message| message.at.run == run);
        let mut total = 0;
        let latest = said.into_iter().rev().take_while(|message| {
            let wanted = total < bytes;
            total += message.bytes + 1;
            wanted
        });
        latest.collect()
    }

    fn waiting(&self) -> Vec<Message> {
        let mut said = self.said();
        said.retain(|message| {
            message
                .sent
                .as_ref()
                .is_some_and(|sent| !sent.state.is_final())
        });
        said
    }

    /// Output messages in order, each with its text, or its range.
    pub(super) fn output(&self) -> Vec<(Message, String)> {
        let all = self.messages.values();
        let mut output: Vec<_> = all
            .filter(|message| message.kind == Kind::Output)
            .map(|message| (message.clone(), self.text_of(message)))
            .collect();
        output.sort_by_key(|(message, _)| (message.at, message.index));
        output
    }

    fn text_of(&self, message: &Message) -> String {
        let mut whole = String::new();
        for ((id, from), text) in &self.chunks {
            if *id == message.id {
                assert_eq!(*from, whole.len() as u64, "texts have no holes");
                whole.push_str(text);
            }
        }
        if matches!(message.body, Body::Text(_)) {
            assert_eq!(message.bytes, whole.len() as u64);
        }
        whole
    }

    pub(super) fn stored(&self) -> Stored {
        let growing = self.output().into_iter().map(|(message, _)| message);
        Stored {
            state: self.state.clone().expect("something was committed"),
            waiting: self.waiting(),
            deliveries: self.in_flight(),
            growing: growing.rev().find(|message| !message.complete),
        }
    }
}

/// A fold with its surroundings. Commits and actions happen when a test says so.
#[derive(Debug)]
pub(super) struct World {
    pub(super) fold: Fold,
    pub(super) store: Store,
    pub(super) now: Timestamp,
    /// A commit that was taken and is not written yet.
    pub(super) taken: Option<Commit>,
    /// Actions that were released and not done.
    pub(super) actions: VecDeque<Action>,
    /// What the program printed.
    pub(super) stream: Vec<u8>,
    /// Stream bytes that the open tail has sent; `None`: no tail.
    pub(super) tail: Option<usize>,
    /// Deliveries that the keeper has written whole, in order.
    pub(super) received: Vec<(DeliveryId, Vec<u8>)>,
    /// The latest run that was started.
    pub(super) started: u32,
    /// Its end.
    pub(super) exit: Option<Exit>,
    /// The run that the tail follows.
    followed: u32,
    /// What earlier runs printed.
    pub(super) past: Vec<u8>,
}

impl World {
    pub(super) fn new() -> Self {
        let fold = Fold::start(spec(), None, Timestamp(1)).expect("a start without a prompt");
        Self {
            fold,
            store: Store::default(),
            now: Timestamp(1),
            taken: None,
            actions: VecDeque::new(),
            stream: Vec::new(),
            tail: None,
            received: Vec::new(),
            started: 0,
            exit: None,
            followed: 0,
            past: Vec::new(),
        }
    }

    /// A session whose program runs, with an open tail.
    pub(super) fn running() -> Self {
        let mut world = Self::new();
        world.fact(Fact::Link(Link::Connected));
        world.settle();
        assert_eq!(world.fold.state().run.process.value, Process::Alive);
        assert!(world.tail.is_some());
        world
    }

    pub(super) fn fact(&mut self, fact: Fact) {
        self.fold.input(fact, self.now);
        self.actions.extend(self.fold.take_actions());
    }

    pub(super) fn say(&mut self, key: &str, said: &str) -> Result<Accepted, crate::Fault> {
        self.look_up(key);
        self.ask(send(key, said))
    }

    pub(super) fn ask(&mut self, command: Command) -> Result<Accepted, crate::Fault> {
        let accepted = self.fold.command(command, self.now);
        self.actions.extend(self.fold.take_actions());
        accepted
    }

    /// Hands the fold what the store has under this key; gives its message's id.
    pub(super) fn look_up(&mut self, key: &str) -> MessageId {
        let id = MessageId::sent(self.fold.state().spec.id, key);
        let stored = self.store.messages.get(&id).cloned();
        if let Some(stored) = stored.filter(|_| !self.fold.knows(key)) {
            self.fold.remember(stored);
        }
        id
    }

    pub(super) fn later(&mut self, millis: u64) {
        self.now = self.now.plus(std::time::Duration::from_millis(millis));
        self.fact(Fact::Tick);
    }

    /// Takes a commit; `false`: there is none.
    pub(super) fn take(&mut self) -> bool {
        if let Some(commit) = self.fold.take_commit(self.now) {
            self.taken = Some(commit);
        }
        self.taken.is_some()
    }

    /// The taken commit reaches the store, and the fold hears of it.
    pub(super) fn commit(&mut self) -> Option<Ticket> {
        let commit = self.taken.take()?;
        self.store.write(&commit);
        self.fold.committed(commit.ticket, self.now);
        self.actions.extend(self.fold.take_actions());
        Some(commit.ticket)
    }

    /// The coordinator dies and starts anew. `written`: a taken commit was in the store.
    pub(super) fn restart(&mut self, written: bool) {
        if let Some(commit) = self.taken.take().filter(|_| written) {
            self.store.write(&commit);
        }
        if self.store.state.is_none() {
            return;
        }
        self.actions.clear();
        self.tail = None;
        self.fold = Fold::restore(self.store.stored(), self.now);
        self.actions.extend(self.fold.take_actions());
    }

    /// The run as its keeper has it.
    pub(super) fn report(&self) -> RunReport {
        let exited = self.exit.is_some();
        RunReport {
            run: self.started,
            process: Some(if exited {
                Process::Exited
            } else {
                Process::Alive
            }),
            identity: None,
            keeper: None,
            stdin_closed: false,
            stream_size: self.stream.len() as u64,
            exit: self.exit.clone(),
            cwd_exists: true,
            started_at: Some(Timestamp(2)),
            failure: None,
            survivors: None,
            folder_missing: false,
            exit_damaged: false,
        }
    }

    /// The program ends.
    pub(super) fn ends(&mut self, code: Option<i32>) {
        self.exit.get_or_insert(Exit {
            code,
            signal: None,
            at: Timestamp(9),
            stream_size: self.stream.len() as u64,
            stderr_size: 0,
            stdin_unread: Some(0),
            survivors: Vec::new(),
            stop_requested: false,
            stderr_tail: "oh".to_owned(),
        });
    }

    /// Does the next action; `heard`: its answer arrives. `false`: there is none.
    pub(super) fn act(&mut self, heard: bool) -> bool {
        let Some(action) = self.actions.pop_front() else {
            return false;
        };
        let (answer, unheard) = self.done(action);
        if let Some(fact) = if heard { answer } else { unheard } {
            self.fact(fact);
        }
        true
    }

    fn done(&mut self, action: Action) -> (Option<Fact>, Option<Fact>) {
        match action {
            Action::Spawn { run } => {
                if run > self.started {
                    self.started = run;
                    self.past.append(&mut self.stream);
                    self.exit = None;
                }
                let report = Fact::Report(Box::new(self.report()));
                (Some(report), Some(Fact::RunUnknown { run }))
            }
            Action::AskRun { run } => {
                let there = self.started == run;
                let report = there.then(|| Fact::Report(Box::new(self.report())));
                let answer = report.unwrap_or(Fact::Absent { run });
                (Some(answer), Some(Fact::RunUnknown { run }))
            }
            Action::Deliver {
                delivery, payload, ..
            } => {
                let answer = self.deliver(delivery, payload);
                let heard = Fact::Answer { delivery, answer };
                (Some(heard), Some(Fact::DeliveryUnknown { delivery }))
            }
            Action::AskDelivery { delivery, .. } => {
                let seen = self.received.iter().any(|(id, _)| *id == delivery);
                let answer = if seen { DELIVERED } else { Answer::Unseen };
                let heard = Fact::Answer { delivery, answer };
                (Some(heard), Some(Fact::DeliveryUnknown { delivery }))
            }
            Action::Attach { run, cursor } => {
                self.followed = run;
                let at = <[u8; 8]>::try_from(cursor).map_or(0, u64::from_le_bytes);
                self.tail = usize::try_from(at).ok();
                (None, None)
            }
            Action::Detach { .. } => {
                self.tail = None;
                (None, None)
            }
            Action::Stop { .. } => {
                self.ends(None);
                if let Some(exit) = &mut self.exit {
                    exit.stop_requested = true;
                }
                (Some(Fact::Report(Box::new(self.report()))), None)
            }
            Action::Recall { run, bytes } => {
                let messages = self.store.latest(run, bytes);
                let failed = Fact::RecallFailed { run };
                (Some(Fact::Recalled { run, messages }), Some(failed))
            }
            Action::Signal { .. } => (None, None),
        }
    }

    fn deliver(&mut self, delivery: DeliveryId, payload: Vec<u8>) -> Answer {
        let first = self.received.iter().find(|(id, _)| *id == delivery);
        if let Some((_, bytes)) = first {
            assert_eq!(*bytes, payload, "a repeat has the same bytes");
            return DELIVERED;
        }
        if self.exit.is_some() {
            return Answer::Exited { written: 0 };
        }
        self.received.push((delivery, payload));
        DELIVERED
    }

    /// The tail sends up to `most` bytes; at the end of an ended run, its end.
    pub(super) fn tail(&mut self, most: usize) {
        let Some(sent) = self.tail else {
            return;
        };
        let run = self.followed;
        assert_eq!(
            run, self.started,
            "nothing is followed that was not started"
        );
        let upto = (sent + most).min(self.stream.len());
        if upto > sent {
            self.tail = Some(upto);
            let bytes = self.stream[sent..upto].to_vec();
            self.fact(Fact::Bytes {
                run,
                offset: sent as u64,
                bytes,
                next: (upto as u64).to_le_bytes().to_vec(),
            });
        } else if self.exit.is_some() {
            self.tail = None;
            self.fact(Fact::TailEnd { run, late_bytes: 0 });
        }
    }

    /// Everything that can happen by itself, happens.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            let acted = self.act(true);
            let took = self.take() && self.commit().is_some();
            let wakes = self.fold.next_wakeup().is_some_and(|at| at <= self.now);
            if !acted && !took && !wakes {
                return;
            }
            if wakes {
                self.fold.take_preview(self.now);
                self.fact(Fact::Tick);
            }
        }
        panic!("it never settles: {:?}", self.fold);
    }

    /// The same with the tail, and with all the time that it takes.
    pub(super) fn settle_all(&mut self) {
        for _ in 0..200 {
            self.settle();
            let sent = self.tail;
            self.tail(usize::MAX / 2);
            if sent == self.tail && self.fold.state().is_over() && self.fold.pending().is_none() {
                return;
            }
            self.later(1_000);
        }
    }
}

const DELIVERED: Answer = Answer::Delivered {
    before: 0,
    after: 0,
};
