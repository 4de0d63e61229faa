//! "Only one of us": an advisory lock on a file, freed by the kernel when its holder dies.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::files::identity;

/// [`read_holder`] takes the lock for a moment to see whether it is free; a start that meets
/// that moment tries again this often.
const ATTEMPTS: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

/// A lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another living process holds it.
    #[error("{} is held by {}", path.display(), holder(*pid))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The holder as it wrote itself down; `None` when it has not done so yet.
        pid: Option<u32>,
    },
    /// The file cannot be made, opened or locked.
    #[error("lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}

/// A held lock. Dropping it, or the death of the process, frees it. The file stays: to remove
/// it would let two processes hold two different files of one name.
#[derive(Debug)]
pub struct LockFile {
    file: File,
    path: PathBuf,
}

impl LockFile {
    /// Takes the lock without waiting (at most 50 ms) and writes this process's id into it.
    ///
    /// # Errors
    /// [`LockError::Locked`] when another process, or another handle of this one, has it.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let io = |source: io::Error| LockError::Io {
            path: path.to_owned(),
            source,
        };
        let mut pid = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(BETWEEN_ATTEMPTS);
            }
            let mut file = open(path, true).map_err(io)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    pid = read_pid(&mut file).map_err(io)?;
                    continue;
                }
                Err(errno) => return Err(io(errno.into())),
            }
            if !is_still_at(&file, path).map_err(io)? {
                continue;
            }
            write_pid(&mut file).map_err(io)?;
            return Ok(Self {
                file,
                path: path.to_owned(),
            });
        }
        Err(LockError::Locked {
            path: path.to_owned(),
            pid,
        })
    }

    /// Where the lock is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The locked file: handed to a successor that takes over without a gap.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// What a look at a lock file showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody holds it, or there is no such file.
    Free,
    /// A living process holds it; its id if it has written it down.
    Held {
        /// The process id in the file.
        pid: Option<u32>,
    },
}

/// Whether a living process holds the lock at `path`, without keeping it.
///
/// # Errors
/// When the file exists and cannot be read.
pub fn read_holder(path: &Path) -> io::Result<Holder> {
    let mut file = match open(path, false) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Holder::Free),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Holder::Free),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Holder::Held {
            pid: read_pid(&mut file)?,
        }),
        Err(errno) => Err(errno.into()),
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(create)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed())
        .open(path)
}

/// Somebody may have replaced the file between our open and our lock.
fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    match open(path, false) {
        Ok(now) => Ok(identity(&now)? == identity(file)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_pid(file: &mut File) -> io::Result<Option<u32>> {
    let mut text = String::new();
    file.rewind()?;
    file.take(32).read_to_string(&mut text)?;
    Ok(text.trim().parse().ok())
}
