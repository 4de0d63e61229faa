//! The bytes of a delivery: in memory, or in a spool file that is never read whole.

use std::{fmt::Write as _, fs::File, io, os::unix::fs::FileExt as _};

use bytes::Bytes;
use muster_proto::keeper::{Deliver, FailureReason, deliver};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::run_dir::RunDir;

/// A longer payload comes as a spool file.
pub const INLINE_BYTES_MAX: u64 = 256 * 1024;
/// Longest payload.
pub const PAYLOAD_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// One read of a spool file.
const PIECE: usize = 64 * 1024;
/// An id longer than this was not made by us.
const ID_BYTES_MAX: usize = 128;

/// Why a payload is refused; nothing was done.
pub(super) type Refusal = (FailureReason, String);

#[derive(Debug)]
pub(super) enum Payload {
    Inline(Bytes),
    Spool(File, u64),
}

impl Payload {
    /// Opens and checks the payload of a call.
    pub(super) fn of(dir: &RunDir, call: &Deliver) -> Result<Self, Refusal> {
        check_id(&call.delivery_id)?;
        let payload = match &call.payload {
            Some(deliver::Payload::Inline(bytes)) => Self::Inline(bytes.clone()),
            Some(deliver::Payload::SpoolFile(name)) => Self::spooled(dir, name)?,
            None => return Err(invalid("a delivery needs a payload")),
        };
        let limit = match payload {
            Self::Inline(_) => INLINE_BYTES_MAX,
            Self::Spool(..) => PAYLOAD_BYTES_MAX,
        };
        if payload.length() > limit {
            let message = format!("{} bytes, at most {limit} are allowed", payload.length());
            return Err((FailureReason::TooLarge, message));
        }
        payload.check_lines(call.single_line)?;
        Ok(payload)
    }

    fn spooled(dir: &RunDir, name: &str) -> Result<Self, Refusal> {
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return Err(invalid("a spool file is a name in the run folder"));
        }
        let opened = dir.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK);
        let file = opened.map_err(|error| invalid(&format!("open {name}: {error}")))?;
        match file.metadata() {
            Ok(meta) if meta.is_file() => Ok(Self::Spool(file, meta.len())),
            Ok(_) => Err(invalid("a spool file is an ordinary file")),
            Err(error) => Err(internal(&error)),
        }
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Spool(_, length) => *length,
        }
    }

    fn check_lines(&self, single: bool) -> Result<(), Refusal> {
        let mut newlines = 0_u64;
        let mut last = None;
        self.each_piece(|piece| {
            newlines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            last = piece.last().copied().or(last);
        })
        .map_err(|error| internal(&error))?;
        if last != Some(b'\n') {
            let message = "the payload does not end with a newline".to_owned();
            return Err((FailureReason::NotALine, message));
        }
        if single && newlines != 1 {
            let message = format!("one line was expected, there are {newlines}");
            return Err((FailureReason::NotALine, message));
        }
        Ok(())
    }

    /// First 16 hex digits of the SHA-256.
    pub(super) fn digest(&self) -> io::Result<String> {
        let mut hasher = Sha256::new();
        self.each_piece(|piece| hasher.update(piece))?;
        let digest = hasher.finalize();
        Ok(digest.iter().take(8).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }

    fn each_piece(&self, mut visit: impl FnMut(&[u8])) -> io::Result<()> {
        let mut offset = 0;
        while offset < self.length() {
            let piece = self.piece(offset)?;
            visit(&piece);
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Some bytes from `offset` on; none only at the end.
    ///
    /// # Errors
    /// What reading says; `UnexpectedEof` when the spool file was cut meanwhile.
    pub(super) fn piece(&self, offset: u64) -> io::Result<Bytes> {
        match self {
            Self::Inline(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(bytes.slice(start.min(bytes.len())..))
            }
            Self::Spool(file, length) => {
                let left = usize::try_from(length.saturating_sub(offset)).unwrap_or(PIECE);
                let mut piece = vec![0; left.min(PIECE)];
                let read = file.read_at(&mut piece, offset)?;
                if read == 0 && left > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                piece.truncate(read);
                Ok(piece.into())
            }
        }
    }
}

pub(super) fn check_id(id: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(invalid("an id has 1 to 128 bytes"));
    }
    Ok(())
}

pub(super) fn invalid(message: &str) -> Refusal {
    (FailureReason::Invalid, message.to_owned())
}

pub(super) fn internal(error: &io::Error) -> Refusal {
    (FailureReason::Internal, error.to_string())
}
