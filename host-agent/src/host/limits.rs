//! What the machine allows this user, how much of it is used, and warnings before it runs out.

use std::path::Path;

use muster_domain::{Fault, Reason, limits::MIB};
use muster_proto::agent::Limits;
use rustix::process::{Resource, getrlimit};

/// New programs are refused when the disk of the agent's home has less than this free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskFloor {
    pub(crate) bytes: u64,
    /// Of the whole disk.
    pub(crate) percent: u64,
}

impl Default for DiskFloor {
    fn default() -> Self {
        Self {
            bytes: 1024 * MIB,
            percent: 2,
        }
    }
}

impl DiskFloor {
    fn of(self, total: u64) -> u64 {
        self.bytes.max(total / 100 * self.percent)
    }

    /// Whether there is room for a new program's output.
    ///
    /// # Errors
    /// `DISK_FULL` with the figures.
    pub(crate) fn check(self, home: &Path) -> Result<(), Fault> {
        let Ok((total, free)) = disk(home) else {
            return Ok(());
        };
        let floor = self.of(total);
        if free >= floor {
            return Ok(());
        }
        let why = format!(
            "the disk of {} has {} MiB free, new sessions need {} MiB",
            home.display(),
            free / MIB,
            floor / MIB
        );
        Err(Fault::new(Reason::DiskFull, why)
            .with("free_bytes", free)
            .with("floor_bytes", floor))
    }
}

/// Reads all limits; what cannot be read is 0.
pub(crate) fn read_limits(home: &Path, floor: DiskFloor) -> Limits {
    let open_files = getrlimit(Resource::Nofile);
    let (disk_total_bytes, disk_free_bytes) = disk(home).unwrap_or((0, 0));
    let mut limits = Limits {
        inotify_watches_max: number("/proc/sys/fs/inotify/max_user_watches"),
        inotify_instances_max: number("/proc/sys/fs/inotify/max_user_instances"),
        open_files_max: open_files.current.unwrap_or(u64::MAX),
        open_files_used: std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64),
        pids_max: number("/proc/sys/kernel/pid_max"),
        disk_total_bytes,
        disk_free_bytes,
        warnings: Vec::new(),
    };
    limits.warnings = warnings(&limits, floor);
    limits
}

fn warnings(limits: &Limits, floor: DiskFloor) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_high(limits.open_files_used, limits.open_files_max) {
        warnings.push(format!(
            "the agent has {} of {} files open",
            limits.open_files_used, limits.open_files_max
        ));
    }
    let floor = floor.of(limits.disk_total_bytes);
    if limits.disk_total_bytes > 0 && limits.disk_free_bytes < floor {
        warnings.push(format!(
            "{} MiB of disk are free: below {} MiB no session is started",
            limits.disk_free_bytes / MIB,
            floor / MIB
        ));
    } else if is_high(
        limits.disk_total_bytes - limits.disk_free_bytes.min(limits.disk_total_bytes),
        limits.disk_total_bytes,
    ) {
        warnings.push(format!(
            "{} MiB of disk are free",
            limits.disk_free_bytes / MIB
        ));
    }
    warnings
}

/// From 90 % on.
fn is_high(used: u64, most: u64) -> bool {
    most > 0 && used >= most / 10 * 9
}

/// Total and available bytes.
fn disk(home: &Path) -> Result<(u64, u64), rustix::io::Errno> {
    let stat = rustix::fs::statvfs(home)?;
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    Ok((total, stat.f_bavail.saturating_mul(stat.f_frsize)))
}

fn number(path: &str) -> u64 {
    std::fs::read_to_string(path).map_or(0, |text| text.trim().parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h14_warnings_begin_at_90_percent() {
        let mut limits = Limits {
            open_files_max: 1000,
            open_files_used: 899,
            disk_total_bytes: 1000 * 1024 * MIB,
            disk_free_bytes: 101 * 1024 * MIB,
            ..Limits::default()
        };
        let floor = DiskFloor::default();
        assert_eq!(warnings(&limits, floor), [""; 0]);
        limits.open_files_used = 900;
        limits.disk_free_bytes = 100 * 1024 * MIB;
        let said = warnings(&limits, floor);
        assert_eq!(said[0], "the agent has 900 of 1000 files open");
        assert!(said[1].starts_with("102400 MiB"), "{said:?}");
        limits.disk_free_bytes = 19 * 1024 * MIB;
        assert!(warnings(&limits, floor)[1].contains("no session is started"));
    }

    #[test]
    fn h14_below_the_floor_nothing_is_started() {
        let home = tempfile::tempdir().unwrap();
        let open = DiskFloor {
            bytes: 0,
            percent: 0,
        };
        open.check(home.path()).unwrap();
        let closed = DiskFloor {
            bytes: u64::MAX,
            percent: 0,
        };
        let fault = closed.check(home.path()).unwrap_err();
        assert_eq!(fault.reason(), Reason::DiskFull);
        assert!(fault.metadata().contains_key("free_bytes"));
    }
}
