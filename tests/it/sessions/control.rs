//! Starting, stopping, interrupting, resuming, and what is left behind.

use muster_e2e::{DEADLINE, eventually};

use super::{await_tail, serving};
use crate::world;

#[test]
fn a_start_that_fails_leaves_a_row_that_says_why() {
    let world = world();
    world.up();
    let failed = world
        .muster(["run", "--detach", "--", "/no/such/program"])
        .output();
    let _ = failed.exits(127).says("error:");
    let sessions = world.json(&["session", "ls"]);
    let session = &sessions["sessions"][0];
    assert_eq!(session["status"], "failed", "{session}");
    assert_eq!(session["failure_reason"], "PROGRAM_NOT_FOUND", "{session}");
}

#[test]
fn stop_ends_a_deaf_program_and_is_no_failure() {
    let world = world();
    let id = world.detached([
        world.program(),
        "ignore",
        "INT",
        "ignore",
        "TERM",
        "print",
        "ready",
        "silence",
    ]);
    await_tail(&world, &id, "ready");
    let _ = world.muster(["session", "stop", &id]).output().ok();
    let session = world.await_status(&id, "stopped");
    assert_eq!(session["process"], "exited", "{session}");
    // Again: a success that says so.
    let _ = world.muster(["session", "stop", &id]).output().ok();
    let _ = world
        .muster(["send", &id, "late"])
        .output()
        .exits(4)
        .says("hint:");
}

#[test]
fn stop_takes_the_whole_tree() {
    let world = world();
    let id = world.detached([world.program(), "fork", "print", "ready", "serve"]);
    let output = await_tail(&world, &id, "ready");
    let child: i32 = output
        .lines()
        .find_map(|line| line.strip_prefix("forked ")?.parse().ok())
        .unwrap();
    assert!(muster_e2e::processes::runs(child));
    let _ = world.muster(["session", "stop", &id]).output().ok();
    world.await_status(&id, "stopped");
    eventually("the child in a session of its own is gone", || {
        (!muster_e2e::processes::runs(child)).then_some(())
    });
}

#[test]
fn s33_survivors_are_listed_and_can_be_ended() {
    let world = world();
    let file = world.root().join("still");
    let orphan = ["orphan", file.to_str().unwrap(), "print", "bye"];
    let id = world.detached([&[world.program()], &orphan[..]].concat());
    let session = world.await_status(&id, "exited");
    let survivors = session["survivors"].as_array().unwrap().clone();
    assert_eq!(survivors.len(), 1, "{session}");
    let pid = i32::try_from(survivors[0]["pid"].as_i64().unwrap()).unwrap();
    assert!(muster_e2e::processes::runs(pid));
    // Two runs of a session never live side by side (S9).
    let early = world.muster(["session", "resume", &id]).output();
    let _ = early.exits(4).says("--survivors");
    let _ = world
        .muster(["session", "stop", &id, "--survivors"])
        .output()
        .ok();
    eventually("the survivor is gone", || {
        (!muster_e2e::processes::runs(pid)).then_some(())
    });
    eventually("the next run is started", || {
        let resumed = world.muster(["session", "resume", &id]).output();
        (resumed.code == Some(0)).then_some(())
    });
}

#[test]
fn s33_a_session_whose_folder_vanishes_is_orphaned() {
    let world = world();
    let folder = world.home().join("gone");
    std::fs::create_dir(&folder).unwrap();
    let start = [
        "run",
        "--detach",
        "--",
        world.program(),
        "print",
        "ready",
        "serve",
    ];
    let id = world.muster(start).in_folder(&folder).output().ok().text();
    await_tail(&world, &id, "ready");
    std::fs::remove_dir(&folder).unwrap();
    world.await_status(&id, "orphaned");
}

#[test]
fn s39_interrupt_reaches_a_generic_program() {
    let world = world();
    let id = world.detached([
        "bash",
        "-c",
        "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done",
    ]);
    await_tail(&world, &id, "ready");
    let _ = world.muster(["session", "interrupt", &id]).output().ok();
    let output = await_tail(&world, &id, "caught");
    assert_eq!(output, "ready\ncaught");
    let _ = world
        .muster(["wait", &id, "--for", "exit", "--timeout", "60s"])
        .output()
        .ok();
    assert_eq!(world.session(&id)["exit_code"], 5);
}

#[test]
fn s10_resume_is_the_next_run_of_the_same_command() {
    let world = world();
    let log = world.root().join("messages");
    let id = world.detached([
        world.program(),
        "log",
        log.to_str().unwrap(),
        "print",
        "ready",
        "serve",
    ]);
    await_tail(&world, &id, "ready");
    let running = world.muster(["session", "resume", &id]).output();
    let _ = running.exits(4).says("hint:");
    let _ = world.muster(["send", &id, "!exit 0"]).output().ok();
    world.await_status(&id, "exited");
    let _ = world.muster(["session", "resume", &id]).output().ok();
    let session = world.await_status(&id, "running");
    assert_eq!(session["run"], 2, "{session}");
    let _ = world.muster(["send", &id, "second"]).output().ok();
    await_tail(&world, &id, "got 1 second");
    let first = world
        .muster(["tail", &id, "--raw", "--run", "1", "--from", "start"])
        .output()
        .ok();
    assert_eq!(first.text(), "ready");
}

#[test]
fn wait_tells_the_end_from_a_timeout() {
    let world = world();
    let id = serving(&world);
    let early = world
        .muster(["wait", &id, "--for", "exit", "--timeout", "200ms"])
        .output();
    assert_ne!(early.code, Some(0), "{early}");
    let idle = world
        .muster(["wait", &id, "--for", "idle", "--timeout", "1s"])
        .output();
    assert_ne!(
        idle.code,
        Some(0),
        "a generic program is never idle: {idle}"
    );
    let waiting = world
        .muster(["wait", &id, "--for", "exit", "--timeout", "60s"])
        .start();
    let _ = world.muster(["send", &id, "!exit 0"]).output().ok();
    let _ = waiting.finish(DEADLINE).ok();
}
