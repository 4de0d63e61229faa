//! The folder of a run: the names in it, its records, and how they are read and written.
//!
//! Everything is reached through the folder's own handle, so that long paths work and a
//! renamed parent cannot redirect a read or a write.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, FlockOperation, Mode, OFlags},
    io::Errno,
};
use serde::{Serialize, de::DeserializeOwned};

mod home;
mod journal;
mod records;
mod reserve;

pub use home::{Home, RunKey, Scan};
pub use journal::{Delivery, JournalRead, read_journal};
pub use records::{
    EndKind, ExitRecord, JournalRecord, Meta, ProcRecord, RungAction, StdinKind, stdin_kind,
};
pub use reserve::{Reserve, is_full};

/// What the agent wrote before the start.
pub const META: &str = "meta.json";
/// Identities of the keeper and the program, written right after the spawn.
pub const PROC: &str = "proc.json";
/// Held with `flock` by the living keeper.
pub const LOCK: &str = "lock";
/// The program's stdin.
pub const FIFO: &str = "stdin.fifo";
/// The program's stdout.
pub const STREAM: &str = "stream.jsonl";
/// The program's stderr.
pub const STDERR: &str = "stderr.log";
/// Deliveries, stops and signals of the run.
pub const JOURNAL: &str = "journal.jsonl";
/// How the run ended.
pub const EXIT: &str = "exit.json";
/// Where the keeper listens.
pub const SOCKET: &str = "keeper.sock";
/// Space kept back for a full disk.
pub const RESERVE: &str = "reserve";

/// A record longer than this was not written by us.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;

/// Whether a keeper lives, by the lock that it holds for life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// A living keeper holds it.
    Held,
    /// Nobody holds it: there was a keeper, and it is gone.
    Free,
    /// There is no lock file: no keeper ever came so far.
    Missing,
}

/// What there is to be seen of a run's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitLook {
    /// No record.
    Missing,
    /// A file of its name, and it is no record of an end: torn, garbage, or something else.
    /// Nothing follows from it.
    Damaged,
    /// The record.
    Recorded(Box<ExitRecord>),
}

/// An open run folder.
#[derive(Debug)]
pub struct RunDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl RunDir {
    /// Opens an existing folder; never through a link in its last part.
    ///
    /// # Errors
    /// What `open` says; `NotFound` when it does not exist.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let fd = rustix::fs::open(
            &path,
            OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
        )?;
        Ok(Self { fd, path })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a file in the folder that stays below the 107 bytes of a socket address,
    /// however long the folder's own path is. Valid while `self` lives, in this process.
    pub fn short_path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd()))
    }

    /// Opens a file of the folder, close-on-exec, never through a link. New files are 0600.
    ///
    /// # Errors
    /// What `openat` says.
    pub fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(File::from(rustix::fs::openat(&self.fd, name, flags, mode)?))
    }

    /// Whether something of that name exists.
    ///
    /// # Errors
    /// Any failure but absence: a failed look is not taken for absence.
    pub fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.size(name)?.is_some())
    }

    /// Size of a file in bytes; `None` when it does not exist.
    ///
    /// # Errors
    /// Any failure but absence.
    pub fn size(&self, name: &str) -> io::Result<Option<u64>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(u64::try_from(stat.st_size).unwrap_or_default())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a JSON record; `None` when it does not exist. Unknown fields are ignored.
    ///
    /// # Errors
    /// Any failure to read; `InvalidData` when it is no such record.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let file = match self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
        let record = serde_json::from_slice(&bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some(record))
    }

    /// Writes a JSON record so that a reader sees the old one or the new one, and a crash
    /// leaves one of them: temporary file, fsync, rename, fsync of the folder.
    ///
    /// # Errors
    /// What the file system says; the record is then as it was.
    pub fn write<T: Serialize>(&self, name: &str, record: &T) -> io::Result<()> {
        let bytes = serde_json::to_vec(record).map_err(io::Error::other)?;
        let temporary = format!("{name}.tmp");
        let written = self.write_temporary(&temporary, &bytes);
        let renamed = written.and_then(|()| {
            rustix::fs::renameat(&self.fd, &temporary, &self.fd, name).map_err(io::Error::from)
        });
        if let Err(error) = renamed {
            // The half-written file would only take space on a disk that is short of it.
            let _ = rustix::fs::unlinkat(&self.fd, &temporary, AtFlags::empty());
            return Err(error);
        }
        rustix::fs::fsync(&self.fd)?;
        Ok(())
    }

    fn write_temporary(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Removes a file; its absence is no error.
    ///
    /// # Errors
    /// Any failure but absence.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the stdin FIFO anew, mode 0600.
    ///
    /// # Errors
    /// What `unlinkat` and `mkfifoat` say.
    pub fn make_fifo(&self) -> io::Result<()> {
        self.remove(FIFO)?;
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(&self.fd, FIFO, FileType::Fifo, mode, 0)?;
        Ok(())
    }

    /// Makes names that were created or removed durable.
    ///
    /// # Errors
    /// What `fsync` says.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Takes the run's lock for as long as the returned file lives; `None` when another
    /// process holds it.
    ///
    /// # Errors
    /// What `openat` and `flock` say.
    pub fn try_lock(&self) -> io::Result<Option<File>> {
        let file = self.open_file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks whether a keeper holds the lock. The look itself holds a shared lock for an
    /// instant; a keeper that starts at that instant tries again.
    ///
    /// # Errors
    /// Any failure but absence.
    pub fn lock_state(&self) -> io::Result<LockState> {
        let file = match self.open_file(LOCK, OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockState::Missing),
            Err(error) => return Err(error),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(LockState::Free),
            Err(Errno::WOULDBLOCK) => Ok(LockState::Held),
            Err(error) => Err(error.into()),
        }
    }

    /// `meta.json`. See [`RunDir::read`].
    ///
    /// # Errors
    /// See [`RunDir::read`].
    pub fn meta(&self) -> io::Result<Option<Meta>> {
        self.read(META)
    }

    /// `proc.json`. See [`RunDir::read`].
    ///
    /// # Errors
    /// See [`RunDir::read`].
    pub fn proc(&self) -> io::Result<Option<ProcRecord>> {
        self.read(PROC)
    }

    /// `exit.json`, told apart: not there, damaged, or a record.
    ///
    /// # Errors
    /// It is there and cannot be read: that is no evidence for anything.
    pub fn look_at_exit(&self) -> io::Result<ExitLook> {
        match self.exit() {
            Ok(None) => Ok(ExitLook::Missing),
            Ok(Some(record)) if record.is_whole() => Ok(ExitLook::Recorded(Box::new(record))),
            Ok(Some(_)) => Ok(ExitLook::Damaged),
            Err(error) if is_no_record(&error) => Ok(ExitLook::Damaged),
            Err(error) => Err(error),
        }
    }

    /// `exit.json`. See [`RunDir::read`].
    ///
    /// # Errors
    /// See [`RunDir::read`].
    pub fn exit(&self) -> io::Result<Option<ExitRecord>> {
        self.read(EXIT)
    }
}

