//! `SessionsService`.

use muster_domain::{
    Fault, limits,
    session::{Access, Input},
};
use muster_proto::{
    convert::{enums, id, page, session},
    public::{self as pb, sessions_service_server::SessionsService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{CALL, Frames, Rpc, admit, show};
use crate::{
    app::{ListSessions, SessionView, StartRequest, TailFrame, TailRequest, TailStart},
    hosts::api::RunFile,
};
use futures_util::StreamExt as _;

#[async_trait]
impl SessionsService for Rpc {
    async fn start_session(
        &self,
        request: Request<pb::StartSessionRequest>,
    ) -> Result<Response<pb::StartSessionResponse>, Status> {
        let request = request.into_inner();
        let deadline = limits::START_DEADLINE + CALL;
        self.answer_within("StartSession", deadline, async {
            let request = start(request)?;
            let started = self.app.start(request, limits::START_DEADLINE).await?;
            Ok(pb::StartSessionResponse {
                session: Some(self.shown(&started.session)),
                replayed: started.replayed,
            })
        })
        .await
    }

    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let request = request.into_inner();
        self.answer("GetSession", async {
            let view = self.app.session(&request.id).await?;
            Ok(pb::GetSessionResponse {
                session: Some(self.shown(&view)),
            })
        })
        .await
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let request = request.into_inner();
        self.answer("ListSessions", async {
            let list = ListSessions {
                page: page::request(request.page_size, request.page_token),
                live: request.live,
                internal: request.internal,
                task: request.task_id,
            };
            let found = self.app.list_sessions(list).await?;
            let (sessions, next_page_token) = page::page(found, |view| self.shown(&view));
            Ok(pb::ListSessionsResponse {
                sessions,
                next_page_token,
            })
        })
        .await
    }

    async fn explain_session(
        &self,
        request: Request<pb::ExplainSessionRequest>,
    ) -> Result<Response<pb::ExplainSessionResponse>, Status> {
        let request = request.into_inner();
        self.answer("ExplainSession", async {
            let (facts, refusals) = self.app.explain(&request.id).await?;
            Ok(pb::ExplainSessionResponse {
                facts: facts.iter().map(Into::into).collect(),
                refusals: refusals
                    .iter()
                    .map(|refusal| refusal.as_str().to_owned())
                    .collect(),
            })
        })
        .await
    }

    async fn resume_session(
        &self,
        request: Request<pb::ResumeSessionRequest>,
    ) -> Result<Response<pb::ResumeSessionResponse>, Status> {
        let request = request.into_inner();
        self.answer("ResumeSession", async {
            id::client_key("client_key", &request.client_key)?;
            let view = self.app.resume(&request.id, request.client_key).await?;
            Ok(pb::ResumeSessionResponse {
                session: Some(self.shown(&view)),
            })
        })
        .await
    }

    async fn interrupt_session(
        &self,
        request: Request<pb::InterruptSessionRequest>,
    ) -> Result<Response<pb::InterruptSessionResponse>, Status> {
        let request = request.into_inner();
        self.answer("InterruptSession", async {
            let done = self.app.interrupt(&request.id).await?;
            Ok(pb::InterruptSessionResponse {
                session: Some(self.shown(&done.session)),
                already_ended: done.already_ended,
                unrecorded: !done.recorded,
            })
        })
        .await
    }

    async fn stop_session(
        &self,
        request: Request<pb::StopSessionRequest>,
    ) -> Result<Response<pb::StopSessionResponse>, Status> {
        let request = request.into_inner();
        self.answer("StopSession", async {
            let done = self.app.stop(&request.id, request.survivors).await?;
            let session = self.shown(&done.session);
            Ok(pb::StopSessionResponse {
                survivors: session.survivors.clone(),
                session: Some(session),
                already_ended: done.already_ended,
                unwritten_messages: done.unwritten,
                unrecorded: !done.recorded,
            })
        })
        .await
    }

    type TailStream = Frames<pb::TailResponse>;

    async fn tail(
        &self,
        request: Request<pb::TailRequest>,
    ) -> Result<Response<Self::TailStream>, Status> {
        let place = admit("Tail", &request)?;
        let request = request.into_inner();
        let opened = self.answer("Tail", async { self.app.tail(tail(request)?).await });
        let frames = opened.await?.into_inner();
        let frames = frames.map(|frame| frame.map(tail_frame));
        Ok(Response::new(self.stream("Tail", place, frames)))
    }
}

impl Rpc {
    fn shown(&self, view: &SessionView) -> pb::Session {
        show::session(view, show::now(&self.clock))
    }
}

fn start(request: pb::StartSessionRequest) -> Result<StartRequest, Fault> {
    let access = enums::optional::<pb::AccessLevel, Access>("access", request.access)?;
    let source = enums::optional::<pb::SessionSource, Input>("source", request.source)?;
    Ok(StartRequest {
        slot: session::slot_opt(&request.slot)?,
        adapter: session::adapter(&request.adapter)?,
        access: access.unwrap_or(Access::Workspace),
        source: source.unwrap_or(Input::Cli),
        client_key: request.client_key,
        task: request.task_id,
        host: request.host,
        cwd: request.cwd,
        argv: request.argv,
        env: request.env.into_iter().collect(),
        title: request.title,
        prompt: request.prompt,
        no_wait: request.no_wait,
    })
}

fn tail(request: pb::TailRequest) -> Result<TailRequest, Fault> {
    use pb::tail_request::Start;
    let file = pb::TailFile::try_from(request.file)
        .map_err(|_| Fault::invalid("file", "no known value"))?;
    Ok(TailRequest {
        file: match file {
            pb::TailFile::Unspecified => return Err(Fault::missing("file")),
            pb::TailFile::Stdout => RunFile::Stdout,
            pb::TailFile::Stderr => RunFile::Stderr,
        },
        start: match request.start.ok_or_else(|| Fault::missing("start"))? {
            Start::Beginning(_) => TailStart::Beginning,
            Start::End(_) => TailStart::End,
            Start::LastBytes(bytes) => TailStart::LastBytes(bytes),
            Start::Offset(offset) => TailStart::Offset(offset),
        },
        session: request.session_id,
        run: request.run,
        follow: request.follow,
        late_bytes: request.late_bytes,
    })
}

fn tail_frame(frame: TailFrame) -> pb::TailResponse {
    use pb::tail_response::Event;
    let event = match frame {
        TailFrame::Data { run, offset, bytes } => Event::Data(pb::TailData { run, offset, bytes }),
        TailFrame::Gap { from, to, reason } => Event::Gap(pb::TailGap { from, to, reason }),
        TailFrame::Progress {
            offset,
            size,
            at_eof,
        } => Event::Progress(pb::TailProgress {
            offset,
            size,
            at_eof,
        }),
        TailFrame::End { offset, late_bytes } => Event::End(pb::TailEnd { offset, late_bytes }),
    };
    pb::TailResponse { event: Some(event) }
}
