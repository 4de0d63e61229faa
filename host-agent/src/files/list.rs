//! Names of a folder, sorted by bytes and paged. A page keeps only its own names in memory,
//! however large the folder is.

use std::{collections::BinaryHeap, os::fd::OwnedFd};

use muster_domain::{Fault, Reason, limits};
use muster_proto::agent::{FileInfo, ListRequest, ListResponse};
use rustix::{
    fs::{AtFlags, Dir, OFlags, StatxFlags},
    io::Errno,
};

use super::{Roots, describe, fault_of};

/// One page.
pub(crate) fn list(roots: &Roots, request: &ListRequest) -> Result<ListResponse, Fault> {
    let after = parse_token(&request.page_token)?;
    let size = match request.page_size {
        0 => limits::FILE_PAGE_DEFAULT,
        size => size.min(limits::FILE_PAGE_MAX),
    };
    let found = roots.find(&request.path)?;
    found.must_be_a_folder()?;
    let fault = |errno| fault_of(errno, &request.path);
    let folder = found
        .reopen(OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(fault)?;
    // One name more than the page holds says that there is a next page.
    let wanted = size as usize + 1;
    let mut names = smallest_names(&folder, after.as_deref(), wanted, &request.path)?;
    let mut next_page_token = String::new();
    if names.len() == wanted {
        names.pop();
        next_page_token = names.last().map(|name| token(name)).unwrap_or_default();
    }
    let mut entries = Vec::with_capacity(names.len());
    for name in &names {
        entries.extend(describe_entry(&folder, name).map_err(fault)?);
    }
    Ok(ListResponse {
        entries,
        next_page_token,
    })
}

fn smallest_names(
    folder: &OwnedFd,
    after: Option<&[u8]>,
    wanted: usize,
    path: &str,
) -> Result<Vec<Vec<u8>>, Fault> {
    let fault = |errno| fault_of(errno, path);
    let mut kept: BinaryHeap<Vec<u8>> = BinaryHeap::new();
    let mut count = 0;
    for entry in Dir::read_from(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        count += 1;
        if count > limits::LISTED_NAMES {
            let most = limits::LISTED_NAMES;
            let why = format!("`{path}` has more than {most} names");
            return Err(Fault::new(Reason::TooManyNames, why).with("limit", most));
        }
        if after.is_some_and(|after| name <= after) {
            continue;
        }
        if kept.len() < wanted {
            kept.push(name.to_vec());
        } else if kept.peek().is_some_and(|largest| name < largest.as_slice()) {
            kept.pop();
            kept.push(name.to_vec());
        }
    }
    Ok(kept.into_sorted_vec())
}

/// `None` when the name has gone since it was read.
fn describe_entry(folder: &OwnedFd, name: &[u8]) -> Result<Option<FileInfo>, Errno> {
    let wanted = StatxFlags::BASIC_STATS;
    let stat = match rustix::fs::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let mut info = describe::info(name, &stat);
    if info.kind() == muster_proto::agent::FileKind::Symlink {
        match rustix::fs::readlinkat(folder, name, Vec::new()) {
            Ok(target) => info.link_target = target.to_string_lossy().into_owned(),
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
    Ok(Some(info))
}

/// The last name of a page in hexadecimal: names are bytes, tokens are text.
fn token(name: &[u8]) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_token(token: &str) -> Result<Option<Vec<u8>>, Fault> {
    if token.is_empty() {
        return Ok(None);
    }
    let bad = || Fault::new(Reason::BadPageToken, "the page token is not one of ours");
    if token.len() > 2 * 255 || !token.len().is_multiple_of(2) || !token.is_ascii() {
        return Err(bad());
    }
    let byte = |at: usize| u8::from_str_radix(&token[at..at + 2], 16).map_err(|_| bad());
    (0..token.len())
        .step_by(2)
        .map(byte)
        .collect::<Result<_, _>>()
        .map(Some)
}
