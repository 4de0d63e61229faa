//! Unix sockets: bound where only this user can reach them, found again when stale,
//! and at paths longer than a socket address holds.
//!
//! The folder is opened and checked once, and everything else goes through that handle
//! (`/proc/self/fd/N/name`), so neither a long path nor a swapped folder matters.

use std::{
    fs::Permissions,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{AtFlags, FlockOperation, Mode, OFlags, flock},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use tokio::net::{UnixListener, UnixStream};

use crate::files::{PrivateDirError, private_dir};

/// Longer paths go through the folder's handle. The kernel's own limit is 107.
const LONGEST_PLAIN_PATH: usize = 100;

/// How long a bind waits for another one in the same folder to finish.
const FOLDER_LOCK_ATTEMPTS: u32 = 200;
const FOLDER_LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A socket was not bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A living process listens there.
    #[error("{} is in use by a living process", path.display())]
    Occupied {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket has that name; it is left alone.
    #[error("{} exists and is no socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The folder is missing, or not private.
    #[error(transparent)]
    Folder(#[from] PrivateDirError),
    /// Any other failure.
    #[error("bind {}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Removes the bound socket's name when it is dropped, unless another process has put its
/// own socket there since.
#[derive(Debug)]
pub struct SocketGuard {
    dir: OwnedFd,
    path: PathBuf,
    name: PathBuf,
    /// Keeps the inode alive, else its number could be given to the next socket of that name.
    inode: OwnedFd,
    owned: bool,
}

impl SocketGuard {
    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the name in place: somebody takes it over.
    pub fn keep(mut self) {
        self.owned = false;
    }

    fn is_still_ours(&self) -> bool {
        let stat = rustix::fs::fstat(&self.inode).map(|stat| (stat.st_dev, stat.st_ino));
        match (stat, named(&self.dir, &self.name)) {
            (Ok(ours), Ok(Some(found))) => found.identity == ours,
            _ => false,
        }
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        if self.owned && self.is_still_ours() {
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Binds a listener at `path`, mode 0600, in a folder of mode 0700 that is made when missing.
/// A socket that nobody listens on any more is replaced.
///
/// Waits up to two seconds for another bind in the same folder. Cancel safe.
///
/// # Errors
/// [`BindError`].
pub async fn bind(path: &Path) -> Result<(UnixListener, SocketGuard), BindError> {
    let io = |source: io::Error| BindError::Io {
        path: path.to_owned(),
        source,
    };
    let (parent, name) = split(path).map_err(io)?;
    let dir = private_dir(parent)?;
    // Two starters that both see one stale socket must not remove each other's new one.
    let folder_lock = lock_folder(parent).await.map_err(io)?;
    let through = through(&dir, name);
    if let Some(found) = named(&dir, name).map_err(io)? {
        if !found.is_socket {
            return Err(BindError::NotASocket {
                path: path.to_owned(),
            });
        }
        if is_alive(&through).map_err(io)? {
            return Err(BindError::Occupied {
                path: path.to_owned(),
            });
        }
        tracing::info!(path = %path.display(), "stale socket removed");
        rustix::fs::unlinkat(&dir, name, AtFlags::empty()).map_err(|errno| io(errno.into()))?;
    }
    let listener = UnixListener::bind(&through).map_err(io)?;
    // Nobody else can enter the folder, so the moment before this line is harmless.
    std::fs::set_permissions(&through, Permissions::from_mode(0o600)).map_err(io)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inode =
        rustix::fs::openat(&dir, name, flags, Mode::empty()).map_err(|errno| io(errno.into()))?;
    drop(folder_lock);
    let guard = SocketGuard {
        dir,
        path: path.to_owned(),
        name: name.to_owned(),
        inode,
        owned: true,
    };
    Ok((listener, guard))
}

/// Connects to the socket at `path`, however long the path is. Cancel safe.
///
/// # Errors
/// `NotFound`: no such socket. `ConnectionRefused`: nobody listens on it. `WouldBlock`: its
/// queue is full. Others as the kernel gives them.
pub async fn connect(path: &Path) -> io::Result<UnixStream> {
    if path.as_os_str().len() <= LONGEST_PLAIN_PATH {
        return UnixStream::connect(path).await;
    }
    let (parent, name) = split(path)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(parent, flags, Mode::empty())?;
    UnixStream::connect(through(&dir, name)).await
}

fn split(path: &Path) -> io::Result<(&Path, &Path)> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "socket path has no file name");
    let name = path.file_name().ok_or_else(invalid)?;
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(invalid()),
    };
    Ok((parent, Path::new(name)))
}

fn through(dir: &OwnedFd, name: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}

struct Named {
    is_socket: bool,
    identity: (u64, u64),
}

fn named(dir: &OwnedFd, name: &Path) -> io::Result<Option<Named>> {
    match std::fs::symlink_metadata(through(dir, name)) {
        Ok(metadata) => Ok(Some(Named {
            is_socket: std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type()),
            identity: (metadata.dev(), metadata.ino()),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn lock_folder(parent: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let handle = rustix::fs::open(parent, flags, Mode::empty())?;
    for _ in 0..FOLDER_LOCK_ATTEMPTS {
        match flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(handle),
            Err(Errno::WOULDBLOCK) => tokio::time::sleep(FOLDER_LOCK_PAUSE).await,
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "another process keeps the socket's folder locked",
    ))
}

/// Whether somebody listens on the socket. A full queue counts as somebody.
fn is_alive(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&probe, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
