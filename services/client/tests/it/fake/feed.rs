//! The feed: an outbox that is read from a revision, or from a snapshot.

use std::{collections::VecDeque, pin::Pin};

use futures_util::{Stream, StreamExt as _};
use muster_client::{Fault, Reason};
use muster_proto::{
    convert::feed::{error, frame},
    fault::into_status,
    public::{
        self as pb, feed_service_server::FeedService, subscribe_request::Command,
        subscribe_response::Frame,
    },
};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::Fake;

/// What subscribers get.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Sessions of the snapshot.
    pub(crate) snapshot: Vec<pb::Session>,
    /// Revision of the snapshot.
    pub(crate) snapshot_at: u64,
    /// Everything after it. Revisions rise, and may be shared.
    pub(crate) events: Vec<pb::FeedEvent>,
    /// Revisions below cannot be resumed from.
    pub(crate) oldest: u64,
    /// End the whole stream when one cannot, rather than refuse the command.
    pub(crate) end_when_compacted: bool,
    /// Frames that a stream sends before it is cut; empty: the rest works.
    pub(crate) cuts: VecDeque<usize>,
    /// After this revision the next stream has a gap and sends nothing more.
    pub(crate) gap_after: Option<u64>,
    /// Sessions that nobody may watch.
    pub(crate) refuse: Option<Fault>,
    /// Revisions that subscriptions resumed after.
    pub(crate) resumed: Vec<Option<u64>>,
}

impl Outbox {
    fn head(&self) -> u64 {
        let last = self.events.last().and_then(|event| event.revision);
        last.unwrap_or(self.snapshot_at)
    }

    fn answer(&mut self, id: u64, session: &str, after: Option<u64>) -> Result<Vec<Frame>, Status> {
        self.resumed.push(after);
        if let Some(fault) = self.refuse.as_ref().filter(|_| !session.is_empty()) {
            return Ok(vec![error(id, fault).frame.unwrap()]);
        }
        if after.is_some_and(|after| after < self.oldest) {
            let fault = Fault::new(Reason::RevisionCompacted, "history is gone");
            if self.end_when_compacted {
                return Err(into_status(&fault));
            }
            return Ok(vec![error(id, &fault).frame.unwrap()]);
        }
        let mut frames = vec![Frame::Ack(pb::Ack { id })];
        if after.is_none() {
            frames.extend(self.snapshot(session));
        }
        let after = after.unwrap_or(self.snapshot_at);
        let gap = self.gap_after.take();
        for event in self.events.iter().filter(|event| event.revision() > after) {
            if let Some(gap) = gap.filter(|gap| event.revision() > *gap) {
                frames.push(Frame::Gap(pb::Gap {
                    session_id: session.to_owned(),
                    resume_from: gap,
                }));
                return Ok(frames);
            }
            frames.push(Frame::Event(pb::FeedEvent {
                session_id: session.to_owned(),
                ..event.clone()
            }));
        }
        frames.push(Frame::Progress(pb::Progress {
            revision: self.head(),
        }));
        Ok(frames)
    }

    fn snapshot(&self, session: &str) -> Vec<Frame> {
        let (revision, session_id) = (self.snapshot_at, session.to_owned());
        let mut frames = vec![Frame::SnapshotBegin(pb::SnapshotBegin {
            revision,
            session_id: session_id.clone(),
        })];
        for item in &self.snapshot {
            frames.push(Frame::SnapshotItem(pb::SnapshotItem {
                session_id: session_id.clone(),
                item: Some(pb::snapshot_item::Item::Session(item.clone())),
            }));
        }
        frames.push(Frame::SnapshotEnd(pb::SnapshotEnd {
            revision,
            session_id,
        }));
        frames
    }
}

#[async_trait]
impl FeedService for Fake {
    type SubscribeStream =
        Pin<Box<dyn Stream<Item = Result<pb::SubscribeResponse, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<pb::SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let cut = self.state().outbox.cuts.pop_front();
        let mut commands = request.into_inner();
        let fake = self.clone();
        Ok(Response::new(Box::pin(async_stream::try_stream! {
            let mut sent = 0;
            while let Some(Ok(request)) = commands.next().await {
                let (session, after) = match request.command {
                    Some(Command::SubscribeWorkspace(wanted)) => {
                        (String::new(), wanted.after_revision)
                    }
                    Some(Command::SubscribeSession(wanted)) => {
                        (wanted.session_id, wanted.after_revision)
                    }
                    _ => continue,
                };
                let answer = fake.state().outbox.answer(request.id, &session, after);
                for one in answer? {
                    if cut == Some(sent) {
                        fake.cut::<()>().await;
                    }
                    sent += 1;
                    yield frame(one);
                }
            }
        })))
    }
}
