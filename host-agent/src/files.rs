//! Files below the roots of the host (H17): described, listed, read in ranges,
//! written whole.
//!
//! `roots` is the only way to a path that a client named; nothing here opens one otherwise.
//! Everything blocks and is called from the blocking pool; no call holds more than a page of
//! names or one chunk of a file in memory.

mod describe;
mod list;
mod range;
mod roots;
mod write;

pub(crate) use describe::{identity_of, stat};
pub(crate) use list::list;
pub(crate) use range::{Range, head, read_full};
pub(crate) use roots::{Found, Roots, RootsConfig};
pub(crate) use write::WholeFile;

use muster_domain::{Fault, Reason};
use rustix::io::Errno;

/// What a failed system call on the path of a client means to it.
pub(crate) fn fault_of(errno: Errno, path: &str) -> Fault {
    let reason = match errno {
        Errno::NOENT | Errno::NOTDIR => Reason::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Reason::PermissionDenied,
        Errno::NAMETOOLONG | Errno::LOOP | Errno::INVAL => Reason::InvalidPath,
        Errno::NOSPC | Errno::DQUOT => Reason::DiskFull,
        Errno::ISDIR | Errno::NXIO => Reason::NotAFile,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Reason::Exhausted,
        _ => return Fault::internal(format!("{path}: {errno}")),
    };
    Fault::new(reason, format!("`{path}`: {}", words(errno)))
}

fn words(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text.to_lowercase(),
    }
}

/// As [`fault_of`], for an error that may carry a fault of ours.
pub(crate) fn fault_of_io(error: std::io::Error, path: &str) -> Fault {
    if let Some(errno) = Errno::from_io_error(&error) {
        return fault_of(errno, path);
    }
    match error.downcast::<Fault>() {
        Ok(fault) => fault,
        Err(error) => Fault::internal(format!("{path}: {error}")),
    }
}
