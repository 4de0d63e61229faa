use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use muster_runtime::{
    Tasks, limits,
    process::{Detached, StartError},
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::{FIXTURE, Killed, LONG, folder, text, wait_for};

fn fixture(log: &Path) -> Detached {
    Detached::new("fixture", log).exe(FIXTURE)
}

fn pid(number: u32) -> Pid {
    i32::try_from(number)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id")
}

/// A process that is nobody's child, killed when the test ends.
struct KilledPid(u32);

impl Drop for KilledPid {
    fn drop(&mut self) {
        let _ = kill_process(pid(self.0), Signal::KILL);
    }
}

/// The session of a process, from `/proc`: 0 when its leader is outside our PID namespace, as it is for everything
/// that was started in a container from outside. The system call's wrapper has no value for that.
fn session(pid: u32) -> u32 {
    let stat = text(&Path::new("/proc").join(pid.to_string()).join("stat"));
    let (_, after_name) = stat.rsplit_once(')').expect("a name in brackets");
    // The fields after the name: state, parent, group, session.
    let field = after_name.split_whitespace().nth(3);
    field
        .and_then(|field| field.parse().ok())
        .expect("a session")
}

#[tokio::test]
async fn a_daemon_announces_itself_and_belongs_to_nobody() {
    let (folder, tasks) = (folder(), Tasks::new("test"));
    let log = folder.path().join("daemon.log");
    let started = fixture(&log)
        .arg("ready")
        .arg("unix:/run/it.sock")
        .env("MUSTER_HOME", "/somewhere")
        .start(&tasks, LONG)
        .await
        .unwrap();
    let daemon = KilledPid(started.pid);
    assert_eq!(started.text, "unix:/run/it.sock");
    let report = wait_for("the report", || {
        Some(text(&log)).filter(|text| text.contains("end of report"))
    });
    assert!(report.contains("env MUSTER_HOME=/somewhere"), "{report}");
    assert!(report.contains("cwd /\n"), "{report}");
    assert!(
        !report.contains("ready"),
        "the announcement is no log: {report}"
    );
    let session = session(daemon.0);
    assert_ne!(session, self::session(std::process::id()));
    assert_ne!(
        session, daemon.0,
        "no session leader: it cannot get a terminal"
    );
    let stat = text(&Path::new("/proc").join(daemon.0.to_string()).join("status"));
    let parent = format!("PPid:\t{}\n", std::process::id());
    assert!(!stat.contains(&parent), "{stat}");
}

#[test]
fn a_daemon_started_inside_a_session_is_no_part_of_it() {
    let folder = folder();
    let log = folder.path().join("daemon.log");
    // The starter is a process of its own: it starts its own executable, and a test must not
    // change its own environment.
    // Some supervisors start their children with SIGCHLD ignored.
    let output = Command::new("bash")
        .args(["-c", "trap '' CHLD; exec \"$@\"", "bash", FIXTURE])
        .args(["start".as_ref(), log.as_os_str()])
        .env("MUSTER_SESSION_ID", "of-a-session")
        .env("MUSTER_RUN", "7")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let answer = String::from_utf8(output.stdout).unwrap();
    let _daemon = KilledPid(answer.trim().parse().unwrap());
    let report = wait_for("the report", || {
        Some(text(&log)).filter(|text| text.contains("end of report"))
    });
    assert!(!report.contains("of-a-session"), "{report}");
    assert!(!report.contains("MUSTER_RUN"), "{report}");
}

#[tokio::test]
async fn each_way_of_failing_has_its_error() {
    let (folder, tasks) = (folder(), Tasks::new("test"));
    let log = folder.path().join("daemon.log");
    let start = |args: &[&str], deadline| {
        let daemon = args
            .iter()
            .fold(fixture(&log), |daemon, arg| daemon.arg(*arg));
        let tasks = tasks.clone();
        async move { daemon.start(&tasks, deadline).await.unwrap_err() }
    };
    let error = start(&["refuse", "two\nlines"], LONG).await;
    assert!(
        matches!(&error, StartError::Refused { text, .. } if text == "two lines"),
        "{error}"
    );
    let error = start(&["die"], LONG).await;
    assert!(
        matches!(&error, StartError::Died { log_tail, .. } if log_tail == "last words"),
        "{error}"
    );
    let daemon = fixture(&log).exe("/nonexistent/program").arg("ready");
    let error = daemon.start(&tasks, LONG).await.unwrap_err();
    assert!(matches!(error, StartError::Io { .. }), "{error}");
}

#[test]
fn a_silent_daemon_is_not_waited_for_beyond_the_deadline() {
    let folder = folder();
    let log = folder.path().join("daemon.log");
    let daemon = fixture(&log).arg("silent");
    let error = daemon
        .start_blocking(Duration::from_millis(300))
        .unwrap_err();
    assert!(matches!(error, StartError::Silent { .. }), "{error}");
    // It is ours to end: found by its open log, which no other process has.
    let log = log.canonicalize().unwrap();
    let found = wait_for("the daemon", || {
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .find_map(|entry| {
                let number: u32 = entry.file_name().to_str()?.parse().ok()?;
                let stderr = std::fs::read_link(entry.path().join("fd/2")).ok()?;
                (stderr == log).then_some(number)
            })
    });
    let daemon = KilledPid(found);
    assert!(test_kill_process(pid(daemon.0)).is_ok());
}

#[tokio::test]
async fn a_long_log_is_rotated_once() {
    let (folder, tasks) = (folder(), Tasks::new("test"));
    let log = folder.path().join("daemon.log");
    std::fs::write(&log, vec![b'x'; 9 * 1024 * 1024]).unwrap();
    let error = fixture(&log).arg("die").start(&tasks, LONG).await;
    assert!(matches!(error, Err(StartError::Died { .. })));
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    assert_eq!(size("daemon.log.1"), 9 * 1024 * 1024);
    assert_eq!(text(&log), "last words\n");
}

#[test]
fn a_second_signal_ends_the_process() {
    let mut child = Killed(
        Command::new(FIXTURE)
            .arg("signals")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(child.0.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(next(), "waiting\n");
    let child_pid = pid(child.0.id());
    kill_process(child_pid, Signal::TERM).unwrap();
    assert_eq!(next(), "first SIGTERM\n");
    kill_process(child_pid, Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

#[test]
fn logs_are_json_on_stderr_and_panics_are_in_them() {
    let output = Command::new(FIXTURE).arg("log").output().unwrap();
    assert!(output.stdout.is_empty());
    let log = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with('{') && line.ends_with('}')),
        "{log}"
    );
    assert!(log.contains("\"answer\":42"), "{log}");
    assert!(log.contains("\"panic\":\"a panic for the log\""), "{log}");
}

#[test]
fn the_open_file_limit_is_raised_and_given_back() {
    let original = limits::raise_open_files().unwrap();
    assert_eq!(limits::open_files().soft, original.hard);
    limits::set_open_files(original).unwrap();
    assert_eq!(limits::open_files(), original);
}

#[test]
fn a_fail_point_kills_at_its_hit_where_it_is_compiled_in() {
    let mut child = Killed(
        Command::new(FIXTURE)
            .args(["count", "between", "5"])
            .env("MUSTER_FAILPOINT", "between:3")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut counted = String::new();
    child
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut counted)
        .unwrap();
    let status = child.0.wait().unwrap();
    if cfg!(feature = "failpoints") {
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!((counted.as_str(), signal), ("1\n2\n3\n", Some(9)));
    } else {
        assert_eq!(
            (counted.as_str(), status.code()),
            ("1\n2\n3\n4\n5\n", Some(0))
        );
    }
}
