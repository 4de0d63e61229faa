use std::{fs, os::unix::fs::PermissionsExt as _};

use muster_host_agent::{keeper_client, proc::Identity, run_dir::LockState};
use muster_proto::keeper::{SpawnFailureReason as Reason, StdinMode};
use muster_runtime::Tasks;

use super::kit::{PATIENCE, Run, binary, eventually};

#[tokio::test]
async fn a_program_runs_to_its_end_and_everything_about_it_is_on_disk() {
    let mut run = Run::script(
        StdinMode::Closable,
        "read line; echo \"got $line\"; echo oops >&2; exit 7",
    );
    let status = run.start();
    assert!(status.alive);
    assert_eq!(run.dir.lock_state().unwrap(), LockState::Held);
    let record = run.dir.proc().unwrap().unwrap();
    assert_eq!(Some(record.process.into()), status.process);
    assert_eq!(Some(record.keeper.into()), status.keeper);
    let outcome = run.deliver("one", "hello\n").await;
    assert_eq!(outcome.bytes_written, 6);
    let exit = run.exit().await;
    assert_eq!(
        (exit.code, exit.signal, exit.unknown),
        (Some(7), None, false)
    );
    assert_eq!(exit.stream_size, 10);
    assert_eq!(exit.stderr_tail, "oops\n");
    assert_eq!(exit.stderr_size, 5);
    assert_eq!(exit.survivors, []);
    assert!(exit.max_rss_bytes > 0);
    assert!(!exit.stop_requested);
    assert_eq!(run.text("stream.jsonl"), "got hello\n");
    eventually("the keeper's end", || {
        (run.dir.lock_state().unwrap() == LockState::Free).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_program_gets_defaults_markers_and_three_descriptors() {
    let script = "ls -l /proc/self/fd | wc -l; grep -E 'SigIgn|SigBlk' /proc/self/status; \
                  echo $MUSTER_SESSION_ID $MUSTER_RUN; ulimit -Sn; umask; env | wc -l; \
                  test $(cut -d' ' -f5 /proc/$$/stat) = $$ && echo leads";
    let mut run = Run::script(StdinMode::Held, script);
    run.spec.nofile_soft = 99;
    run.start();
    run.exit().await;
    let text = run.text("stream.jsonl");
    let lines: Vec<_> = text.lines().collect();
    // 0, 1, 2 and the folder that `ls` lists; the first line is the total.
    assert_eq!(lines[0].trim(), "5", "{text}");
    assert!(lines[1].ends_with("0000000000000000"), "{text}");
    // The C library keeps 32 and 33 for itself; nobody can give their default back.
    let ignored = u64::from_str_radix(lines[2].split_ascii_whitespace().last().unwrap(), 16);
    assert_eq!(ignored.unwrap() & 0x7fff_ffff, 0, "{text}");
    assert_eq!(lines[3], format!("{} 1", run.session));
    assert_eq!(lines[4], "99");
    assert_eq!(lines.last(), Some(&"leads"), "{text}");
}

#[tokio::test]
async fn each_reason_why_a_program_does_not_start_has_a_name() {
    let reason = |run: &mut Run| run.try_start().unwrap_err().reason();
    let mut run = Run::argv(StdinMode::Held, &["no-such-program-anywhere"]);
    assert_eq!(reason(&mut run), Reason::ProgramNotFound);
    let text = run.home.path().join("text");
    fs::write(&text, "no program").unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o644)).unwrap();
    run.spec.argv = vec!["./text".into()];
    assert_eq!(reason(&mut run), Reason::NotExecutable);
    fs::write(&text, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(reason(&mut run), Reason::NotExecutable);
    run.spec.cwd = "/no/such/folder".into();
    assert_eq!(reason(&mut run), Reason::CwdMissing);
    // None of it was a start: the same run can be started.
    run.spec.cwd = "/".into();
    run.spec.argv = vec!["true".into()];
    run.start();
    run.exit().await;
    assert_eq!(reason(&mut run), Reason::StartedBefore);
}

#[tokio::test]
async fn a_living_keeper_keeps_a_second_one_out() {
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    run.start();
    run.says("up").await;
    assert_eq!(run.try_start().unwrap_err().reason(), Reason::Locked);
    assert_eq!(run.adopt().unwrap_err().reason(), Reason::Locked);
    assert!(run.status().await.alive);
}

#[tokio::test]
async fn a_folder_whose_path_no_socket_address_could_hold_works() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("d".repeat(120)).join("e".repeat(120));
    let mut run = Run::below(home, &deep, StdinMode::Held, &["cat"]);
    run.start();
    run.deliver("one", "hello\n").await;
    run.says("hello").await;
}

#[tokio::test]
async fn the_keeper_is_detached_has_no_marker_and_ignores_a_polite_end() {
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    let status = run.start();
    let keeper: Identity = status.keeper.unwrap().into();
    let stat = muster_host_agent::proc::stat(keeper.pid).unwrap().unwrap();
    let own = muster_host_agent::proc::stat(std::process::id().try_into().unwrap());
    assert_ne!(stat.session, own.unwrap().unwrap().session);
    let environ = fs::read(format!("/proc/{}/environ", keeper.pid)).unwrap();
    assert_eq!(environ, b"");
    let boot = muster_host_agent::proc::boot_id().unwrap();
    for signal in [1, 2, 15] {
        let signal = muster_host_agent::proc::signal_of(signal).unwrap();
        muster_host_agent::proc::signal_identity(&boot, keeper, signal).unwrap();
    }
    run.deliver("one", "still\n").await;
    run.says("still").await;
    let fds = fs::read_dir(format!("/proc/{}/fd", keeper.pid)).unwrap();
    for fd in fds {
        let target = fs::read_link(fd.unwrap().path()).unwrap();
        assert!(!target.to_string_lossy().starts_with("pipe:"), "{target:?}");
    }
}

#[tokio::test]
async fn the_agent_starts_and_adopts_through_its_client() {
    let mut run = Run::script(StdinMode::Held, "cat");
    let launcher = keeper_client::Launcher::of(binary());
    let tasks = Tasks::new("test");
    let spec = run.spec.clone();
    let started = keeper_client::start(&launcher, &tasks, spec, PATIENCE).await;
    let keeper: Identity = started.unwrap().keeper.unwrap().into();
    run.kill(keeper).await;
    let adopted = keeper_client::adopt(&launcher, &tasks, run.dir.path(), PATIENCE).await;
    run.keepers.push(adopted.unwrap().keeper.unwrap().into());
    run.spec.run_dir = "/no/such/folder".into();
    let refused = keeper_client::start(&launcher, &tasks, run.spec.clone(), PATIENCE).await;
    assert_eq!(refused.unwrap_err().reason(), Some(Reason::SpawnFailed));
    let mute = keeper_client::Launcher::of("/bin/false");
    let unknown = keeper_client::start(&mute, &tasks, run.spec.clone(), PATIENCE).await;
    assert_eq!(unknown.unwrap_err().reason(), None);
}
