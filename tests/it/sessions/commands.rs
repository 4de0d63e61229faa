//! The other commands, and that they agree with each other about a session.

use std::time::Duration;

use muster_e2e::eventually;

use super::{await_tail, serving};
use crate::world;

#[test]
fn up_status_and_down_agree() {
    let world = world();
    let away = world.muster(["status"]).output();
    let _ = away.exits(5).says("error:").says("hint:");
    world.up();
    let status = world.json(&["status"]);
    assert_eq!(status["hosts"][0]["link"], "connected", "{status}");
    assert!(status["coordinator"]["version"].is_string(), "{status}");
    let id = serving(&world);
    await_tail(&world, &id, "ready");
    let agent = world.agent_pid().unwrap();
    // A second `up` finds the first.
    world.up();
    assert_eq!(world.agent_pid(), Some(agent));

    let _ = world.muster(["down"]).output().ok();
    eventually("nobody answers", || {
        world.coordinator_pid().is_none().then_some(())
    });
    world.up();
    assert_eq!(world.await_status(&id, "running")["run"], 1);
    let _ = world.muster(["send", &id, "still there"]).output().ok();
    await_tail(&world, &id, "got 1 still there");
    let _ = world.muster(["down", "--sessions"]).output().ok();
    eventually("no keeper is left", || {
        let keepers = world
            .processes()
            .iter()
            .filter(|process| process.command.contains("keeper"))
            .count();
        (keepers == 0).then_some(())
    });
}

#[test]
fn tasks_feed_and_explain_speak_about_the_session() {
    let world = world();
    let task = world.json(&["task", "add", "Look after the sheep"]);
    let task_id = task["id"].as_str().unwrap().to_owned();
    let start = [
        "run",
        "--detach",
        "--task",
        &task_id,
        "--",
        world.program(),
        "print",
        "ready",
        "exit",
        "0",
    ];
    let id = world.muster(start).output().ok().text();
    world.await_status(&id, "exited");
    let shown = world.json(&["task", "show", &task_id]);
    assert!(
        shown["session_ids"]
            .as_array()
            .unwrap()
            .iter()
            .any(|listed| listed == id.as_str()),
        "{shown}"
    );
    let _ = world
        .muster(["task", "phase", &task_id, "complete"])
        .output()
        .ok();
    assert_eq!(world.json(&["task", "show", &task_id])["phase"], "complete");
    let _ = world
        .muster(["task", "phase", &task_id, "nonsense"])
        .output()
        .exits(2);
    assert!(
        !world.json(&["task", "ls"])["tasks"]
            .as_array()
            .unwrap()
            .is_empty()
    );

    let feed = world.muster(["feed", "--json"]).start();
    feed.await_output(&id);
    let other = world.detached([world.program(), "print", "x"]);
    feed.await_output(&other);
    drop(feed);
    let again = world.muster(["feed", "--json", "--after", "0"]).start();
    again.await_output(&id);
    drop(again);
}

#[test]
fn files_of_the_host_are_read_listed_and_described() {
    let world = world();
    world.up();
    std::fs::write(world.home().join("notes"), "0123456789").unwrap();
    let host = world.json(&["status"])["hosts"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("{host}:{}/notes", world.home().display());
    assert_eq!(
        world.muster(["cat", &path]).output().ok().text(),
        "0123456789"
    );
    assert_eq!(
        world
            .muster(["cat", &path, "--range", "2-5"])
            .output()
            .ok()
            .text()
            .len()
            / 3,
        1
    );
    assert!(
        world
            .muster(["ls", &format!("{host}:~")])
            .output()
            .ok()
            .text()
            .contains("notes")
    );
    let stat = world.json(&["stat", &path]);
    assert_eq!(
        stat["size_bytes"]
            .as_str()
            .or(stat["file"]["size_bytes"].as_str()),
        Some("10"),
        "{stat}"
    );
    let _ = world
        .muster(["cat", &format!("{path}-absent")])
        .output()
        .exits(3)
        .says("error:");
}

#[test]
fn queue_version_and_completions_work_without_a_fuss() {
    let world = world();
    let _ = world.muster(["version"]).output().ok();
    assert!(
        !world
            .muster(["completions", "bash"])
            .output()
            .ok()
            .stdout
            .is_empty()
    );
    let id = serving(&world);
    let _ = world.muster(["queue", &id]).output().ok();
    let none = world.muster(["session", "show", "0198c0de"]).output();
    let _ = none.exits(3);
    let usage = world
        .muster(["no-such-command"])
        .limit(Duration::from_secs(60))
        .output();
    let _ = usage.exits(2);
}
