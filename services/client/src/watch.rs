//! The feed: state, then stream, without a seam, over cuts and restarts (R9, F8, F11).

mod position;

use std::{collections::BTreeMap, time::Duration};

use muster_domain::{Fault, Kind, Reason};
use muster_proto::{
    convert::feed,
    fault,
    public::{self as pb, subscribe_request::Command, subscribe_response::Frame},
};
use muster_transport::StreamPermit;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use self::position::Position;
use crate::{Client, api, methods};

/// Commands that wait to be sent; more wait in the client.
const COMMANDS: usize = 16;

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Tasks, hosts, sessions in short, interactions.
    Workspace,
    /// One session in detail.
    Session {
        /// Its whole id.
        id: String,
        /// The tree below it too.
        tree: bool,
    },
}

impl Topic {
    /// The name of the subscription on the wire.
    fn name(&self) -> &str {
        match self {
            Self::Workspace => "",
            Self::Session { id, .. } => id,
        }
    }
}

/// One event of a watch. `session` is empty for the workspace.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// Everything known of the topic is replaced by what follows.
    SnapshotBegin {
        /// Whose.
        session: String,
        /// At this revision.
        revision: u64,
    },
    /// A part of the snapshot.
    Item(api::SnapshotItem),
    /// The snapshot is whole.
    SnapshotEnd {
        /// Whose.
        session: String,
        /// At this revision.
        revision: u64,
    },
    /// Something happened.
    Event(api::FeedEvent),
    /// Everything up to this revision was sent.
    Progress {
        /// The revision.
        revision: u64,
    },
    /// The client fell behind; what it missed follows.
    Gap {
        /// Whose.
        session: String,
        /// The last revision that is whole.
        resume_from: u64,
    },
    /// A topic cannot be watched, and is not any more.
    Refused {
        /// Which.
        session: String,
        /// Why.
        fault: Fault,
    },
    /// The connection was cut; the watch goes on where it was. For people.
    Reconnecting {
        /// Why.
        cause: Fault,
    },
}

/// A subscription to the feed. Nothing is lost: events come in order, each once, from the
/// revision asked for; where history is gone, a snapshot replaces it.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    patience: Duration,
    topics: BTreeMap<String, Watched>,
    stream: Option<Opened>,
    next_id: u64,
    attempts: u32,
    give_up: Option<Duration>,
}

#[derive(Debug)]
struct Watched {
    topic: Topic,
    position: Position,
    /// Command that subscribed it on the open stream; `None`: to be sent.
    command: Option<u64>,
}

#[derive(Debug)]
struct Opened {
    commands: mpsc::Sender<pb::SubscribeRequest>,
    frames: Streaming<pb::SubscribeResponse>,
    _permit: Option<StreamPermit>,
}

impl Client {
    /// Watches the feed. Begins with no topic; `patience` is how long it tries to go on
    /// after a cut, without a sign of life in between.
    pub fn watch(&self, patience: Duration) -> Watch {
        Watch {
            client: self.clone(),
            patience,
            topics: BTreeMap::new(),
            stream: None,
            next_id: 1,
            attempts: 0,
            give_up: None,
        }
    }
}

impl Watch {
    /// Watches a topic from now on: after `after`, else from a snapshot. Sent with the next
    /// [`Watch::next`]. A topic that is watched already stays as it is.
    pub fn subscribe(&mut self, topic: Topic, after: Option<u64>) {
        self.topics
            .entry(topic.name().to_owned())
            .or_insert(Watched {
                topic,
                position: Position::after(after),
                command: None,
            });
    }

    /// Watches a session no more.
    pub async fn unsubscribe(&mut self, session: &str) {
        let Some(watched) = self.topics.remove(session) else {
            return;
        };
        if watched.command.is_some() && !session.is_empty() {
            let session_id = session.to_owned();
            self.send(Command::UnsubscribeSession(pb::UnsubscribeSession {
                session_id,
            }))
            .await;
        }
    }

    /// The next event. Waits without end while the connection stands. Cancel safe: an event
    /// is given or kept.
    ///
    /// # Errors
    /// `COORDINATOR_UNREACHABLE` after the patience; `INVALID` without a topic; what refuses
    /// the stream (`STREAM_LIMIT`, `UNAUTHENTICATED`). The watch may be asked again.
    pub async fn next(&mut self) -> Result<WatchEvent, Fault> {
        if self.topics.is_empty() {
            return Err(Fault::invalid("topics", "nothing is watched"));
        }
        loop {
            if self.stream.is_none() {
                match Box::pin(self.open()).await {
                    Ok(opened) => self.stream = Some(opened),
                    Err(fault) => return self.cut(fault).await,
                }
            }
            self.subscribe_pending().await;
            let Some(opened) = &mut self.stream else {
                continue;
            };
            match opened.frames.message().await {
                Ok(Some(response)) => {
                    self.attempts = 0;
                    self.give_up = None;
                    if let Some(event) = response.frame.and_then(|frame| self.take(frame)) {
                        return Ok(event);
                    }
                }
                Ok(None) => {
                    let ended = "the coordinator ended the stream";
                    return self
                        .cut(Fault::new(Reason::CoordinatorUnreachable, ended))
                        .await;
                }
                Err(status) => return self.cut(fault::from_coordinator(&status)).await,
            }
        }
    }

