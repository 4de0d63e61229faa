//! `FilesService` of the fake: the outputs of its runs, and one folder.

use bytes::Bytes;
use muster_domain::{Fault, Reason};
use muster_proto::agent::{self as pb, files_service_server::FilesService};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{FakeAgent, Frames, refuse, tails};

fn missing(path: &str) -> Status {
    refuse(&Fault::new(
        Reason::NotFound,
        format!("`{path}` does not exist"),
    ))
}

fn unsupported() -> Status {
    refuse(&Fault::unsupported("this"))
}

#[async_trait]
impl FilesService for FakeAgent {
    async fn stat(
        &self,
        request: Request<pb::StatRequest>,
    ) -> Result<Response<pb::StatResponse>, Status> {
        let path = request.into_inner().path;
        let content = self.stream_at(&path).ok_or_else(|| missing(&path))?;
        Ok(Response::new(pb::StatResponse {
            info: Some(pb::FileInfo {
                name: "stream.jsonl".to_owned(),
                kind: pb::FileKind::File.into(),
                size_bytes: content.len() as u64,
                ..pb::FileInfo::default()
            }),
            resolved_path: path,
            generation: Some(tails::generation()),
        }))
    }

    async fn list(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<pb::ListResponse>, Status> {
        let request = request.into_inner();
        let first = if request.page_token.is_empty() { 0 } else { 2 };
        let names = (first..first + 2).map(|number| pb::FileInfo {
            name: format!("file {number}"),
            kind: pb::FileKind::File.into(),
            ..pb::FileInfo::default()
        });
        Ok(Response::new(pb::ListResponse {
            entries: names.collect(),
            next_page_token: if first == 0 { "more" } else { "" }.to_owned(),
        }))
    }

    type ReadStream = Frames<pb::ReadResponse>;

    async fn read(
        &self,
        request: Request<pb::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let content = self
            .stream_at(&request.path)
            .ok_or_else(|| missing(&request.path))?;
        let from = usize::try_from(request.offset)
            .unwrap_or(0)
            .min(content.len());
        let length = request.length.map_or(usize::MAX, |length| {
            usize::try_from(length).unwrap_or(usize::MAX)
        });
        let to = from.saturating_add(length).min(content.len());
        let chunk = pb::ReadResponse {
            offset: from as u64,
            data: Bytes::copy_from_slice(&content[from..to]),
            file_size: Some(content.len() as u64),
        };
        Ok(Response::new(Box::pin(tokio_stream::iter([Ok(chunk)]))))
    }

    async fn head(
        &self,
        _request: Request<pb::HeadRequest>,
    ) -> Result<Response<pb::HeadResponse>, Status> {
        Err(unsupported())
    }

    type FindStream = Frames<pb::FindResponse>;

    async fn find(
        &self,
        _request: Request<pb::FindRequest>,
    ) -> Result<Response<Self::FindStream>, Status> {
        Err(unsupported())
    }

    async fn write(
        &self,
        _request: Request<Streaming<pb::WriteRequest>>,
    ) -> Result<Response<pb::WriteResponse>, Status> {
        Err(unsupported())
    }

    async fn batch_read(
        &self,
        _request: Request<pb::BatchReadRequest>,
    ) -> Result<Response<pb::BatchReadResponse>, Status> {
        Err(unsupported())
    }
}
