//! A full disk: nothing of the changeset is stored, and the writer goes on afterwards.

use std::{path::Path, process::Command};

use muster_domain::changeset::Conflict;

use super::kit::*;

/// A file system of 4 MiB; gone with the value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where mounting is not allowed.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m,mode=700", "muster-test"])
            .arg(dir.path())
            .output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        mounted.then(|| Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

#[tokio::test]
async fn a_full_disk_stores_nothing_of_a_changeset_and_passes() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: mounting a small disk needs root");
        return;
    };
    let store = open(&disk.path().join("muster.db")).await;
    put(&*store, add_session(session(1))).await;
    let filler = disk.path().join("filler");
    let _ = std::fs::write(&filler, vec![1; 8 << 20]);
    let mut large = changes();
    large.messages = (1..=40)
        .map(|n| output(n, 1, u64::from(n), &"x".repeat(100 * 1024)))
        .collect();
    large.events = vec![event(1)];
    let refused = commit(&*store, large.clone()).await;
    assert!(
        matches!(refused, Err(Conflict::Unavailable(_))),
        "{refused:?}"
    );
    assert_eq!(store.message(message_id(1)).await.unwrap(), None);
    assert_eq!(store.bounds(&main()).await.unwrap().head, 0);
    std::fs::remove_file(&filler).unwrap();
    large.messages.truncate(2);
    assert_eq!(put(&*store, large).await, 1);
    assert!(store.message(message_id(2)).await.unwrap().is_some());
    store.close().await;
}
