//! The marker: two environment variables by which a process of a run is known wherever it
//! went. Its environment is that of its start; what it did to it later does not show.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
};

use super::{Identity, own_uid, pids, stat, stat::absent_is_none, stat::real_uid};

/// Names the session.
pub const MARKER_SESSION: &str = "MUSTER_SESSION_ID";
/// Names the run.
pub const MARKER_RUN: &str = "MUSTER_RUN";

/// More of an environment variable is not looked at: a marker is shorter.
const VARIABLE_BYTES_MAX: u64 = 256;

/// Which run a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// Session id.
    pub session: String,
    /// Run; 0 when the variable is missing.
    pub run: u32,
}

/// A process with a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Who.
    pub identity: Identity,
    /// Of which run.
    pub run: u32,
    /// Program name as the kernel has it.
    pub name: String,
}

/// The marker of a process. `None`: it has none, is gone, or may not be looked at (a process
/// of another user, or one that hides its environment).
///
/// # Errors
/// Any other failure.
pub fn marker_of(pid: i32) -> io::Result<Option<Marker>> {
    let opened = absent_is_none(File::open(format!("/proc/{pid}/environ")));
    let read = match opened {
        Ok(Some(file)) => absent_is_none(scan(file)),
        Ok(None) => return Ok(None),
        Err(error) => Err(error),
    };
    match read {
        Ok(marker) => Ok(marker.flatten()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads NUL-terminated variables with bounded memory, however big the environment is.
fn scan(environ: impl io::Read) -> io::Result<Option<Marker>> {
    let mut reader = BufReader::with_capacity(16 * 1024, environ);
    let mut session = None;
    let mut run = None;
    let mut variable = Vec::new();
    while session.is_none() || run.is_none() {
        variable.clear();
        let mut head = reader.by_ref().take(VARIABLE_BYTES_MAX);
        if head.read_until(0, &mut variable)? == 0 {
            break;
        }
        if variable.last() == Some(&0) {
            variable.pop();
        } else {
            reader.skip_until(0)?;
            continue;
        }
        let Ok(text) = std::str::from_utf8(&variable) else {
            continue;
        };
        match text.split_once('=') {
            Some((MARKER_SESSION, value)) => session = Some(value.to_owned()),
            Some((MARKER_RUN, value)) => run = value.parse().ok(),
            _ => {}
        }
    }
    Ok(session.map(|session| Marker {
        session,
        run: run.unwrap_or_default(),
    }))
}

/// The living processes of this user that carry the marker of a session; of one run when
/// `run` is given.
///
/// # Errors
/// What reading `/proc` says.
pub fn find_marked(session: &str, run: Option<u32>) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for pid in pids()? {
        let Some(marker) = marker_of(pid)? else {
            continue;
        };
        if marker.session != session || run.is_some_and(|run| run != marker.run) {
            continue;
        }
        let Some(stat) = stat(pid)?.filter(|stat| !stat.has_ended()) else {
            continue;
        };
        if real_uid(pid)? == Some(own_uid()) {
            found.push(Found {
                identity: stat.identity,
                run: marker.run,
                name: stat.name,
            });
        }
    }
    found.sort_unstable_by_key(|found| (found.identity.start_ticks, found.identity.pid));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_is_found_behind_long_and_damaged_variables() {
        let mut environ = b"BIG=".to_vec();
        environ.extend(std::iter::repeat_n(b'x', 100_000));
        environ.extend(b"\0BAD=\xff\0MUSTER_RUN=3\0XMUSTER_SESSION_ID=no\0MUSTER_SESSION_ID=s\0");
        let marker = scan(environ.as_slice()).unwrap().unwrap();
        assert_eq!(marker.session, "s");
        assert_eq!(marker.run, 3);
        assert_eq!(scan(b"MUSTER_RUN=3\0".as_slice()).unwrap(), None);
        assert_eq!(scan(b"".as_slice()).unwrap(), None);
    }
}
