//! A full disk: what cannot be stored is refused, what was accepted stays, and programs can be stopped all the same.

use std::path::PathBuf;

use muster_e2e::{Mount, World, eventually};

use crate::world;

/// A coordinator whose data folder is a small disk; `None` where that cannot be had.
fn small_disk(world: &World, needed_for: &str) -> Option<Mount> {
    let mount = Mount::tmpfs(&world.data(), "size=12m,mode=700", needed_for)?;
    world.up();
    Some(mount)
}

/// Fills the coordinator's disk until it takes no message; gives the file to remove.
fn fill(world: &World, id: &str) -> PathBuf {
    let ballast = world.data().join("ballast");
    let filled = std::fs::write(&ballast, vec![0; 16 << 20]);
    assert!(filled.is_err(), "the small file system takes it all");
    let refused = (0..40).any(|number| {
        let key = format!("full-{number}");
        let text = format!("{number} {}", "x".repeat(100_000));
        let send = ["send", id, &text, "--id", &key, "--timeout", "3s"];
        let outcome = world.muster(send).output();
        outcome.code != Some(0) && outcome.says("error:").code.is_some()
    });
    assert!(refused, "a full disk takes no message");
    ballast
}

fn pid(world: &World, id: &str) -> i32 {
    let pid = world.session(id)["pid"].as_i64().unwrap();
    i32::try_from(pid).unwrap()
}

#[test]
fn a_full_disk_under_the_program_ends_nothing_but_its_writing() {
    let world = world();
    let Some(_mount) = Mount::tmpfs(
        &world.agent(),
        "size=24m,mode=700",
        "full disk under a session",
    ) else {
        return;
    };
    let id = world.detached([
        world.program(),
        "print",
        "ready",
        "flood",
        "60000000",
        "exit",
        "0",
    ]);
    let session = world.await_status(&id, "failed");
    assert_eq!(
        session["exit_code"], 99,
        "the program saw the full disk: {session}"
    );
}

#[test]
fn a_full_disk_under_the_coordinator_refuses_and_recovers() {
    let world = world();
    let Some(_mount) = small_disk(&world, "full disk under the coordinator") else {
        return;
    };
    let log = world.root().join("messages");
    let id = world.detached([world.program(), "log", log.to_str().unwrap(), "serve"]);
    let _ = world.muster(["send", &id, "before"]).output().ok();
    let ballast = fill(&world, &id);
    std::fs::remove_file(&ballast).unwrap();
    world.up();
    let _ = world
        .muster(["send", &id, "after", "--timeout", "60s"])
        .output()
        .ok();
    eventually("the message after the full disk arrives", || {
        let received = std::fs::read_to_string(&log).ok()?;
        received.contains("after").then_some(())
    });
}

#[test]
fn s39_a_full_disk_keeps_no_program_from_being_stopped() {
    let world = world();
    let Some(_mount) = small_disk(&world, "a stop on a full disk") else {
        return;
    };
    let id = world.detached([world.program(), "ignore", "INT", "serve"]);
    world.await_status(&id, "running");
    let program = pid(&world, &id);
    let ballast = fill(&world, &id);
    let _ = world.muster(["session", "interrupt", &id]).output().ok();
    let _ = world.muster(["session", "stop", &id]).output().ok();
    eventually("the program ends", || {
        (!muster_e2e::processes::runs(program)).then_some(())
    });
    std::fs::remove_file(&ballast).unwrap();
    world.await_status(&id, "stopped");
}

#[test]
fn down_stops_sessions_on_a_full_disk_too() {
    let world = world();
    let Some(_mount) = small_disk(&world, "down on a full disk") else {
        return;
    };
    let id = world.detached([world.program(), "serve"]);
    world.await_status(&id, "running");
    let program = pid(&world, &id);
    let ballast = fill(&world, &id);
    let outcome = world.muster(["down", "--sessions"]).output().ok();
    let _ = outcome.says("one session was stopped");
    assert!(!muster_e2e::processes::runs(program));
    std::fs::remove_file(&ballast).unwrap();
    world.up();
    world.await_status(&id, "stopped");
}
