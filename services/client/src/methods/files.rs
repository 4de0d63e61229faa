//! Files of hosts.

use bytes::Bytes;
use futures_util::Stream;
use muster_domain::{Fault, Reason, page};
use muster_proto::{fault, public as pb};

use super::{Page, call, files, page as to_page, there};
use crate::{Client, api::File};

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChunk {
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes.
    pub data: Bytes,
    /// Size of the file when it was opened; in the first piece.
    pub file_size: Option<u64>,
}

impl Client {
    /// A file and its path with links resolved.
    ///
    /// # Errors
    /// `HOST_NOT_FOUND`, `HOST_UNREACHABLE`, `NOT_FOUND`, `OUTSIDE_ROOTS`,
    /// `PERMISSION_DENIED`, `INVALID_PATH`, `HIDDEN_PATH`, `COORDINATOR_UNREACHABLE`.
    pub async fn stat_file(&self, host: &str, path: &str) -> Result<(File, String), Fault> {
        let request = pb::StatFileRequest {
            host: host.to_owned(),
            path: path.to_owned(),
        };
        let answer = self
            .again(self.call_deadline(), call!(files.stat_file(request)))
            .await?;
        Ok((there(answer.file, "file")?, answer.resolved_path))
    }

    /// A folder, sorted by name.
    ///
    /// # Errors
    /// As [`Client::stat_file`], `NOT_A_DIRECTORY`, `TOO_MANY_NAMES`, `BAD_PAGE_TOKEN`.
    pub async fn list_files(
        &self,
        host: &str,
        path: &str,
        page: page::Request,
    ) -> Result<Page<File>, Fault> {
        let request = pb::ListFilesRequest {
            host: host.to_owned(),
            path: path.to_owned(),
            page_size: page.size,
            page_token: page.token,
        };
        let answer = self
            .again(self.call_deadline(), call!(files.list_files(request)))
            .await?;
        Ok(to_page(answer.files, answer.next_page_token))
    }

    /// A byte range of a file, pulled piece by piece; a negative offset counts from the end.
    /// Pieces follow each other without a hole. A cut ends it with an error: the file may be
    /// another one later.
    ///
    /// # Errors
    /// As [`Client::stat_file`], `NOT_A_FILE`; the same as an item later.
    pub async fn read_file(
        &self,
        host: &str,
        path: &str,
        offset: i64,
        length: Option<u64>,
    ) -> Result<impl Stream<Item = Result<FileChunk, Fault>> + Send + use<>, Fault> {
        let request = pb::ReadFileRequest {
            host: host.to_owned(),
            path: path.to_owned(),
            offset,
            length,
        };
        let until = self.until(self.call_deadline());
        let borrowed = self.link().connection(until).await?;
        let late = || Fault::new(Reason::Deadline, "the coordinator did not answer in time");
        let opened = async {
            let permit = borrowed.connection.permit().await;
            let mut client = files(borrowed.connection.channel());
            (permit, client.read_file(request).await)
        };
        let opened = self.clock().timeout_at(until, Box::pin(opened)).await;
        let (permit, answer) = opened.map_err(|_| late())?;
        let answer = answer.map_err(|status| fault::from_coordinator(&status))?;
        let mut chunks = answer.into_inner();
        Ok(async_stream::try_stream! {
            let _permit = permit;
            let mut expected = None;
            while let Some(chunk) = chunks
                .message()
                .await
                .map_err(|status| fault::from_coordinator(&status))?
            {
                if expected.is_some_and(|expected| expected != chunk.offset) {
                    Err(Fault::internal("a piece of the file is missing"))?;
                }
                expected = Some(chunk.offset + chunk.data.len() as u64);
                yield FileChunk {
                    offset: chunk.offset,
                    data: chunk.data,
                    file_size: chunk.file_size,
                };
            }
        })
    }
}
