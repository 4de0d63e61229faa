//! The keeper's end of the program's stdin.

use std::{fs::File, io};

use rustix::{fs::OFlags, io::Errno};

use crate::run_dir::{FIFO, RunDir, StdinKind};

/// Both ends of a fresh FIFO: the program's, and the keeper's.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) program: File,
    pub(super) keeper: Stdin,
}

/// What the keeper holds of the FIFO.
#[derive(Debug)]
pub(super) enum Stdin {
    /// The write end, non-blocking.
    Open(File),
    /// No write end. Of a read end nothing is ever read: it serves to count what the program
    /// left unread, and keeps that countable after the program's own end is gone.
    Closed(Option<File>),
}

impl Stdin {
    /// Makes the FIFO and opens both ends.
    pub(super) fn create(dir: &RunDir, kind: StdinKind) -> io::Result<Ends> {
        dir.make_fifo()?;
        // Opened read-write first, so that opening either end alone does not wait.
        let both = dir.open_file(FIFO, OFlags::RDWR)?;
        let writer = dir.open_file(FIFO, OFlags::WRONLY | OFlags::NONBLOCK)?;
        let program = match kind {
            StdinKind::Held => both,
            StdinKind::Closable => dir.open_file(FIFO, OFlags::RDONLY)?,
        };
        Ok(Ends {
            program,
            keeper: Self::Open(writer),
        })
    }

    /// Opens the write end of a living program's FIFO; closed when nobody reads there.
    pub(super) fn reopen(dir: &RunDir) -> io::Result<Self> {
        match dir.open_file(FIFO, OFlags::WRONLY | OFlags::NONBLOCK) {
            Ok(writer) => Ok(Self::Open(writer)),
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                Ok(Self::closed(dir))
            }
            Err(error) => Err(error),
        }
    }

    /// Without a write end.
    pub(super) fn closed(dir: &RunDir) -> Self {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        Self::Closed(dir.open_file(FIFO, flags).ok())
    }

    /// Closes the write end. The count's read end is opened before, so that no moment is
    /// without one.
    pub(super) fn close(&mut self, dir: &RunDir) {
        if self.is_open() {
            *self = Self::closed(dir);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    pub(super) fn writer(&self) -> Option<&File> {
        match self {
            Self::Open(writer) => Some(writer),
            Self::Closed(_) => None,
        }
    }

    /// Bytes in the pipe that nobody read; `None` when it cannot be measured.
    pub(super) fn unread_bytes(&self) -> Option<u64> {
        let (Self::Open(end) | Self::Closed(Some(end))) = self else {
            return None;
        };
        rustix::io::ioctl_fionread(end).ok()
    }
}
