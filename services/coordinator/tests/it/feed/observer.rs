//! A client that believes what it is told, and complains when that makes no sense.

use std::collections::BTreeMap;

use muster_domain::{Reason, SessionId};
use muster_proto::public::{
    self as pb, feed_event::Event, snapshot_item::Item, subscribe_request::Command,
    subscribe_response::Frame,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::world::{Coordinator, fault, text, within};

pub(super) struct Observer {
    commands: mpsc::Sender<pb::SubscribeRequest>,
    frames: Streaming<pb::SubscribeResponse>,
    next: u64,
    /// Acks, and refusals with their reason.
    pub(super) answers: Vec<Result<u64, (u64, String)>>,
    sessions: BTreeMap<String, pb::Session>,
    pub(super) tasks: BTreeMap<String, pb::Task>,
    pub(super) hosts: BTreeMap<String, pb::Host>,
    /// Order and text of messages.
    messages: BTreeMap<String, (String, u64, String)>,
    /// Revision of each subscription.
    revisions: BTreeMap<String, u64>,
    pub(super) snapshots: u32,
    pub(super) events: u32,
    pub(super) cut_by: Option<Reason>,
}

impl Observer {
    pub(super) async fn open(coordinator: &Coordinator) -> Self {
        let (commands, frames) = connect(coordinator).await;
        Self {
            commands,
            frames,
            next: 1,
            answers: Vec::new(),
            sessions: BTreeMap::new(),
            tasks: BTreeMap::new(),
            hosts: BTreeMap::new(),
            messages: BTreeMap::new(),
            revisions: BTreeMap::new(),
            snapshots: 0,
            events: 0,
            cut_by: None,
        }
    }

    /// Goes on at another life of the coordinator, with what it knows.
    pub(super) async fn again(&mut self, coordinator: &Coordinator) {
        (self.commands, self.frames) = connect(coordinator).await;
        self.cut_by = None;
    }

    pub(super) async fn ask(&mut self, command: Command) {
        let request = pb::SubscribeRequest {
            id: self.next,
            command: Some(command),
        };
        self.next += 1;
        self.commands.send(request).await.unwrap();
    }

    /// Reads until something is so.
    pub(super) async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        within(what, async {
            while !is_so(self) {
                let frame = self.frames.message().await.unwrap();
                self.take(frame.expect("the stream goes on").frame.unwrap());
            }
        })
        .await;
    }

    pub(super) async fn until_cut(&mut self) {
        within("the stream is cut", async {
            loop {
                match self.frames.message().await {
                    Ok(Some(frame)) => self.take(frame.frame.unwrap()),
                    Ok(None) => return,
                    Err(status) => {
                        self.cut_by = Some(fault(&status).reason());
                        return;
                    }
                }
            }
        })
        .await;
    }

    pub(super) fn status(&self, id: SessionId) -> Option<pb::SessionStatus> {
        self.sessions.get(&id.to_string()).map(pb::Session::status)
    }

    /// What the session printed, as far as it is seen.
    pub(super) fn text(&self, id: SessionId) -> String {
        let id = id.to_string();
        let mut texts: Vec<_> = self
            .messages
            .values()
            .filter(|(session, ..)| *session == id)
            .collect();
        texts.sort_by_key(|(_, offset, _)| *offset);
        texts
            .into_iter()
            .map(|(_, _, text)| text.as_str())
            .collect()
    }

    pub(super) fn revision(&self, subscription: &str) -> Option<u64> {
        self.revisions.get(subscription).copied()
    }

    fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Ack(ack) => self.answers.push(Ok(ack.id)),
            Frame::Error(error) => self.answers.push(Err((error.id, error.reason))),
            Frame::SnapshotBegin(begin) => {
                self.revisions.insert(begin.session_id, begin.revision);
            }
            Frame::SnapshotItem(item) => self.item(item.item.unwrap()),
            Frame::SnapshotEnd(end) => {
                assert_eq!(self.revisions[&end.session_id], end.revision);
                self.snapshots += 1;
            }
            Frame::Event(event) => {
                self.events += 1;
                if let Some(revision) = event.revision {
                    let known = self.revisions.entry(event.session_id.clone()).or_default();
                    assert!(revision >= *known, "revisions go back");
                    *known = revision;
                }
                self.event(event.event.unwrap());
            }
            Frame::Gap(gap) => panic!("{gap:?}"),
            Frame::Progress(_) => {}
        }
    }

    fn item(&mut self, item: Item) {
        match item {
            Item::Session(session) => self.session(session),
            Item::Task(task) => {
                self.tasks.insert(task.id.clone(), task);
            }
            Item::Host(host) => {
                self.hosts.insert(host.name.clone(), host);
            }
            Item::Message(message) => self.message(&message),
            Item::Interaction(_) => {}
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::SessionChanged(changed) => self.session(changed.session.unwrap()),
            Event::TaskChanged(changed) => self.item(Item::Task(changed.task.unwrap())),
            Event::HostChanged(changed) => self.item(Item::Host(changed.host.unwrap())),
            Event::MessageAdded(added) => self.message(&added.message.unwrap()),
            Event::MessageDelta(delta) => {
                let known = self.messages.get_mut(&delta.message_id);
                let (_, _, known) = known.expect("growth of a message that was added");
                let from = usize::try_from(delta.from_byte).unwrap();
                assert!(from <= known.len(), "bytes are missing before {from}");
                let seen = (known.len() - from).min(delta.text.len());
                assert_eq!(
                    known[from..from + seen],
                    delta.text[..seen],
                    "the same bytes"
                );
                known.push_str(&delta.text[seen..]);
            }
            Event::MessageChanged(_)
            | Event::TurnChanged(_)
            | Event::InteractionChanged(_)
            | Event::SummaryReplaced(_) => {}
        }
    }

    fn session(&mut self, session: pb::Session) {
        let known = self.sessions.get(&session.id);
        if known.is_none_or(|known| known.version <= session.version) {
            self.sessions.insert(session.id.clone(), session);
        }
    }

    fn message(&mut self, message: &pb::Message) {
        if message.kind() != pb::MessageKind::Output {
            return;
        }
        let offset = message.at.unwrap_or_default().offset;
        let known = self
            .messages
            .entry(message.id.clone())
            .or_insert_with(|| (message.session_id.clone(), offset, String::new()));
        let text = text(message);
        if text.len() > known.2.len() {
            known.2 = text;
        }
    }
}

async fn connect(
    coordinator: &Coordinator,
) -> (
    mpsc::Sender<pb::SubscribeRequest>,
    Streaming<pb::SubscribeResponse>,
) {
    let (commands, queue) = mpsc::channel(16);
    let answer = coordinator
        .feed()
        .subscribe(ReceiverStream::new(queue))
        .await;
    (commands, answer.unwrap().into_inner())
}
