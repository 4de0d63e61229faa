//! `FeedService`.

use futures_util::{FutureExt as _, StreamExt as _};
use muster_domain::{Fault, SessionId};
use muster_proto::{
    convert::{self, id},
    public::{
        self as pb, feed_event, feed_service_server::FeedService, snapshot_item,
        subscribe_request::Command as Wire, subscribe_response::Frame as WireFrame,
    },
};
use muster_runtime::Clock;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Frames, Rpc, admit, ending, refuse, show};
use crate::feed::{Command, Event, Frame, Item, Subscriber, Subscription};

#[async_trait]
impl FeedService for Rpc {
    type SubscribeStream = Frames<pb::SubscribeResponse>;

    async fn subscribe(
        &self,
        request: Request<Streaming<pb::SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let place = admit("Subscribe", &request)?;
        let client = Client {
            commands: request.into_inner(),
            subscriber: self.feed.subscriber(),
            open: true,
        };
        let (end, clock) = (self.end.clone(), self.clock.clone());
        Ok(Response::new(Box::pin(async_stream::stream! {
            let _place = place;
            let mut client = client;
            loop {
                let frame = tokio::select! {
                    biased;
                    () = end.cancelled() => Err(ending()),
                    frame = client.next() => frame,
                };
                match frame {
                    Ok(Some(frame)) => yield Ok(shown(frame, &clock)),
                    Ok(None) => return,
                    Err(fault) => {
                        yield Err(refuse("Subscribe", &fault));
                        return;
                    }
                }
            }
        })))
    }
}

struct Client {
    commands: Streaming<pb::SubscribeRequest>,
    subscriber: Subscriber,
    /// The client may still ask for something.
    open: bool,
}

impl Client {
    /// The next frame; `None` when the client has gone.
    async fn next(&mut self) -> Result<Option<Frame>, Fault> {
        loop {
            // Commands first: an unsubscribe must not wait behind what it ends. But each is
            // answered before the next is read, so that answers do not pile up.
            if self.open
                && !self.subscriber.owes_an_answer()
                && let Some(command) = self.commands.next().now_or_never()
            {
                if !self.command(command).await {
                    return Ok(None);
                }
                continue;
            }
            if let Some(frame) = self.subscriber.step().await? {
                return Ok(Some(frame));
            }
            tokio::select! {
                command = self.commands.next(), if self.open => {
                    if !self.command(command).await {
                        return Ok(None);
                    }
                }
                () = self.subscriber.wait() => {}
            }
        }
    }

    /// `false`: the client has gone.
    async fn command(&mut self, command: Option<Result<pb::SubscribeRequest, Status>>) -> bool {
        match command {
            Some(Ok(request)) => {
                let number = request.id;
                match parse(request) {
                    Ok(command) => self.subscriber.command(number, command).await,
                    Err(fault) => self.subscriber.refuse(number, fault),
                }
                true
            }
            Some(Err(_)) => false,
            // It has said all it wants to say, and may go on listening.
            None => {
                self.open = false;
                true
            }
        }
    }
}

fn parse(request: pb::SubscribeRequest) -> Result<Command, Fault> {
    let session = |text: &str| -> Result<SessionId, Fault> { id::id("session_id", text) };
    Ok(
        match request.command.ok_or_else(|| Fault::missing("command"))? {
            Wire::SubscribeWorkspace(wanted) => Command::SubscribeWorkspace {
                after: wanted.after_revision,
            },
            Wire::SubscribeSession(wanted) => Command::SubscribeSession {
                session: session(&wanted.session_id)?,
                after: wanted.after_revision,
            },
            Wire::UnsubscribeSession(wanted) => Command::Unsubscribe(session(&wanted.session_id)?),
            Wire::FocusSession(wanted) => {
                Command::Focus(id::id_opt("session_id", &wanted.session_id)?)
            }
            Wire::RefreshGit(wanted) => Command::RefreshGit(session(&wanted.session_id)?),
            Wire::Ping(_) => Command::Ping,
        },
    )
}

fn shown(frame: Frame, clock: &Clock) -> pb::SubscribeResponse {
    let frame = match frame {
        Frame::Ack(id) => WireFrame::Ack(pb::Ack { id }),
        Frame::Error(id, fault) => return convert::feed::error(id, &fault),
        Frame::SnapshotBegin(of, revision) => WireFrame::SnapshotBegin(pb::SnapshotBegin {
            revision,
            session_id: name(of),
        }),
        Frame::Item(of, item) => WireFrame::SnapshotItem(pb::SnapshotItem {
            session_id: name(of),
            item: Some(shown_item(item, clock)),
        }),
        Frame::SnapshotEnd(of, revision) => WireFrame::SnapshotEnd(pb::SnapshotEnd {
            revision,
            session_id: name(of),
        }),
        Frame::Event {
            revision,
            subscription,
            event,
        } => WireFrame::Event(pb::FeedEvent {
            revision,
            session_id: name(subscription),
            event: Some(shown_event(*event, clock)),
        }),
        Frame::Gap(of, resume_from) => WireFrame::Gap(pb::Gap {
            session_id: name(of),
            resume_from,
        }),
        Frame::Progress(revision) => WireFrame::Progress(pb::Progress { revision }),
    };
    convert::feed::frame(frame)
}

fn name(subscription: Subscription) -> String {
    match subscription {
        Subscription::Workspace => String::new(),
        Subscription::Session(id) => id.to_string(),
    }
}

fn shown_item(item: Item, clock: &Clock) -> snapshot_item::Item {
    match item {
        Item::Session(view) => snapshot_item::Item::Session(show::session(&view, show::now(clock))),
        Item::Task(task) => snapshot_item::Item::Task((&*task).into()),
        Item::Host(host) => snapshot_item::Item::Host((&*host).into()),
        Item::Message(message, host) => {
            snapshot_item::Item::Message(show::message(&message, &host, 0, false))
        }
    }
}

fn shown_event(event: Event, clock: &Clock) -> feed_event::Event {
    use feed_event::Event as Wire;
    match event {
        Event::Session(view) => Wire::SessionChanged(pb::SessionChanged {
            session: Some(show::session(&view, show::now(clock))),
        }),
        Event::Task(task) => Wire::TaskChanged(pb::TaskChanged {
            task: Some((&*task).into()),
        }),
        Event::Host(host) => Wire::HostChanged(pb::HostChanged {
            host: Some((&*host).into()),
        }),
        Event::Interaction(interaction) => Wire::InteractionChanged(pb::InteractionChanged {
            interaction: Some((&*interaction).into()),
        }),
        Event::MessageAdded(message, host) => Wire::MessageAdded(pb::MessageAdded {
            message: Some(show::message(&message, &host, 0, false)),
        }),
        Event::MessageChanged(message, host) => Wire::MessageChanged(pb::MessageChanged {
            message: Some(show::message(&message, &host, 0, false)),
        }),
        Event::MessageDelta {
            message,
            from,
            text,
        } => Wire::MessageDelta(pb::MessageDelta {
            message_id: message.to_string(),
            from_byte: from,
            text,
        }),
        Event::Turn { id, outcome, more } => Wire::TurnChanged(pb::TurnChanged {
            turn_id: id.to_string(),
            state: match outcome {
                None => pb::TurnState::Active,
                Some(_) => pb::TurnState::Idle,
            }
            .into(),
            outcome: outcome.map_or("", convert::feed::outcome_word).to_owned(),
            more,
        }),
    }
}
