//! What is said about an end is true: of the whole tree, of what survived it, and of what is
//! left when the folder of a run is deleted.

use std::path::PathBuf;

use muster_e2e::{World, eventually, processes::runs};
use rustix::process::{Pid, Signal};

use super::await_tail;
use crate::world;

/// The number behind `word` in a session's output.
fn pid_behind(output: &str, word: &str) -> i32 {
    let line = output.lines().find_map(|line| line.strip_prefix(word));
    line.unwrap().trim().parse().unwrap()
}

fn show(world: &World, id: &str) -> serde_json::Value {
    world.json(&["session", "show", id])
}

#[test]
fn s29_a_session_is_stopped_when_its_whole_tree_has_ended_and_not_before() {
    let world = world();
    // The program ends with its stdin; its child hears nothing but SIGKILL.
    let script = "setsid bash -c 'trap \"\" INT TERM; echo child $$; while :; do sleep 0.05; done' & \
                  echo ready; read line";
    let id = world.detached(["bash", "-c", script]);
    let output = await_tail(&world, &id, "child ");
    let child = pid_behind(&output, "child ");
    await_tail(&world, &id, "ready");
    let _ = world.muster(["session", "stop", &id]).output().ok();
    let session = show(&world, &id);
    if runs(child) {
        assert_eq!(session["stop_requested"], true, "{session}");
    }
    let waited = world.muster(["wait", &id]).output();
    assert!(!runs(child), "{}", waited.text());
    let session = show(&world, &id);
    assert_eq!(session["status"], "stopped", "{session}");
    assert!(session["survivors"].as_array().is_none_or(Vec::is_empty));
}

#[test]
fn s33_survivors_that_end_by_themselves_are_shown_no_more() {
    let world = world();
    let file = world.root().join("still");
    let orphan = ["orphan", file.to_str().unwrap(), "print", "bye"];
    let id = world.detached([&[world.program()], &orphan[..]].concat());
    let session = world.await_status(&id, "exited");
    let pid = i32::try_from(session["survivors"][0]["pid"].as_i64().unwrap()).unwrap();
    assert!(runs(pid));
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    eventually("the survivor is shown no more", || {
        let session = show(&world, &id);
        let gone = session["survivors"].as_array().is_none_or(Vec::is_empty);
        gone.then_some(())
    });
    let _ = world
        .muster(["session", "stop", &id, "--survivors"])
        .output()
        .ok()
        .says("no process");
}

#[test]
fn s33_the_end_of_survivors_says_whom_it_ended() {
    let world = world();
    let file = world.root().join("still");
    let orphan = ["orphan", file.to_str().unwrap(), "print", "bye"];
    let id = world.detached([&[world.program()], &orphan[..]].concat());
    let session = world.await_status(&id, "exited");
    let pid = session["survivors"][0]["pid"].as_i64().unwrap();
    let _ = world
        .muster(["session", "stop", &id, "--survivors"])
        .output()
        .ok()
        .says(&format!("(pid {pid})"));
    assert!(!runs(i32::try_from(pid).unwrap()));
}

#[test]
fn r5_a_run_folder_that_is_deleted_is_told_and_the_program_can_be_stopped() {
    let world = world();
    let id = world.detached(["bash", "-c", "echo me $$; exec sleep 600"]);
    let output = await_tail(&world, &id, "me ");
    let pid = pid_behind(&output, "me ");
    let folder = run_folder(&world, &id);
    std::fs::remove_dir_all(&folder).unwrap();
    let session = world.await_status(&id, "orphaned");
    assert_eq!(session["run_folder_missing"], true, "{session}");
    assert!(runs(pid));
    let _ = world.muster(["session", "stop", &id]).output().ok();
    let session = world.await_status(&id, "lost");
    assert_eq!(session["lost_reason"], "folder", "{session}");
    assert!(!runs(pid));
}

#[test]
fn s29_a_damaged_exit_record_is_lost_and_says_so() {
    let world = world();
    let id = world.detached(["bash", "-c", "echo ready; exec sleep 600"]);
    await_tail(&world, &id, "ready");
    let session = show(&world, &id);
    let pid = |field: &str| {
        let pid = i32::try_from(session[field].as_i64().unwrap()).unwrap();
        Pid::from_raw(pid).unwrap()
    };
    // Garbage in its place, and nobody who could write the record.
    std::fs::write(run_folder(&world, &id).join("exit.json"), "{\"code\":").unwrap();
    rustix::process::kill_process(pid("keeper_pid"), Signal::KILL).unwrap();
    rustix::process::kill_process(pid("pid"), Signal::KILL).unwrap();
    // An agent that is quick enough has another keeper record the end over the garbage.
    let session = world.await_status(&id, "lost");
    assert_eq!(session["lost_reason"], "keeper", "{session}");
}

#[test]
fn s28_output_after_a_truncation_arrives_and_the_damage_is_shown() {
    let world = world();
    let go = world.root().join("go");
    let script = format!(
        "echo before; until test -e {0}; do sleep 0.05; done; echo after; sleep 600",
        go.display()
    );
    let id = world.detached(["bash", "-c", &script]);
    await_tail(&world, &id, "before");
    let read = |offset: &str| {
        eventually("the output is consumed", || {
            let session = show(&world, &id);
            (session["cursor"]["offset"] == offset).then_some(session)
        })
    };
    read("7");
    let stream = run_folder(&world, &id).join("stream.jsonl");
    std::fs::File::options()
        .write(true)
        .open(stream)
        .unwrap()
        .set_len(0)
        .unwrap();
    eventually("the damage is shown", || {
        (show(&world, &id)["damage"] == "truncated").then_some(())
    });
    std::fs::write(&go, "").unwrap();
    // Its offsets go on after those of what is gone.
    let session = read("13");
    assert_eq!(session["damaged_lines"], "1", "{session}");
    await_tail(&world, &id, "after");
}

#[test]
fn s19_a_message_that_was_never_read_is_failed() {
    let world = world();
    let go = world.root().join("go");
    let script = format!(
        "echo ready; read line; until test -e {0}; do sleep 0.05; done; exit 0",
        go.display()
    );
    let id = world.detached(["bash", "-c", &script]);
    await_tail(&world, &id, "ready");
    for text in ["read", "never"] {
        let send = ["send", &id, "--id", text, "--wait", "written", text];
        let _ = world.muster(send).output().ok();
    }
    std::fs::write(&go, "").unwrap();
    world.await_status(&id, "exited");
    let again = |text: &str| {
        let send = ["send", &id, "--id", text, "--wait", "written", text];
        world.muster(send).output()
    };
    let _ = again("read").ok();
    let failed = again("never");
    assert_ne!(failed.code, Some(0));
    let _ = failed.says("NEVER_READ");
}

fn run_folder(world: &World, id: &str) -> PathBuf {
    let name = format!("sessions/{id}/runs/1");
    let mut open = vec![world.root().to_path_buf()];
    while let Some(folder) = open.pop() {
        if folder.join(&name).is_dir() {
            return folder.join(name);
        }
        let entries = std::fs::read_dir(&folder).unwrap().flatten();
        open.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| path.is_dir()),
        );
    }
    panic!("no folder of a run");
}
