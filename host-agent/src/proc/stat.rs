//! Reading `/proc/PID/stat` and `/proc/PID/status`.

use std::{fs, io};

use super::Identity;

/// What the kernel says about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Who it is.
    pub identity: Identity,
    /// Program name as the kernel has it, at most 15 bytes; not trustworthy.
    pub name: String,
    /// State letter.
    pub state: char,
    /// Parent.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// Session in the kernel's sense.
    pub session: i32,
}

impl Stat {
    /// It has ended; only its parent has not waited for it yet.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Facts of the process that has this pid now; `None` when there is none.
///
/// # Errors
/// Any failure but absence; `InvalidData` when the text has another form.
pub fn stat(pid: i32) -> io::Result<Option<Stat>> {
    let Some(bytes) = read(pid, "stat")? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    match parse(pid, &text) {
        Some(stat) => Ok(Some(stat)),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{pid}/stat has an unknown form"),
        )),
    }
}

fn parse(pid: i32, text: &str) -> Option<Stat> {
    // The name may hold spaces and parentheses: it ends at the last one.
    let (head, fields) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // Fields 7 to 21 stand between the session and the start time.
    let start_ticks = fields.nth(15)?.parse().ok()?;
    Some(Stat {
        identity: Identity { pid, start_ticks },
        name,
        state,
        parent,
        group,
        session,
    })
}

/// Pids of all processes that can be seen, in no order.
///
/// # Errors
/// What reading `/proc` says.
pub fn pids() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// Real user of a process; `None` when it is gone.
pub(crate) fn real_uid(pid: i32) -> io::Result<Option<u32>> {
    let Some(bytes) = read(pid, "status")? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"));
    let uid = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    match uid {
        Some(uid) => Ok(Some(uid)),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{pid}/status names no user"),
        )),
    }
}

fn read(pid: i32, name: &str) -> io::Result<Option<Vec<u8>>> {
    absent_is_none(fs::read(format!("/proc/{pid}/{name}")))
}

/// A process may go between `open` and `read`: both say so in their own way.
pub(super) fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read_to_its_last_one() {
        let text = "42 (a) b (c) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 123456 1 2";
        let stat = parse(42, text).unwrap();
        assert_eq!(stat.name, "a) b (c");
        assert_eq!((stat.parent, stat.group, stat.session), (7, 8, 9));
        assert_eq!(stat.identity.start_ticks, 123_456);
    }

    #[test]
    fn this_process_is_found_with_its_user() {
        let own = Identity::own().unwrap();
        assert!(pids().unwrap().contains(&own.pid));
        assert_eq!(real_uid(own.pid).unwrap(), Some(super::super::own_uid()));
        assert!(own.is_alive().unwrap());
    }
}
