use async_stream::try_stream;
use muster_domain::Fault;
use muster_proto::agent::{
    BatchReadRequest, BatchReadResponse, FindRequest, FindResponse, HeadRequest, HeadResponse,
    ListRequest, ListResponse, ReadRequest, ReadResponse, StatRequest, StatResponse, WriteRequest,
    WriteResponse, WriteStart, files_service_server::FilesService, write_request::Part,
};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Responses, Services, admitted, enter, refuse};
use crate::files::{self, Range, WholeFile};

#[async_trait]
impl FilesService for Services {
    type ReadStream = Responses<ReadResponse>;
    type FindStream = Responses<FindResponse>;

    async fn stat(&self, request: Request<StatRequest>) -> Result<Response<StatResponse>, Status> {
        let request = request.into_inner();
        let answer = self.blocking("stat", move |shared| files::stat(&shared.roots, &request));
        answer.await.map(Response::new)
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let request = request.into_inner();
        let answer = self.blocking("list", move |shared| files::list(&shared.roots, &request));
        answer.await.map(Response::new)
    }

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let permit = enter(&request)?;
        let request = request.into_inner();
        let range = self.blocking("open", move |shared| Range::open(&shared.roots, &request));
        let range = range.await?;
        Ok(Response::new(admitted(permit, self.chunks(range))))
    }

    async fn head(&self, request: Request<HeadRequest>) -> Result<Response<HeadResponse>, Status> {
        let request = request.into_inner();
        let answer = self.blocking("head", move |shared| files::head(&shared.roots, &request));
        answer.await.map(Response::new)
    }

    async fn find(
        &self,
        _request: Request<FindRequest>,
    ) -> Result<Response<Self::FindStream>, Status> {
        Err(refuse(&Fault::unsupported("Files.Find")))
    }

    async fn write(
        &self,
        request: Request<Streaming<WriteRequest>>,
    ) -> Result<Response<WriteResponse>, Status> {
        let (_, extensions, mut parts) = request.into_parts();
        let Some(Part::Start(start)) = parts.message().await?.and_then(|first| first.part) else {
            return Err(refuse(&Fault::missing("start")));
        };
        let (mutation, path) = (start.mutation.clone(), start.path.clone());
        let order = self.order("Files.Write", &extensions, mutation, path);
        self.audited(order, 0, |_| self.write_file(start, parts))
            .await
    }

    async fn batch_read(
        &self,
        _request: Request<BatchReadRequest>,
    ) -> Result<Response<BatchReadResponse>, Status> {
        Err(refuse(&Fault::unsupported("Files.BatchRead")))
    }
}

impl Services {
    async fn write_file(
        &self,
        start: WriteStart,
        mut parts: Streaming<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        let created = self.blocking("create", move |shared| {
            WholeFile::create(&shared.roots, start)
        });
        let mut file = created.await?;
        while let Some(part) = parts.message().await? {
            let Some(Part::Data(data)) = part.part else {
                return Err(refuse(&Fault::invalid(
                    "part",
                    "only data follows the start",
                )));
            };
            file = self
                .blocking("write", move |_| {
                    file.append(&data)?;
                    Ok(file)
                })
                .await?;
        }
        let finished = self.blocking("finish", move |_| file.finish());
        finished.await.map(Response::new)
    }

    /// One chunk is read while the one before it is on its way, and no more.
    fn chunks(
        &self,
        range: Range,
    ) -> impl futures_util::Stream<Item = Result<ReadResponse, Fault>> + Send + use<> {
        let tasks = self.shared.tasks.clone();
        let token = tasks.token();
        let mut file_size = Some(range.file_size);
        let read = move |mut range: Range| {
            tasks.spawn_blocking("read", move || {
                let chunk = range.next();
                (range, chunk)
            })
        };
        try_stream! {
            if range.is_empty() {
                yield ReadResponse {
                    offset: range.offset,
                    data: bytes::Bytes::new(),
                    file_size,
                };
                return;
            }
            let mut ahead = read(range);
            loop {
                let (range, chunk) = ahead.await.map_err(Fault::internal)?;
                if token.is_cancelled() {
                    Err(crate::tails::moved())?;
                }
                let Some((offset, data)) = chunk? else { return };
                ahead = read(range);
                yield ReadResponse {
                    offset,
                    data,
                    file_size: file_size.take(),
                };
            }
        }
    }
}
