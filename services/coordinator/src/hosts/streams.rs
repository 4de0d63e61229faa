//! Tails and files: what is pulled from a host on connections of their own.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use muster_domain::{Fault, Reason, limits, page};
use muster_proto::{agent as pb, convert::tail};
use sha2::{Digest as _, Sha256};

use super::{
    api::{
        FileInfo, FileRef, FollowCall, ReadCall, ReadStream, RunFile, RunKey, Start, TailStream,
    },
    host::{Host, files, tails},
    wire,
};

/// Bytes of a digest that guard a cursor.
const GUARD_HASH_BYTES: usize = 16;

impl Host {
    pub(super) async fn open_tail(
        &self,
        call: FollowCall,
        deadline: Duration,
    ) -> Result<TailStream, Fault> {
        let end = self.clock.boottime().saturating_add(deadline);
        let request = self.follow_request(call, deadline).await?;
        let rest = end.saturating_sub(self.clock.boottime());
        let (mut events, permit) = self
            .open(
                rest,
                |rest| self.link.tails(rest),
                |channel| {
                    let request = request.clone();
                    async move { tails(channel).follow(request).await }
                },
            )
            .await?;
        let (name, view) = (self.name.clone(), self.view.clone());
        Ok(Box::pin(async_stream::stream! {
            let _permit = permit;
            loop {
                match events.message().await {
                    Ok(Some(event)) => {
                        if let Some(event) = wire::tail_event(event) {
                            yield Ok(event);
                        }
                    }
                    Ok(None) => return,
                    Err(status) => {
                        let fault = super::faults::failed(&name, &view.borrow(), &status);
                        yield Err(fault);
                        return;
                    }
                }
            }
        }))
    }

    async fn follow_request(
        &self,
        call: FollowCall,
        deadline: Duration,
    ) -> Result<pb::FollowRequest, Fault> {
        use pb::follow_request::{Start as Wire, Target};
        let start = match call.start {
            Start::Beginning | Start::Offset(0) => Wire::Beginning(true),
            Start::End => Wire::End(true),
            Start::LastBytes(bytes) => Wire::LastBytes(bytes),
            Start::Cursor(cursor) => Wire::Cursor(tail::cursor(&cursor)?),
            Start::Offset(offset) => {
                Wire::Cursor(self.cursor_at(&call.file, offset, deadline).await?)
            }
        };
        let target = match call.file {
            FileRef::Path(path) => Target::Path(path),
            FileRef::Run(key, file) => Target::Run(pb::RunTarget {
                run: Some(wire::run_ref(key)),
                file: match file {
                    RunFile::Stdout => pb::RunFile::Stdout,
                    RunFile::Stderr => pb::RunFile::Stderr,
                }
                .into(),
            }),
        };
        Ok(pb::FollowRequest {
            target: Some(target),
            framing: wire::framing(call.framing).into(),
            start: Some(start),
            await_creation: false,
            no_follow: !call.follow,
            late_bytes: call.late_bytes,
        })
    }

    /// The agent's cursor for a bare offset: the file as it is now, guarded by the bytes
    /// before the offset as they are now.
    async fn cursor_at(
        &self,
        file: &FileRef,
        offset: u64,
        deadline: Duration,
    ) -> Result<pb::Cursor, Fault> {
        let path = self.path_of(file)?;
        let stat = self.stat_file(path.clone(), deadline).await?;
        let size = stat.info.map_or(0, |info| info.size_bytes);
        if offset > size {
            return Err(Fault::new(
                Reason::BadCursor,
                format!("offset {offset} lies beyond the end, which is at {size}"),
            )
            .with("size", size));
        }
        let length = offset.min(limits::GUARD_BYTES as u64);
        let from =
            i64::try_from(offset - length).map_err(|_| Fault::invalid("offset", "too large"))?;
        let before = self.read_range(path, from, length, deadline).await?;
        let digest = Sha256::digest(&before);
        Ok(pb::Cursor {
            offset,
            generation: stat.generation,
            guard: Bytes::copy_from_slice(&digest[..GUARD_HASH_BYTES]),
        })
    }

    async fn read_range(
        &self,
        path: String,
        offset: i64,
        length: u64,
        deadline: Duration,
    ) -> Result<Vec<u8>, Fault> {
        let call = ReadCall {
            file: FileRef::Path(path),
            offset,
            length: Some(length),
        };
        let mut chunks = self.open_read(call, deadline).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk?.data);
        }
        Ok(bytes)
    }

    pub(super) async fn stat_file(
        &self,
        path: String,
        deadline: Duration,
    ) -> Result<pb::StatResponse, Fault> {
        let request = pb::StatRequest {
            path,
            no_follow: false,
        };
        self.ask(deadline, |channel| {
            let request = request.clone();
            async move { files(channel).stat(request).await }
        })
        .await
    }

    pub(super) async fn list_folder(
        &self,
        path: String,
        page: page::Request,
        deadline: Duration,
    ) -> Result<page::Page<FileInfo>, Fault> {
        let request = pb::ListRequest {
            path,
            page_size: page.rows(limits::FILE_PAGE_DEFAULT, limits::FILE_PAGE_MAX),
            page_token: page.token,
        };
        let response = self
            .ask(deadline, |channel| {
                let request = request.clone();
                async move { files(channel).list(request).await }
            })
            .await?;
        let next = response.next_page_token;
        Ok(page::Page {
            items: response.entries.into_iter().map(wire::file_info).collect(),
            next: (!next.is_empty()).then_some(next),
        })
    }

    pub(super) async fn open_read(
        &self,
        call: ReadCall,
        deadline: Duration,
    ) -> Result<ReadStream, Fault> {
        let request = pb::ReadRequest {
            path: self.path_of(&call.file)?,
            offset: call.offset,
            length: call.length,
        };
        let (mut chunks, permit) = self
            .open(
                deadline,
                |rest| self.link.files(rest),
                |channel| {
                    let request = request.clone();
                    async move { files(channel).read(request).await }
                },
            )
            .await?;
        let (name, view) = (self.name.clone(), self.view.clone());
        Ok(Box::pin(async_stream::stream! {
            let _permit = permit;
            loop {
                match chunks.message().await {
                    Ok(Some(chunk)) => yield Ok(wire::read_chunk(chunk)),
                    Ok(None) => return,
                    Err(status) => {
                        let fault = super::faults::failed(&name, &view.borrow(), &status);
                        yield Err(fault);
                        return;
                    }
                }
            }
        }))
    }

    fn path_of(&self, file: &FileRef) -> Result<String, Fault> {
        let (key, file) = match file {
            FileRef::Path(path) => return Ok(path.clone()),
            FileRef::Run(key, file) => (*key, *file),
        };
        let facts = self.facts.borrow();
        let home = facts.as_ref().map(|facts| facts.agent_home.as_str());
        let home = home.ok_or_else(|| {
            Fault::new(
                Reason::HostUnreachable,
                format!("host `{}` was not reached yet", self.name),
            )
        })?;
        Ok(run_path(home, key, file))
    }
}

fn run_path(home: &str, key: RunKey, file: RunFile) -> String {
    let name = match file {
        RunFile::Stdout => "stream.jsonl",
        RunFile::Stderr => "stderr.log",
    };
    format!("{home}/sessions/{}/runs/{}/{name}", key.session, key.run)
}
