use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use muster_runtime::lock::{Holder, LockError, LockFile, read_holder};

use crate::{FIXTURE, Killed, folder};

#[test]
fn a_second_holder_is_refused_with_the_first_ones_pid() {
    let folder = folder();
    let path = folder.path().join("lock");
    assert_eq!(read_holder(&path).unwrap(), Holder::Free);
    let lock = LockFile::acquire(&path).unwrap();
    assert_eq!(lock.path(), path);
    let pid = Some(std::process::id());
    let error = LockFile::acquire(&path).unwrap_err();
    assert!(matches!(error, LockError::Locked { pid: found, .. } if found == pid));
    assert_eq!(read_holder(&path).unwrap(), Holder::Held { pid });
    drop(lock);
    // A child that another test starts holds a copy of the handle until it executes.
    let freed = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        read_holder(&path).unwrap() == Holder::Free
    });
    assert!(freed);
    LockFile::acquire(&path).unwrap();
}

#[test]
fn a_killed_holder_frees_it() {
    let folder = folder();
    let path = folder.path().join("lock");
    let mut child = Killed(
        Command::new(FIXTURE)
            .args(["lock".as_ref(), path.as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "locked\n");
    let pid = Some(child.0.id());
    assert_eq!(read_holder(&path).unwrap(), Holder::Held { pid });
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    LockFile::acquire(&path).unwrap();
}

#[test]
fn a_link_is_not_followed() {
    let folder = folder();
    let (target, link) = (folder.path().join("target"), folder.path().join("lock"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert!(matches!(
        LockFile::acquire(&link),
        Err(LockError::Io { .. })
    ));
    assert!(!target.exists());
}
