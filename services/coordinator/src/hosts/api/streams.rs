//! Outputs and files of a host, as they are pulled.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use muster_domain::{Fault, Timestamp};

use super::RunKey;

/// Which output of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunFile {
    /// What the program prints.
    Stdout,
    /// Its complaints.
    Stderr,
}

/// A file of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileRef {
    /// By path.
    Path(String),
    /// An output of a run.
    Run(RunKey, RunFile),
}

/// How a tail cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Complete lines, many in one frame.
    Lines,
    /// Whatever is there; partial lines too.
    Chunks,
}

/// Where a tail begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The first byte.
    Beginning,
    /// What comes from now on.
    End,
    /// This many bytes before the end.
    LastBytes(u64),
    /// A resume point that a tail gave ([`TailEvent::Data`]'s `next`).
    Cursor(Vec<u8>),
    /// This byte of an output of a run (append-only, so the number is enough; R1). Beyond
    /// the end: `BAD_CURSOR`.
    Offset(u64),
}

/// A file to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowCall {
    /// Which file.
    pub file: FileRef,
    /// How it is cut.
    pub framing: Framing,
    /// Where it begins.
    pub start: Start,
    /// Go on until the run's end; otherwise end at what is there now.
    pub follow: bool,
    /// Bytes after the run's end too.
    pub late_bytes: bool,
}

/// Events of a tail, pulled one by one.
pub type TailStream = Pin<Box<dyn Stream<Item = Result<TailEvent, Fault>> + Send>>;

/// One event of a tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailEvent {
    /// The file is open.
    Opened {
        /// Its size.
        size: u64,
    },
    /// Bytes.
    Data {
        /// Offset of the first.
        offset: u64,
        /// At most 256 KiB.
        bytes: Bytes,
        /// Where to resume after them; opaque.
        next: Vec<u8>,
        /// Offset of `next`; stays at a line's start until its newline is there.
        next_offset: u64,
        /// The last line goes on in the next frame.
        line_continues: bool,
        /// The last line has no newline and never will.
        torn: bool,
    },
    /// A line that is too long to be sent; read it by range.
    LongLine {
        /// Offset of its first byte.
        offset: u64,
        /// Its bytes, with the newline unless torn.
        length: u64,
        /// Where to resume after it; opaque.
        next: Vec<u8>,
        /// Offset of `next`.
        next_offset: u64,
        /// It has no newline and never will.
        torn: bool,
    },
    /// The file shrank; reading goes on at its beginning.
    Truncated {
        /// Its size.
        size: u64,
    },
    /// The name is another file now.
    Replaced,
    /// Bytes from here on cannot be had any more.
    Gap {
        /// First byte.
        from: u64,
        /// Closed name: `FILE_GONE`, `GUARD_MISMATCH`, `SHORTER`, `UNSPECIFIED`.
        reason: &'static str,
    },
    /// The name is gone; the tail waits for it.
    Removed,
    /// How far the tail is; every 5 s and at the first end of file.
    Progress {
        /// Offset reached.
        offset: u64,
        /// Size of the file.
        size: u64,
        /// Everything was sent.
        at_eof: bool,
    },
    /// Everything up to the run's end was sent (or, without `follow`, what was there).
    End {
        /// Offset of the end.
        offset: u64,
        /// Bytes after it.
        late_bytes: u64,
    },
}

/// A byte range to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCall {
    /// Which file.
    pub file: FileRef,
    /// First byte; negative = from the end.
    pub offset: i64,
    /// Bytes; `None` = to the end.
    pub length: Option<u64>,
}

/// Pieces of a file, pulled one by one.
pub type ReadStream = Pin<Box<dyn Stream<Item = Result<ReadChunk, Fault>> + Send>>;

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadChunk {
    /// Offset in the file.
    pub offset: u64,
    /// At most 256 KiB.
    pub data: Bytes,
    /// Size of the file when it was opened; in the first piece.
    pub file_size: Option<u64>,
}

/// What a name in a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Something that this version does not know.
    Unknown,
    /// Regular file.
    File,
    /// Folder.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Device.
    Device,
}

/// One name of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Name; invalid bytes replaced.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Last change of its content.
    pub modified_at: Option<Timestamp>,
    /// Permission bits.
    pub mode: u32,
    /// Where a link points to; empty for others.
    pub link_target: String,
}

/// A file, described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub info: FileInfo,
    /// Path with links resolved.
    pub resolved: String,
}
