//! Byte ranges of regular files.

use std::{fs::File, os::unix::fs::FileExt as _};

use bytes::{Bytes, BytesMut};
use muster_domain::{Fault, limits};
use muster_proto::agent::{HeadRequest, HeadResponse, ReadRequest};
use rustix::{buffer::spare_capacity, io::Errno};

use super::{Roots, fault_of, fault_of_io};

/// An open range: read chunk by chunk, up to the size that the file had when it was opened.
#[derive(Debug)]
pub(crate) struct Range {
    file: File,
    path: String,
    /// Size of the file when it was opened.
    pub(crate) file_size: u64,
    /// Offset of the next chunk.
    pub(crate) offset: u64,
    end: u64,
}

impl Range {
    /// Opens the range of a request. A start beyond the end of the file is an empty range.
    pub(crate) fn open(roots: &Roots, request: &ReadRequest) -> Result<Self, Fault> {
        let file = roots.find(&request.path)?.open_file()?;
        let metadata = file.metadata();
        let file_size = metadata
            .map_err(|error| fault_of_io(error, &request.path))?
            .len();
        let offset = match u64::try_from(request.offset) {
            Ok(offset) => offset.min(file_size),
            Err(_) => file_size.saturating_sub(request.offset.unsigned_abs()),
        };
        let rest = file_size - offset;
        let length = request.length.map_or(rest, |length| length.min(rest));
        Ok(Self {
            file,
            path: request.path.clone(),
            file_size,
            offset,
            end: offset + length,
        })
    }

    /// Whether there is nothing to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.offset >= self.end
    }

    /// The next chunk with its offset; `None` at the end, also when the file has shrunk.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Bytes)>, Fault> {
        let rest = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        if rest == 0 {
            return Ok(None);
        }
        let wanted = rest.min(limits::FRAME_BYTES_MAX);
        // Not zeroed first: at full speed that would be a third of the work.
        let mut chunk = Vec::with_capacity(wanted);
        while chunk.len() < wanted {
            let at = self.offset + chunk.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut chunk), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(fault_of(errno, &self.path)),
            }
        }
        if chunk.is_empty() {
            return Ok(None);
        }
        // The allocator may have given more room than was asked for.
        chunk.truncate(wanted);
        let offset = self.offset;
        self.offset += chunk.len() as u64;
        Ok(Some((offset, Bytes::from(chunk))))
    }
}

/// The first bytes of a file.
pub(crate) fn head(roots: &Roots, request: &HeadRequest) -> Result<HeadResponse, Fault> {
    let length = match request.length {
        0 => limits::FRAME_BYTES as u32,
        length => length.min(limits::FILE_HEAD_BYTES),
    };
    let file = roots.find(&request.path)?.open_file()?;
    let fault = |error| fault_of_io(error, &request.path);
    let file_size = file.metadata().map_err(fault)?.len();
    let wanted = u64::from(length).min(file_size);
    let mut data = BytesMut::zeroed(usize::try_from(wanted).unwrap_or(0));
    let read = read_full(&file, &mut data, 0).map_err(fault)?;
    data.truncate(read);
    Ok(HeadResponse {
        data: data.freeze(),
        file_size,
    })
}

/// Fills `buf` from `offset`; less only at the end of the file.
pub(crate) fn read_full(file: &File, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(&mut buf[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
