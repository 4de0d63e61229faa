//! Sessions over their life: messages, waiting, control, resume, and what the commands say about them.

use std::time::Duration;

use muster_e2e::{DEADLINE, World, eventually};

use crate::world;

/// A session that notes and answers messages; its id.
fn serving(world: &World) -> String {
    let log = world.root().join("messages");
    world.detached([
        world.program(),
        "log",
        log.to_str().unwrap(),
        "print",
        "ready",
        "serve",
    ])
}

/// Waits until the raw output contains `text`.
fn await_tail(world: &World, id: &str, text: &str) -> String {
    eventually(&format!("the output contains {text:?}"), || {
        let output = world
            .muster(["tail", id, "--raw", "--from", "start"])
            .output()
            .ok()
            .text();
        output.contains(text).then_some(output)
    })
}

#[test]
fn messages_reach_the_program_once_and_in_order() {
    let world = world();
    let id = serving(&world);
    for number in 0..10 {
        let _ = world
            .muster(["send", &id, &format!("message {number}")])
            .output()
            .ok();
    }
    let output = await_tail(&world, &id, "got 10 ");
    let expected: String = (0..10)
        .map(|number| format!("got {} message {number}\n", number + 1))
        .collect();
    assert_eq!(output, format!("ready\n{expected}").trim_end());
    let log = std::fs::read_to_string(world.root().join("messages")).unwrap();
    assert_eq!(log.lines().count(), 10);
}

#[test]
fn s14_the_same_client_key_is_one_message() {
    let world = world();
    let id = serving(&world);
    let send = |text: &str| {
        world
            .muster(["send", &id, text, "--id", "key-1", "--json"])
            .output()
    };
    let first = send("once").ok().json();
    let again = send("once").ok().json();
    assert_eq!(first["id"], again["id"]);
    assert_eq!(again["replayed"], true, "{again}");
    let _ = world.muster(["send", &id, "last"]).output().ok();
    await_tail(&world, &id, "last");
    assert_eq!(
        std::fs::read(world.root().join("messages")).unwrap(),
        b"once\nlast\n"
    );
    // The key belongs to a session: elsewhere it is refused or another message, never silently swallowed.
    let other = world.detached([world.program(), "serve"]);
    let elsewhere = world
        .muster(["send", &other, "once", "--id", "key-1", "--json"])
        .output();
    if elsewhere.code == Some(0) {
        assert_ne!(elsewhere.json()["id"], first["id"]);
    } else {
        let _ = elsewhere.exits(4);
    }
}

#[test]
fn send_waits_until_written() {
    let world = world();
    let id = serving(&world);
    let sent = world
        .muster(["send", &id, "hello", "--wait", "written", "--json"])
        .output()
        .ok()
        .json();
    assert_eq!(sent["state"], "written", "{sent}");
    // A generic program echoes nothing: nobody can know that it has seen the text.
    let seen = world
        .muster(["send", &id, "hello", "--wait", "seen"])
        .output();
    assert_ne!(seen.code, Some(0), "{seen}");
    assert!(seen.stderr.contains("error:"), "{seen}");
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
