//! What a file is, in the words of the contract.

use std::os::unix::ffi::OsStrExt as _;

use muster_proto::agent::{FileInfo, FileKind, StatRequest, StatResponse};
use prost_types::Timestamp;
use rustix::fs::{FileType, Statx};

use super::{Found, Roots, fault_of};
use crate::tails::{Head, Identity, generation};
use muster_domain::{Fault, limits};

/// Describes one path.
pub(crate) fn stat(roots: &Roots, request: &StatRequest) -> Result<StatResponse, Fault> {
    let found = if request.no_follow {
        roots.find_no_follow(&request.path)?
    } else {
        roots.find(&request.path)?
    };
    let name = found.real.file_name().unwrap_or(found.real.as_os_str());
    let mut info = info(name.as_bytes(), &found.stat);
    if found.file_type() == FileType::Symlink {
        let target = rustix::fs::readlinkat(found.handle(), "", Vec::new())
            .map_err(|errno| fault_of(errno, &request.path))?;
        info.link_target = target.to_string_lossy().into_owned();
    }
    Ok(StatResponse {
        info: Some(info),
        resolved_path: found.real.to_string_lossy().into_owned(),
        generation: Some(generation(identity_of(&found.stat), &head_of(&found))),
    })
}

/// A folder, a device or an unreadable file has no head.
fn head_of(found: &Found) -> Head {
    let mut head = vec![0; limits::HEAD_BYTES];
    let read = match found.open_file() {
        Ok(file) => std::os::unix::fs::FileExt::read_at(&file, &mut head, 0).unwrap_or(0),
        Err(_) => 0,
    };
    Head::of(&head[..read])
}

pub(crate) fn identity_of(stat: &Statx) -> Identity {
    let birth =
        i128::from(stat.stx_btime.tv_sec) * 1_000_000_000 + i128::from(stat.stx_btime.tv_nsec);
    Identity {
        device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        birth_ns: i64::try_from(birth).unwrap_or(0),
    }
}

pub(super) fn info(name: &[u8], stat: &Statx) -> FileInfo {
    FileInfo {
        name: String::from_utf8_lossy(name).into_owned(),
        kind: kind(FileType::from_raw_mode(stat.stx_mode.into())).into(),
        size_bytes: stat.stx_size,
        modified_at: Some(Timestamp {
            seconds: stat.stx_mtime.tv_sec,
            nanos: i32::try_from(stat.stx_mtime.tv_nsec).unwrap_or(0),
        }),
        mode: u32::from(stat.stx_mode) & 0o7777,
        link_target: String::new(),
    }
}

fn kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        FileType::Unknown => FileKind::Unspecified,
    }
}