/// What was read is no record of ours: other content, a link, a folder.
fn is_no_record(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    error.kind() == io::ErrorKind::InvalidData || matches!(errno, Some(Errno::LOOP | Errno::ISDIR))
}

impl AsFd for RunDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, RunDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::open(temp.path()).unwrap();
        (temp, dir)
    }

    #[test]
    fn records_are_replaced_whole_and_leave_no_temporary_file() {
        let (temp, dir) = folder();
        assert_eq!(dir.proc().unwrap(), None);
        let record = ProcRecord {
            boot_id: "boot".into(),
            ..ProcRecord::default()
        };
        dir.write(PROC, &record).unwrap();
        dir.write(PROC, &record).unwrap();
        assert_eq!(dir.proc().unwrap(), Some(record));
        let names: Vec<_> = std::fs::read_dir(temp.path()).unwrap().collect();
        assert_eq!(names.len(), 1);
    }

    #[test]
    fn a_damaged_record_is_an_error_and_not_absence() {
        let (temp, dir) = folder();
        std::fs::write(temp.path().join(EXIT), b"{\"code\":").unwrap();
        assert_eq!(dir.exit().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn s29_a_damaged_end_is_told_from_none_and_from_one_that_cannot_be_read() {
        let (temp, dir) = folder();
        let path = temp.path().join(EXIT);
        assert_eq!(dir.look_at_exit().unwrap(), ExitLook::Missing);
        for damaged in ["", "{\"code\":", "garbage", "{}", "[1]", "{\"code\":0}"] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(dir.look_at_exit().unwrap(), ExitLook::Damaged, "{damaged}");
        }
        let record = ExitRecord {
            code: Some(0),
            at_us: 1,
            ..ExitRecord::default()
        };
        dir.write(EXIT, &record).unwrap();
        let seen = dir.look_at_exit().unwrap();
        assert_eq!(seen, ExitLook::Recorded(Box::new(record)));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(dir.look_at_exit().unwrap(), ExitLook::Damaged);
        for errno in [Errno::ACCESS, Errno::IO, Errno::STALE] {
            assert!(!is_no_record(&errno.into()), "{errno}");
        }
    }

    #[test]
    fn the_lock_is_seen_while_it_is_held_and_free_after() {
        let (_temp, dir) = folder();
        assert_eq!(dir.lock_state().unwrap(), LockState::Missing);
        let lock = dir.try_lock().unwrap().unwrap();
        assert_eq!(dir.lock_state().unwrap(), LockState::Held);
        assert!(dir.try_lock().unwrap().is_none());
        drop(lock);
        assert_eq!(dir.lock_state().unwrap(), LockState::Free);
    }

    #[test]
    fn links_are_not_followed() {
        let (temp, dir) = folder();
        std::os::unix::fs::symlink("/etc/passwd", temp.path().join(META)).unwrap();
        assert!(dir.meta().is_err());
    }
}
