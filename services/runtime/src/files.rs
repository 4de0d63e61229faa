//! Private folders and files that are whole or absent.

use std::{
    ffi::OsStr,
    fs::{DirBuilder, File},
    io::{self, Write as _},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{AtFlags, Mode, OFlags};

/// A folder that is not safe to keep sockets and state in, and why.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    /// It exists but other users could read or change it, or it is not ours.
    #[error("{} is not a private folder: {problem}", path.display())]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// It cannot be made or opened.
    #[error("open folder {}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Opens the folder `path`, made with mode 0700 together with its missing parents, after
/// having checked that it belongs to this user, that nobody else has any right to it, and
/// that it is no symbolic link. What is opened is what was checked.
///
/// # Errors
/// [`PrivateDirError`]; an existing folder is never repaired, because somebody else may
/// already have put something into it.
pub fn private_dir(path: &Path) -> Result<OwnedFd, PrivateDirError> {
    let io = |source: io::Error| PrivateDirError::Io {
        path: path.to_owned(),
        source,
    };
    let not_safe = |problem| PrivateDirError::Unsafe {
        path: path.to_owned(),
        problem,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let dir = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(dir) => dir,
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
            return Err(not_safe("it is a symbolic link"));
        }
        Err(errno) => return Err(io(errno.into())),
    };
    let stat = rustix::fs::fstat(&dir).map_err(|errno| io(errno.into()))?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(not_safe("it belongs to another user"));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(not_safe("other users have rights to it (chmod 700 it)"));
    }
    Ok(dir)
}

/// Writes a file of mode 0600 so that after a crash at any moment either the old content,
/// or none, or all of the new one is there: temporary file, fsync, rename, fsync of the folder.
///
/// Blocking; the last of several writers wins.
///
/// # Errors
/// Any step's error; the temporary file is removed then.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "path has no file name");
    let name = path.file_name().ok_or_else(invalid)?;
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(invalid()),
    };
    let dir = File::open(parent)?;
    let mut temporary = name.to_owned();
    temporary.push(format!(
        ".{}.{}.tmp",
        std::process::id(),
        COUNTER.fetch_add(1, Ordering::Relaxed)
    ));
    let result = write_and_rename(&dir, &temporary, name, content);
    if result.is_err() {
        let _ = rustix::fs::unlinkat(&dir, &temporary, AtFlags::empty());
    }
    result
}

fn write_and_rename(dir: &File, temporary: &OsStr, name: &OsStr, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(fd);
    file.write_all(content)?;
    file.sync_all()?;
    rustix::fs::renameat(dir, temporary, dir, name)?;
    dir.sync_all()
}

/// Device and inode: whether two handles are the same file while both are open.
pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}
