//! Who changed what through this agent: one JSON line per mutating call, in a file that only
//! its user reads (H19). Holds names, sizes and results; never a payload, an argument or the
//! value of a variable.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rustix::fs::OFlags;
use serde::Serialize;

/// A longer file is renamed to `<name>.1`, which replaces the one before it.
const ROTATE_BYTES: u64 = 8 * 1024 * 1024;

/// One call.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Entry {
    /// Wall clock, microseconds after 1970.
    pub(crate) at_us: i64,
    pub(crate) method: &'static str,
    /// The connected process, as the kernel saw it.
    pub(crate) peer_uid: Option<u32>,
    pub(crate) peer_pid: Option<i32>,
    pub(crate) workspace: String,
    pub(crate) epoch: u64,
    pub(crate) request_id: String,
    /// A path, or session and run.
    pub(crate) target: String,
    /// Bytes that the caller sent.
    pub(crate) bytes: u64,
    /// `OK`, or the reason of the fault.
    pub(crate) result: String,
    pub(crate) duration_us: u64,
}

/// The agent's audit file.
#[derive(Debug)]
pub(crate) struct Audit {
    path: PathBuf,
    file: Mutex<File>,
}

impl Audit {
    /// Opens the file, or makes it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(open(path)?),
        })
    }

    /// Appends one line. A file that cannot be written is told in the log and stops no call.
    pub(crate) fn record(&self, entry: &Entry) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = append(&mut file, &self.path, entry) {
            tracing::error!(path = %self.path.display(), %error, "write the audit");
        }
    }
}

fn append(file: &mut File, path: &Path, entry: &Entry) -> io::Result<()> {
    if file.metadata()?.len() > ROTATE_BYTES {
        let mut rotated = path.as_os_str().to_owned();
        rotated.push(".1");
        std::fs::rename(path, rotated)?;
        *file = open(path)?;
    }
    let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
    line.push(b'\n');
    file.write_all(&line)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn h19_the_audit_is_private_and_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        let entry = Entry {
            method: "Files.Write",
            target: "x".repeat(1024),
            ..Entry::default()
        };
        for _ in 0..9 * 1024 {
            audit.record(&entry);
        }
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.mode() & 0o777, 0o600);
        assert!(metadata.len() < ROTATE_BYTES);
        let old = std::fs::metadata(folder.path().join("audit.jsonl.1")).unwrap();
        assert!(old.len() > ROTATE_BYTES && old.len() < ROTATE_BYTES + 4096);
    }
}
