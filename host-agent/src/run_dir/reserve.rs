//! Space kept back so that a full disk cannot hide how a run ended.

use std::{
    fs::File,
    io::{self, Write as _},
};

use rustix::{
    fs::{FallocateFlags, OFlags},
    io::Errno,
};

use super::{RESERVE, RunDir};

/// Room for an exit record (8 KiB of stderr tail may grow six-fold when escaped) and for
/// the outcome of what is in flight.
const BYTES: u64 = 128 * 1024;

/// The preallocated file.
#[derive(Debug)]
pub struct Reserve {
    file: Option<File>,
}

impl Reserve {
    /// Allocates the space.
    ///
    /// # Errors
    /// `StorageFull` when there is none: then nothing may be started.
    pub fn take(dir: &RunDir) -> io::Result<Self> {
        let mut file = dir.open_file(RESERVE, OFlags::RDWR | OFlags::CREATE)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BYTES) {
            Ok(()) => {}
            // A file system without preallocation: write the blocks.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let zeros = [0; 4096];
                for _ in 0..BYTES / 4096 {
                    file.write_all(&zeros)?;
                }
                file.sync_all()?;
            }
            Err(error) => {
                // What was allocated before it failed goes back at once.
                let _ = file.set_len(0);
                return Err(error.into());
            }
        }
        Ok(Self { file: Some(file) })
    }

    /// Without space: for a keeper that adopts on a full disk.
    pub fn none() -> Self {
        Self { file: None }
    }

    /// Gives the space back to the file system; true the first time.
    pub fn free(&mut self) -> bool {
        self.file.take().is_some_and(|file| file.set_len(0).is_ok())
    }
}

/// The disk, or the user's share of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
