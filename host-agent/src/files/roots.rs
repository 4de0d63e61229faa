//! The one way from a client's path to a file: below a root, by directory handle, through
//! links only while they stay below a root, never into what is hidden.
//!
//! A handle without access rights (`O_PATH`) is made first, checked, and only then opened: so
//! a FIFO never blocks, a device never notices, and what was checked is what is opened.

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use muster_domain::{Fault, Reason, limits};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags},
    io::Errno,
};

use super::fault_of;

/// Where clients may look, and where not.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootsConfig {
    /// What `~` means.
    pub(crate) user_home: PathBuf,
    /// The agent's own folder: below it only `sessions` may be read, and nothing written.
    pub(crate) agent_home: PathBuf,
    /// Further roots.
    pub(crate) roots: Vec<PathBuf>,
    /// Neither read nor written, with everything below.
    pub(crate) hidden: Vec<PathBuf>,
    /// Never written, with everything below.
    pub(crate) protected: Vec<PathBuf>,
}

#[derive(Debug)]
struct Root {
    /// As it was named, and with its links resolved: a client may use either.
    named: PathBuf,
    real: PathBuf,
    dir: OwnedFd,
}

/// The roots, opened.
#[derive(Debug)]
pub(crate) struct Roots {
    roots: Vec<Root>,
    user_home: PathBuf,
    agent_home: PathBuf,
    hidden: Vec<PathBuf>,
    protected: Vec<PathBuf>,
    /// Cleared when the kernel, or a sandbox around us, has no `openat2`.
    openat2: AtomicBool,
}

/// Something that exists below a root and may be looked at.
#[derive(Debug)]
pub(crate) struct Found {
    handle: OwnedFd,
    /// Its path with all links resolved.
    pub(crate) real: PathBuf,
    pub(crate) stat: Statx,
    /// As the client named it, for error texts.
    shown: String,
}

impl Roots {
    /// Opens the roots; one that does not exist is left out with a warning.
    pub(crate) fn open(config: &RootsConfig) -> Self {
        let named = [&config.user_home, &config.agent_home];
        let mut roots = Vec::new();
        for path in named.into_iter().chain(&config.roots) {
            match open_root(path) {
                Ok(root) => roots.push(root),
                Err(error) => tracing::warn!(root = %path.display(), %error, "root left out"),
            }
        }
        let real = |path: &PathBuf| real_or_same(path);
        Self {
            roots,
            user_home: config.user_home.clone(),
            agent_home: real(&config.agent_home),
            hidden: config.hidden.iter().map(real).collect(),
            protected: config.protected.iter().map(real).collect(),
            openat2: AtomicBool::new(true),
        }
    }

    /// A client's path as an absolute one; not looked at yet.
    pub(crate) fn expand(&self, path: &str) -> Result<PathBuf, Fault> {
        let invalid = |why: &str| Err(Fault::new(Reason::InvalidPath, format!("`{path}`: {why}")));
        if path.len() > limits::PATH_BYTES {
            let why = format!("a path has at most {} bytes", limits::PATH_BYTES);
            return Err(Fault::new(Reason::InvalidPath, why));
        }
        if path.contains('\0') {
            return invalid("a path has no NUL byte");
        }
        match path.strip_prefix('~') {
            Some("") => Ok(self.user_home.clone()),
            Some(rest) if rest.starts_with('/') => {
                Ok(self.user_home.join(rest.trim_start_matches('/')))
            }
            Some(_) => invalid("only `~` and `~/…` are expanded"),
            None if path.starts_with('/') => Ok(PathBuf::from(path)),
            None => invalid("a path is absolute or begins with `~/`"),
        }
    }

    /// What a path leads to, links followed.
    pub(crate) fn find(&self, path: &str) -> Result<Found, Fault> {
        let absolute = self.expand(path)?;
        self.find_absolute(&absolute, path)
    }

    /// What stands at a path: the last part is not followed when it is a link.
    pub(crate) fn find_no_follow(&self, path: &str) -> Result<Found, Fault> {
        let absolute = self.expand(path)?;
        let (Some(parent), Some(name)) = (absolute.parent(), plain_name(&absolute)) else {
            return self.find_absolute(&absolute, path);
        };
        if self.roots.iter().any(|root| root.is(&absolute)) {
            return self.find_absolute(&absolute, path);
        }
        let dir = self.find_absolute(parent, path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&dir.handle, &name, flags, Mode::empty())
            .map_err(|errno| fault_of(errno, path))?;
        let real = dir.real.join(&name);
        self.check(handle, real, path)
    }

    /// A folder and a name in it, for something that is to be written there.
    pub(crate) fn find_for_write(&self, path: &str) -> Result<(Found, OsString), Fault> {
        let absolute = self.expand(path)?;
        let (Some(parent), Some(name)) = (absolute.parent(), plain_name(&absolute)) else {
            let why = format!("`{path}` names no file");
            return Err(Fault::new(Reason::InvalidPath, why));
        };
        let dir = self.find_absolute(parent, path)?;
        dir.must_be_a_folder()?;
        self.check_writable(&dir.real.join(&name), path)?;
        Ok((dir, name))
    }

    /// Muster's own folders, and those that were declared, are never written.
    pub(crate) fn check_writable(&self, real: &Path, path: &str) -> Result<(), Fault> {
        let mut never = self.protected.iter().chain([&self.agent_home]);
        if never.any(|folder| real.starts_with(folder)) {
            let why = format!("`{path}` belongs to Muster or to a program and is never written");
            return Err(Fault::new(Reason::ProtectedPath, why));
        }
        Ok(())
    }

