//! What a session printed: followed, resumed at an offset, standard error apart.

use muster_e2e::{DEADLINE, eventually};

use super::{await_tail, serving};
use crate::world;

#[test]
fn tail_follows_to_the_real_end_and_resumes_at_an_offset() {
    let world = world();
    let id = serving(&world);
    await_tail(&world, &id, "ready");
    let following = world
        .muster(["tail", &id, "--follow", "--raw", "--from", "start"])
        .start();
    for text in ["one", "two", "!print three", "!exit 0"] {
        let _ = world.muster(["send", &id, text]).output().ok();
    }
    let all = following.finish(DEADLINE).ok();
    assert_eq!(all.text(), "ready\ngot 1 one\ngot 2 two\nthree");
    let cursor = world.session(&id)["cursor"].clone();
    assert_eq!(
        cursor["offset"].as_str(),
        Some(all.stdout.len().to_string().as_str()),
        "{cursor}"
    );
    let lines = world
        .muster(["tail", &id, "--json", "--from", "start"])
        .output()
        .ok()
        .json_lines();
    let printed: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["line"].as_str())
        .collect();
    assert_eq!(printed, ["ready", "got 1 one", "got 2 two", "three"]);
    assert_eq!(lines[1]["offset"].as_str(), Some("6"), "{lines:?}");
}

#[test]
fn stderr_is_kept_apart_and_shown_with_a_failure() {
    let world = world();
    let id = world.detached([
        world.program(),
        "print",
        "out",
        "stderr",
        "what went wrong",
        "exit",
        "9",
    ]);
    let session = world.await_status(&id, "failed");
    assert!(
        session["stderr_tail"]
            .as_str()
            .unwrap()
            .contains("what went wrong"),
        "{session}"
    );
    assert_eq!(
        world
            .muster(["tail", &id, "--raw", "--from", "start"])
            .output()
            .ok()
            .text(),
        "out"
    );
    let stderr = world
        .muster(["tail", &id, "--stderr", "--from", "start"])
        .output()
        .ok();
    assert_eq!(stderr.text(), "what went wrong");
}

#[test]
fn the_folder_of_an_ended_run_may_be_removed() {
    let world = world();
    let id = world.detached([world.program(), "print", "out", "exit", "0"]);
    world.await_status(&id, "exited");
    let run = world.agent().join("sessions").join(&id).join("runs/1");
    assert!(run.join("exit.json").exists());
    std::fs::remove_dir_all(&run).unwrap();
    let gone = world
        .muster(["tail", &id, "--raw", "--from", "start"])
        .output();
    let _ = gone.exits(3).says("error:");
    let _ = world.muster(["down"]).output().ok();
    world.up();
    assert_eq!(world.session(&id)["status"], "exited");
    let _ = world.muster(["session", "resume", &id]).output().ok();
    let output = await_tail(&world, &id, "out");
    assert_eq!(output, "out");
    eventually("the next run has ended", || {
        let session = world.session(&id);
        (session["run"] == 2 && session["status"] == "exited").then_some(())
    });
}
