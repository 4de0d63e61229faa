//! File systems of their own, for what happens when a disk is full or may not be written.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;

/// A file system of its own below a world, unmounted at the end.
#[derive(Debug)]
pub struct Mount(PathBuf);

impl Mount {
    /// A tmpfs in memory, with the options of `mount -o`. `None`, and a visible skip, where this user may not mount.
    ///
    /// # Panics
    /// The folder cannot be made.
    #[must_use]
    pub fn tmpfs(at: &Path, options: &str, needed_for: &str) -> Option<Self> {
        std::fs::create_dir_all(at).expect("a folder below a world can be made");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "muster-test"])
            .arg(at);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            skip(&format!("{needed_for}: this user may not mount a tmpfs"));
            return None;
        }
        Some(Self(at.to_path_buf()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a daemon of the world may still stand in it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