    fn find_absolute(&self, absolute: &Path, path: &str) -> Result<Found, Fault> {
        let root = self
            .roots
            .iter()
            .find_map(|root| Some((root, root.below(absolute)?)));
        let Some((root, below)) = root else {
            return Err(outside(path));
        };
        let handle = self.resolve(root, &below, absolute, path)?;
        let real = path_of(&handle).map_err(|errno| fault_of(errno, path))?;
        self.check(handle, real, path)
    }

    /// A handle on what the path leads to. The kernel keeps the walk below the root; where it
    /// refuses (an absolute link, say, which may still end below a root) or cannot, the walk is
    /// free and its end is checked by the caller.
    fn resolve(
        &self,
        root: &Root,
        below: &Path,
        absolute: &Path,
        path: &str,
    ) -> Result<OwnedFd, Fault> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        if self.openat2.load(Ordering::Relaxed) {
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&root.dir, below, flags, Mode::empty(), how) {
                Ok(handle) => return Ok(handle),
                Err(Errno::XDEV | Errno::AGAIN) => {}
                Err(Errno::NOSYS | Errno::PERM) => self.openat2.store(false, Ordering::Relaxed),
                Err(errno) => return Err(fault_of(errno, path)),
            }
            // What leaves the root does not say whether it exists.
            return rustix::fs::open(absolute, flags, Mode::empty()).map_err(|_| outside(path));
        }
        rustix::fs::open(absolute, flags, Mode::empty()).map_err(|errno| fault_of(errno, path))
    }

    fn check(&self, handle: OwnedFd, real: PathBuf, path: &str) -> Result<Found, Fault> {
        if !self.roots.iter().any(|root| real.starts_with(&root.real)) {
            return Err(outside(path));
        }
        if self.is_hidden(&real) {
            let why = format!("`{path}` is Muster's own and is not shown");
            return Err(Fault::new(Reason::HiddenPath, why));
        }
        let stat = statx(&handle).map_err(|errno| fault_of(errno, path))?;
        if stat.stx_nlink == 0 {
            // Removed since it was resolved; the path of its handle means nothing.
            return Err(fault_of(Errno::NOENT, path));
        }
        Ok(Found {
            handle,
            real,
            stat,
            shown: path.to_owned(),
        })
    }

    fn is_hidden(&self, real: &Path) -> bool {
        if self.hidden.iter().any(|folder| real.starts_with(folder)) {
            return true;
        }
        match real.strip_prefix(&self.agent_home) {
            Ok(below) => below
                .components()
                .next()
                .is_some_and(|first| first.as_os_str() != "sessions"),
            Err(_) => false,
        }
    }
}

impl Root {
    /// The rest of a path that begins with this root, as it is written: `..` and links are for
    /// the walk to judge.
    fn below(&self, absolute: &Path) -> Option<PathBuf> {
        let rest = [&self.named, &self.real]
            .into_iter()
            .find_map(|prefix| absolute.strip_prefix(prefix).ok())?;
        Some(if rest.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            rest.to_owned()
        })
    }

    fn is(&self, absolute: &Path) -> bool {
        absolute == self.named || absolute == self.real
    }
}

impl Found {
    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.stx_mode.into())
    }

    /// The handle without access rights.
    pub(crate) fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// Opens a regular file for reading; everything else is refused unopened.
    pub(crate) fn open_file(&self) -> Result<File, Fault> {
        match self.file_type() {
            FileType::RegularFile => {}
            other => {
                let why = format!("`{}` is {}, not a file", self.shown, kind_in_words(other));
                return Err(Fault::new(Reason::NotAFile, why));
            }
        }
        self.reopen(OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK)
            .map(File::from)
            .map_err(|errno| fault_of(errno, &self.shown))
    }

    pub(crate) fn must_be_a_folder(&self) -> Result<(), Fault> {
        if self.file_type() == FileType::Directory {
            return Ok(());
        }
        let why = format!("`{}` is no folder", self.shown);
        Err(Fault::new(Reason::NotADirectory, why))
    }

    /// Opens exactly what was found, whatever its name points to by now.
    pub(crate) fn reopen(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
    }
}

/// All facts of an open file, birth time included where there is one.
pub(crate) fn statx(handle: &impl std::os::fd::AsFd) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(handle, "", AtFlags::EMPTY_PATH, wanted)
}

pub(crate) fn kind_in_words(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::Symlink => "a link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::RegularFile => "a file",
        FileType::Unknown => "of an unknown kind",
    }
}

fn outside(path: &str) -> Fault {
    Fault::new(
        Reason::OutsideRoots,
        format!("`{path}` is below no root of this host"),
    )
    .with_hint("start the agent with `--root DIR` for the folder that is meant")
}

/// The last part of a path, when it is a name.
fn plain_name(absolute: &Path) -> Option<OsString> {
    // `file_name` looks through a trailing `/.`, which asks for a folder.
    let raw = absolute.as_os_str().as_bytes();
    if raw.ends_with(b"/") || raw.ends_with(b"/.") {
        return None;
    }
    match absolute.components().next_back() {
        Some(Component::Normal(name)) => Some(name.to_owned()),
        _ => None,
    }
}

fn open_root(path: &Path) -> io::Result<Root> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(Root {
        named: path.to_owned(),
        real: path_of(&dir)?,
        dir,
    })
}

fn path_of(handle: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let path = rustix::fs::readlink(link, Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes())))
}

fn real_or_same(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
