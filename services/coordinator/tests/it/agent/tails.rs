//! `TailsService` of the fake: chunks of a run's output.

use bytes::Bytes;
use muster_domain::{Fault, Reason};
use muster_proto::{
    agent::{
        self as pb, follow_request, follow_response::Event, tails_service_server::TailsService,
    },
    convert::run,
};
use tonic::{Request, Response, Status, async_trait};

use super::{FakeAgent, Frames, Key, no_run, refuse};

/// Bytes of one frame: small, so that there are many.
const FRAME: usize = 1024;

pub(super) fn generation() -> pb::Generation {
    pb::Generation {
        device: 1,
        inode: 1,
        birth_ns: 1,
        head_bytes: 0,
        head_hash: Bytes::from_static(&[7; 16]),
    }
}

fn cursor(offset: u64) -> pb::Cursor {
    pb::Cursor {
        offset,
        generation: Some(generation()),
        guard: Bytes::from_static(&[7; 16]),
    }
}

#[async_trait]
impl TailsService for FakeAgent {
    type FollowStream = Frames<pb::FollowResponse>;

    async fn follow(
        &self,
        request: Request<pb::FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        self.called("follow");
        let request = request.into_inner();
        let Some(follow_request::Target::Run(target)) = &request.target else {
            return Err(refuse(&Fault::new(Reason::NotFound, "no such file")));
        };
        let key = run::run_key(target.run.as_ref()).map_err(|fault| refuse(&fault))?;
        let size = {
            let state = self.state();
            state.runs.get(&key).ok_or_else(no_run)?.stream.len() as u64
        };
        let stdout = target.file() == pb::RunFile::Stdout;
        let offset = match request.start {
            Some(follow_request::Start::Beginning(_)) => 0,
            Some(follow_request::Start::End(_)) => size,
            Some(follow_request::Start::LastBytes(bytes)) => size.saturating_sub(bytes),
            Some(follow_request::Start::Cursor(cursor)) => cursor.offset,
            None => return Err(refuse(&Fault::missing("start"))),
        };
        let agent = self.clone();
        Ok(Response::new(Box::pin(async_stream::stream! {
            let mut changed = agent.changed.subscribe();
            let mut offset = offset;
            yield said(Event::Opened(pb::Opened { generation: Some(generation()), size }));
            loop {
                changed.borrow_and_update();
                let (piece, over) = agent.piece(key, if stdout { offset } else { u64::MAX });
                if !piece.is_empty() {
                    let next = offset + piece.len() as u64;
                    yield said(Event::Data(pb::Data {
                        offset,
                        bytes: piece,
                        next: Some(cursor(next)),
                        line_continues: false,
                        torn: false,
                    }));
                    offset = next;
                    continue;
                }
                if over || request.no_follow {
                    yield said(Event::End(pb::End { cursor: Some(cursor(offset)), late_bytes: 0 }));
                    return;
                }
                if changed.changed().await.is_err() {
                    return;
                }
            }
        })))
    }
}

impl FakeAgent {
    fn piece(&self, key: Key, offset: u64) -> (Bytes, bool) {
        let state = self.state();
        let run = &state.runs[&key];
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(run.stream.len());
        let to = (from + FRAME).min(run.stream.len());
        (Bytes::copy_from_slice(&run.stream[from..to]), run.is_over())
    }

    pub(super) fn stream_at(&self, path: &str) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(super::HOME)?.strip_prefix("/sessions/")?;
        let (session, rest) = rest.split_once("/runs/")?;
        let (run, name) = rest.split_once('/')?;
        let key = (session.parse().ok()?, run.parse().ok()?);
        let state = self.state();
        let run = state.runs.get(&key)?;
        (name == "stream.jsonl").then(|| run.stream.clone())
    }
}

fn said(event: Event) -> Result<pb::FollowResponse, Status> {
    Ok(pb::FollowResponse { event: Some(event) })
}
