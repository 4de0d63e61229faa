//! Byte ranges of regular files.

use std::{fs::File, io::IoSliceMut, os::unix::fs::FileExt as _};

use bytes::{Bytes, BytesMut};
use muster_domain::{Fault, limits};
use muster_proto::agent::{HeadRequest, HeadResponse, ReadRequest};
use rustix::{
    fs::{Advice, fadvise},
    io::{Errno, ReadWriteFlags, preadv2},
};

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
    chunk: BytesMut,
    /// How much of `chunk` was read.
    filled: usize,
    /// The chunk given last: its memory is used again once its receiver has let go of it.
    given: Option<Bytes>,
    /// The file system cannot say whether a read would wait.
    always_waits: bool,
}

/// What reading on came to.
#[derive(Debug)]
pub(crate) enum Next {
    /// Bytes, and their offset.
    Chunk(u64, Bytes),
    /// Nothing more, also when the file has shrunk.
    End,
    /// What comes next is not in memory: read it where waiting harms nobody.
    Waits,
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
        // Only a hint: the kernel reads further ahead of us.
        let _ = fadvise(&file, offset, None, Advice::Sequential);
        Ok(Self {
            file,
            path: request.path.clone(),
            file_size,
            offset,
            end: offset + length,
            chunk: BytesMut::new(),
            filled: 0,
            given: None,
            always_waits: false,
        })
    }

    /// Whether there is nothing to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.offset >= self.end
    }

    /// The next chunk if it is in memory: copying it takes less time than waking another
    /// thread, and the copy is still in the processor's cache when it is sent.
    pub(crate) fn next(&mut self) -> Result<Next, Fault> {
        if self.always_waits {
            return Ok(Next::Waits);
        }
        self.read(ReadWriteFlags::NOWAIT)
    }

    /// The next chunk. Blocks until the disk gave it.
    pub(crate) fn wait_for_next(&mut self) -> Result<Next, Fault> {
        self.read(ReadWriteFlags::empty())
    }

    fn read(&mut self, flags: ReadWriteFlags) -> Result<Next, Fault> {
        let rest = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let wanted = rest.min(limits::FRAME_BYTES_MAX);
        if self.chunk.len() < wanted {
            self.chunk = self.take_memory(wanted);
        }
        while self.filled < wanted {
            let at = self.offset + self.filled as u64;
            let into = &mut self.chunk[self.filled..wanted];
            match preadv2(&self.file, &mut [IoSliceMut::new(into)], at, flags) {
                Ok(0) => break,
                Ok(read) => self.filled += read,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !flags.is_empty() => return Ok(Next::Waits),
                Err(Errno::OPNOTSUPP | Errno::NOSYS) if !flags.is_empty() => {
                    self.always_waits = true;
                    return Ok(Next::Waits);
                }
                Err(errno) => return Err(fault_of(errno, &self.path)),
            }
        }
        if self.filled == 0 {
            return Ok(Next::End);
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.truncate(self.filled);
        let (offset, data) = (self.offset, chunk.freeze());
        self.offset += std::mem::take(&mut self.filled) as u64;
        self.given = Some(data.clone());
        Ok(Next::Chunk(offset, data))
    }

    /// Memory for a chunk: that of the last one if nobody has it any more. New memory for
    /// every chunk would cost as much as reading it.
    fn take_memory(&mut self, wanted: usize) -> BytesMut {
        let used = self
            .given
            .take()
            .and_then(|given| given.try_into_mut().ok());
        match used {
            Some(memory) if memory.len() >= wanted => memory,
            _ => BytesMut::zeroed(wanted),
        }
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
