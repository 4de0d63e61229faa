//! `FilesService`.

use futures_util::StreamExt as _;
use muster_proto::{
    convert::page,
    public::{self as pb, files_service_server::FilesService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{Frames, Rpc, admit, show};

#[async_trait]
impl FilesService for Rpc {
    async fn stat_file(
        &self,
        request: Request<pb::StatFileRequest>,
    ) -> Result<Response<pb::StatFileResponse>, Status> {
        let request = request.into_inner();
        self.answer("StatFile", async {
            let stat = self.app.stat_file(&request.host, &request.path).await?;
            Ok(pb::StatFileResponse {
                file: Some(show::file(stat.info)),
                resolved_path: stat.resolved,
            })
        })
        .await
    }

    async fn list_files(
        &self,
        request: Request<pb::ListFilesRequest>,
    ) -> Result<Response<pb::ListFilesResponse>, Status> {
        let request = request.into_inner();
        self.answer("ListFiles", async {
            let asked = page::request(request.page_size, request.page_token);
            let found = self
                .app
                .list_files(&request.host, &request.path, asked)
                .await?;
            let (files, next_page_token) = page::page(found, show::file);
            Ok(pb::ListFilesResponse {
                files,
                next_page_token,
            })
        })
        .await
    }

    type ReadFileStream = Frames<pb::ReadFileResponse>;

    async fn read_file(
        &self,
        request: Request<pb::ReadFileRequest>,
    ) -> Result<Response<Self::ReadFileStream>, Status> {
        let place = admit("ReadFile", &request)?;
        let pb::ReadFileRequest {
            host,
            path,
            offset,
            length,
        } = request.into_inner();
        let opened = self.answer("ReadFile", self.app.read_file(&host, path, offset, length));
        let chunks = opened.await?.into_inner().map(|chunk| {
            chunk.map(|chunk| pb::ReadFileResponse {
                offset: chunk.offset,
                data: chunk.data,
                file_size: chunk.file_size,
            })
        });
        Ok(Response::new(self.stream("ReadFile", place, chunks)))
    }
}
