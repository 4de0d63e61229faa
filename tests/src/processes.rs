//! Processes of a test, found by the folder they work in, and ended by identity.
//!
//! Keepers and programs are meant to outlive everything that started them, so a test cannot end them through their
//! parents. What they cannot hide is the private folder of their test: as an open file, as the working directory, in
//! the arguments or in the environment.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::wait::within;

/// A process that works in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// Arguments joined by spaces, for people.
    pub command: String,
}

/// Every process but this one that works below `root`. Kernel threads, zombies and other users' processes are not seen.
#[must_use]
pub fn working_in(root: &Path) -> Vec<Process> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|&pid| u32::try_from(pid) != Ok(own) && works_in(pid, root))
        .map(|pid| Process {
            pid,
            command: command_of(pid),
        })
        .collect()
}

fn works_in(pid: i32, root: &Path) -> bool {
    let folder = format!("/proc/{pid}");
    if is_zombie(pid) {
        return false;
    }
    let below = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(root));
    if below(Path::new(&format!("{folder}/cwd"))) {
        return true;
    }
    let needle = root.as_os_str().as_bytes();
    for file in ["cmdline", "environ"] {
        let bytes = fs::read(format!("{folder}/{file}")).unwrap_or_default();
        if bytes.windows(needle.len()).any(|window| window == needle) {
            return true;
        }
    }
    let Ok(open) = fs::read_dir(format!("{folder}/fd")) else {
        return false;
    };
    open.flatten().any(|entry| below(&entry.path()))
}

fn command_of(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .replace('\0', " ")
        .trim()
        .to_owned()
}

fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// Whether a process of that number runs. A zombie does not.
#[must_use]
pub fn runs(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists() && !is_zombie(pid)
}

/// Resident memory in bytes: now, and at its highest. `None` when there is no such process.
#[must_use]
pub fn memory(pid: i32) -> Option<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((field("VmRSS:")? * 1024, field("VmHWM:")? * 1024))
}

/// Processor time of all its living threads, in nanoseconds. `None` when there is no such process.
#[must_use]
pub fn processor_ns(pid: i32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let times = threads.flatten().filter_map(|thread| {
        let spent = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        spent.split_whitespace().next()?.parse::<u64>().ok()
    });
    Some(times.sum())
}

/// Sends SIGKILL to `pid` if it still works below `root`, through a handle on exactly that process. True when sent.
#[must_use]
pub fn kill(pid: i32, root: &Path) -> bool {
    signal(pid, root, Signal::KILL)
}

/// Sends a signal like [`kill`].
#[must_use]
pub fn signal(pid: i32, root: &Path, signal: Signal) -> bool {
    let Some(handle) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return false;
    };
    // Asked again after the handle was taken: the number may have been given to somebody else in between.
    works_in(pid, root) && pidfd_send_signal(&handle, signal).is_ok()
}

/// Sends SIGKILL and waits until the process is gone. True when it was there.
///
/// # Panics
/// When it does not go.
pub fn kill_and_wait(pid: i32, root: &Path) -> bool {
    let sent = kill(pid, root);
    if sent {
        let gone = within(Duration::from_secs(30), || {
            (!works_in(pid, root)).then_some(())
        });
        assert!(gone.is_some(), "process {pid} survives SIGKILL");
    }
    sent
}

/// Ends everything that works below `root`: parents first, so that nothing is started again. Answers what is left.
#[must_use]
pub fn end_all(root: &Path) -> Vec<Process> {
    let cleared = within(Duration::from_secs(20), || {
        let found = working_in(root);
        for process in &found {
            let _ = kill(process.pid, root);
        }
        found.is_empty().then_some(())
    });
    cleared.map_or_else(|| working_in(root), |()| Vec::new())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{end_all, working_in};

    #[test]
    fn a_process_is_found_by_its_folder_and_ended() {
        let root = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(root.path().join("out")).unwrap();
        let mut child = Command::new("sleep")
            .arg("600")
            .stdout(file)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let found = working_in(root.path());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(u32::try_from(found[0].pid), Ok(child.id()));
        assert!(end_all(root.path()).is_empty());
        assert!(!child.wait().unwrap().success());
    }
}