    async fn open(&self) -> Result<Opened, Fault> {
        let until = self.client.until(self.client.call_deadline());
        let borrowed = self.client.link().connection(until).await?;
        let (commands, queue) = mpsc::channel(COMMANDS);
        let open = async {
            let permit = borrowed.connection.permit().await;
            let mut feed = methods::feed(borrowed.connection.channel());
            (permit, feed.subscribe(ReceiverStream::new(queue)).await)
        };
        match self.client.clock().timeout_at(until, open).await {
            Ok((permit, Ok(answer))) => Ok(Opened {
                commands,
                frames: answer.into_inner(),
                _permit: permit,
            }),
            Ok((_, Err(status))) => {
                if !fault::is_answer(&status) {
                    self.client.link().forget(&borrowed.connection).await;
                }
                Err(fault::from_coordinator(&status))
            }
            Err(_) => Err(Fault::new(
                Reason::CoordinatorUnreachable,
                "the coordinator did not answer in time",
            )),
        }
    }

    /// Forgets the stream and waits before the next attempt.
    async fn cut(&mut self, fault: Fault) -> Result<WatchEvent, Fault> {
        self.stream = None;
        for watched in self.topics.values_mut() {
            watched.command = None;
            if fault.kind() == Kind::Compacted {
                watched.position = Position::after(None);
            } else {
                watched.position.cut();
            }
        }
        if !matches!(fault.kind(), Kind::Unavailable | Kind::Compacted) {
            return Err(fault);
        }
        let now = self.client.clock().boottime();
        let give_up = *self
            .give_up
            .get_or_insert(now.saturating_add(self.patience));
        let attempt = self.attempts;
        self.attempts += 1;
        if now < give_up && self.client.link().pause(attempt, give_up).await {
            Ok(WatchEvent::Reconnecting { cause: fault })
        } else {
            self.give_up = None;
            Err(fault)
        }
    }

    /// Sends the subscriptions that the open stream does not have.
    async fn subscribe_pending(&mut self) {
        let pending: Vec<String> = self
            .topics
            .iter()
            .filter(|(_, watched)| watched.command.is_none())
            .map(|(name, _)| name.clone())
            .collect();
        for name in pending {
            let Some(watched) = self.topics.get(&name) else {
                continue;
            };
            let after_revision = watched.position.resume_from();
            let command = match &watched.topic {
                Topic::Workspace => {
                    Command::SubscribeWorkspace(pb::SubscribeWorkspace { after_revision })
                }
                Topic::Session { id, tree } => Command::SubscribeSession(pb::SubscribeSession {
                    session_id: id.clone(),
                    tree: *tree,
                    after_revision,
                }),
            };
            let id = self.next_id;
            if !self.send(command).await {
                return;
            }
            if let Some(watched) = self.topics.get_mut(&name) {
                watched.command = Some(id);
            }
        }
    }

    /// False: the stream is gone, which its frames will tell.
    async fn send(&mut self, command: Command) -> bool {
        let Some(opened) = &self.stream else {
            return false;
        };
        let request = pb::SubscribeRequest {
            id: self.next_id,
            command: Some(command),
        };
        let sent = opened.commands.send(request).await.is_ok();
        self.next_id += 1;
        sent
    }

    fn take(&mut self, frame: Frame) -> Option<WatchEvent> {
        match frame {
            Frame::Ack(_) => None,
            Frame::Error(error) => self.refused(&error),
            Frame::SnapshotBegin(begin) => {
                self.position(&begin.session_id)?.snapshot_begins();
                Some(WatchEvent::SnapshotBegin {
                    session: begin.session_id,
                    revision: begin.revision,
                })
            }
            Frame::SnapshotItem(item) => {
                self.position(&item.session_id)?;
                Some(WatchEvent::Item(item))
            }
            Frame::SnapshotEnd(end) => {
                self.position(&end.session_id)?.snapshot_ends(end.revision);
                Some(WatchEvent::SnapshotEnd {
                    session: end.session_id,
                    revision: end.revision,
                })
            }
            Frame::Event(event) => {
                let position = self.position(&event.session_id)?;
                let is_new = event
                    .revision
                    .is_none_or(|revision| position.advance(revision));
                is_new.then_some(WatchEvent::Event(event))
            }
            Frame::Gap(gap) => self.gap(gap),
            Frame::Progress(progress) => {
                for watched in self.topics.values_mut() {
                    if watched.command.is_some() {
                        watched.position.reached(progress.revision);
                    }
                }
                Some(WatchEvent::Progress {
                    revision: progress.revision,
                })
            }
        }
    }

    fn position(&mut self, session: &str) -> Option<&mut Position> {
        Some(&mut self.topics.get_mut(session)?.position)
    }

    /// The stream is taken anew, from the revision that is whole: whatever the coordinator
    /// had not sent comes then.
    fn gap(&mut self, gap: pb::Gap) -> Option<WatchEvent> {
        let position = self.position(&gap.session_id)?;
        position.back_to(gap.resume_from);
        self.stream = None;
        for watched in self.topics.values_mut() {
            watched.command = None;
            watched.position.cut();
        }
        Some(WatchEvent::Gap {
            session: gap.session_id,
            resume_from: gap.resume_from,
        })
    }

    fn refused(&mut self, error: &pb::CommandError) -> Option<WatchEvent> {
        let mut of_command = self
            .topics
            .iter_mut()
            .filter(|(_, watched)| watched.command == Some(error.id));
        let (name, watched) = of_command.next()?;
        let fault = feed::fault(error);
        if fault.kind() == Kind::Compacted {
            // From a snapshot then; where one follows by itself, asking is acknowledged only.
            watched.position = Position::after(None);
            watched.command = None;
            return None;
        }
        let session = name.clone();
        self.topics.remove(&session);
        Some(WatchEvent::Refused { session, fault })
    }
}
