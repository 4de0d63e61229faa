use std::{fs, path::Path, process::Command};

use muster_host_agent::{proc::Identity, run_dir::LockState};
use muster_proto::keeper::{OutcomeKind, SpawnFailureReason, StdinMode};

use super::kit::{Run, eventually};

#[tokio::test]
async fn s19_unread_bytes_are_counted_in_both_modes_and_behind_a_closed_stdin() {
    for (mode, close) in [
        (StdinMode::Held, false),
        (StdinMode::Closable, false),
        (StdinMode::Closable, true),
    ] {
        let script = "echo up; read line; until test -e go; do sleep 0.02; done";
        let mut run = Run::script(mode, script);
        run.start();
        run.says("up").await;
        run.deliver("one", "hello\n").await;
        run.deliver("two", "never read\n").await;
        if close {
            let client = run.client().await;
            client.close_stdin(super::kit::PATIENCE).await.unwrap();
        }
        fs::write(run.home.path().join("go"), "").unwrap();
        let exit = run.exit().await;
        assert_eq!(exit.stdin_unread_bytes, Some(11), "{mode:?} {close}");
    }
}

#[tokio::test]
async fn s33_survivors_are_named_and_what_they_append_comes_after_the_size() {
    let script = "setsid sh -c 'until test -e go; do sleep 0.02; done; echo late' & \
                  echo early; exit 3";
    let mut run = Run::script(StdinMode::Held, script);
    run.start();
    let exit = run.exit().await;
    assert_eq!(exit.code, Some(3));
    assert_eq!(exit.stream_size, 6);
    assert!(!exit.survivors.is_empty());
    assert!(exit.survivors[0].is_alive().unwrap());
    eventually("the keeper's end", || {
        (run.dir.lock_state().unwrap() == LockState::Free).then_some(())
    })
    .await;
    fs::write(run.home.path().join("go"), "").unwrap();
    run.says("late").await;
    assert_eq!(run.dir.exit().unwrap().unwrap(), exit);
}

#[tokio::test]
async fn only_the_end_of_a_long_stderr_is_kept() {
    let script = "i=0; while test $i -lt 2000; do echo line $i; i=$((i+1)); done >&2; \
                  printf '\\377 last' >&2";
    let mut run = Run::script(StdinMode::Held, script);
    run.start();
    let exit = run.exit().await;
    assert!(exit.stderr_tail.ends_with("line 1999\n\u{fffd} last"));
    assert!(exit.stderr_tail.len() < 9_000);
    assert!(exit.stderr_size > 16_000);
}

#[tokio::test]
async fn orphans_of_the_program_are_waited_for() {
    let script = "i=0; while test $i -lt 20; do (true & ) ; i=$((i+1)); done; echo up; cat";
    let mut run = Run::script(StdinMode::Held, script);
    let status = run.start();
    run.says("up").await;
    let keeper: Identity = status.keeper.unwrap().into();
    eventually("an end without zombies", || {
        let all = muster_host_agent::proc::pids().unwrap();
        let mut stats = all
            .into_iter()
            .filter_map(|pid| muster_host_agent::proc::stat(pid).unwrap());
        let zombie = stats.any(|stat| stat.parent == keeper.pid && stat.has_ended());
        (!zombie).then_some(())
    })
    .await;
}

/// A small file system of its own, gone at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let options = format!("size={size}");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]);
        let mounted = mount.arg(folder.path()).output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn fill(&self) {
        let mut length = 256 * 1024;
        for number in 0.. {
            let file = self.path().join(format!("fill-{number}"));
            if fs::write(file, vec![b'x'; length]).is_err() {
                length /= 2;
                if length < 512 {
                    return;
                }
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_deliveries_and_starts_and_hides_no_end() {
    let Some(disk) = SmallDisk::mount("1m") else {
        eprintln!("SKIPPED: mounting a small file system needs root");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let mut run = Run::below(home, disk.path(), StdinMode::Held, &["sleep", "600"]);
    let status = run.start();
    disk.fill();
    let mut known = Vec::new();
    let refused = loop {
        let id = format!("d{}", known.len());
        let outcome = run.deliver(&id, "x\n").await;
        match outcome.kind() {
            OutcomeKind::Delivered => known.push(id),
            OutcomeKind::DiskFull => break id,
            other => panic!("{other:?}"),
        }
    };
    for id in &known {
        assert_eq!(run.deliver(id, "x\n").await.kind(), OutcomeKind::Delivered);
    }
    assert_eq!(
        run.deliver(&refused, "x\n").await.kind(),
        OutcomeKind::DiskFull
    );
    let home = tempfile::tempdir().unwrap();
    let mut second = Run::below(home, disk.path(), StdinMode::Held, &["true"]);
    let failure = second.try_start().unwrap_err();
    assert_eq!(failure.reason(), SpawnFailureReason::DiskFull);
    run.kill(status.process.unwrap().into()).await;
    let exit = run.exit().await;
    assert_eq!(exit.signal, Some(9));
    assert_eq!(exit.stdin_unread_bytes, Some(2 * known.len() as u64));
}
