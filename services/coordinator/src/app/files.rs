//! Files of hosts, passed through from their agents.

use muster_domain::{Fault, page};

use super::{App, HOST_CALL};
use crate::hosts::api::{FileInfo, FileRef, ReadCall, ReadStream, Stat};

impl App {
    /// Describes a file.
    ///
    /// # Errors
    /// `HOST_NOT_FOUND`, and as [`crate::hosts::api::HostApi::stat`].
    pub async fn stat_file(&self, host: &str, path: &str) -> Result<Stat, Fault> {
        self.reach(host).await?.stat(path, HOST_CALL).await
    }

    /// One page of a folder.
    ///
    /// # Errors
    /// `HOST_NOT_FOUND`, and as [`crate::hosts::api::HostApi::list`].
    pub async fn list_files(
        &self,
        host: &str,
        path: &str,
        page: page::Request,
    ) -> Result<page::Page<FileInfo>, Fault> {
        self.reach(host).await?.list(path, page, HOST_CALL).await
    }

    /// A byte range, pulled.
    ///
    /// # Errors
    /// `HOST_NOT_FOUND`, and as [`crate::hosts::api::HostApi::read`].
    pub async fn read_file(
        &self,
        host: &str,
        path: String,
        offset: i64,
        length: Option<u64>,
    ) -> Result<ReadStream, Fault> {
        let call = ReadCall {
            file: FileRef::Path(path),
            offset,
            length,
        };
        self.reach(host).await?.read(call, HOST_CALL).await
    }
}
