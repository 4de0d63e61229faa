//! Sessions and their output.

use std::{collections::VecDeque, pin::Pin};

use futures_util::Stream;
use muster_client::{Fault, Reason};
use muster_proto::{
    fault::into_status,
    public::{
        self as pb, sessions_service_server::SessionsService, tail_request::Start,
        tail_response::Event,
    },
};
use tonic::{Request, Response, Status, async_trait};

use super::{Fake, unused::unused};

/// Output that can be tailed, and how each opening of it ends.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) content: Vec<u8>,
    /// Events that an opening sends before it is cut; empty: the rest works.
    pub(crate) cuts: VecDeque<usize>,
    /// End the stream there without a word, rather than the connection.
    pub(crate) hang_up: bool,
    /// Send data with offsets that are this much too high from the second piece on.
    pub(crate) skip: u64,
    /// Pretend that the output ends here.
    pub(crate) false_end: Option<u64>,
    /// Refuse openings with this.
    pub(crate) refuse: Option<Fault>,
    /// Starts that were asked for.
    pub(crate) starts: Vec<Start>,
}

const PIECE: usize = 7;

impl Output {
    fn events(&mut self, request: &pb::TailRequest) -> Vec<Event> {
        let start = request.start.unwrap();
        self.starts.push(start);
        let size = self.content.len() as u64;
        let from = match start {
            Start::Beginning(_) => 0,
            Start::End(_) => size,
            Start::LastBytes(bytes) => size.saturating_sub(bytes),
            Start::Offset(offset) => offset,
        };
        let mut offset = from;
        let mut events = Vec::new();
        for piece in self.content[usize::try_from(from).unwrap()..].chunks(PIECE) {
            let skipped = if events.is_empty() { 0 } else { self.skip };
            events.push(Event::Data(pb::TailData {
                run: request.run,
                offset: offset + skipped,
                bytes: piece.to_vec().into(),
            }));
            offset += piece.len() as u64;
        }
        events.push(Event::Progress(pb::TailProgress {
            offset,
            size,
            at_eof: true,
        }));
        events.push(Event::End(pb::TailEnd {
            offset: self.false_end.unwrap_or(offset),
            late_bytes: 0,
        }));
        events
    }
}

#[async_trait]
impl SessionsService for Fake {
    async fn start_session(
        &self,
        request: Request<pb::StartSessionRequest>,
    ) -> Result<Response<pb::StartSessionResponse>, Status> {
        let key = request.into_inner().client_key;
        let started = self.planned(|state| {
            let replayed = state.starts.contains(&key);
            if !replayed {
                state.starts.push(key);
            }
            Ok(pb::StartSessionResponse {
                session: Some(pb::Session::default()),
                replayed,
            })
        });
        Ok(Response::new(started.await?))
    }

    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let id = request.into_inner().id;
        let session = self.planned(|state| {
            let found = state.sessions.iter().find(|s| s.id.starts_with(&id));
            let missing = || Fault::new(Reason::SessionNotFound, "no such session");
            found.cloned().ok_or_else(missing)
        });
        Ok(Response::new(pb::GetSessionResponse {
            session: Some(session.await?),
        }))
    }

    type TailStream = Pin<Box<dyn Stream<Item = Result<pb::TailResponse, Status>> + Send>>;

    async fn tail(
        &self,
        request: Request<pb::TailRequest>,
    ) -> Result<Response<Self::TailStream>, Status> {
        let (events, cut, hang_up) = {
            let mut state = self.state();
            if let Some(fault) = &state.output.refuse {
                return Err(into_status(fault));
            }
            let events = state.output.events(request.get_ref());
            (events, state.output.cuts.pop_front(), state.output.hang_up)
        };
        let fake = self.clone();
        Ok(Response::new(Box::pin(async_stream::stream! {
            for (at, event) in events.into_iter().enumerate() {
                if cut == Some(at) {
                    if hang_up {
                        return;
                    }
                    fake.cut::<()>().await;
                }
                yield Ok(pb::TailResponse { event: Some(event) });
            }
        })))
    }

    async fn list_sessions(
        &self,
        _: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        unused()
    }

    async fn explain_session(
        &self,
        _: Request<pb::ExplainSessionRequest>,
    ) -> Result<Response<pb::ExplainSessionResponse>, Status> {
        unused()
    }

    async fn resume_session(
        &self,
        _: Request<pb::ResumeSessionRequest>,
    ) -> Result<Response<pb::ResumeSessionResponse>, Status> {
        unused()
    }

    async fn interrupt_session(
        &self,
        _: Request<pb::InterruptSessionRequest>,
    ) -> Result<Response<pb::InterruptSessionResponse>, Status> {
        unused()
    }

    async fn stop_session(
        &self,
        _: Request<pb::StopSessionRequest>,
    ) -> Result<Response<pb::StopSessionResponse>, Status> {
        unused()
    }
}
