//! What is said: failures for people and for programs, cursors to resume at, ends.

use serde_json::Value;

use crate::world::{Ended, World};

/// The one document on standard error.
#[track_caller]
fn failure(ended: &Ended) -> Value {
    assert_eq!(ended.out(), "");
    let document: Value = serde_json::from_str(&ended.error()).unwrap();
    let error = &document["error"];
    for field in ["reason", "message", "hint", "usage"] {
        assert!(error[field].is_string(), "{document}");
    }
    assert!(error["metadata"].is_object(), "{document}");
    error.clone()
}

#[test]
fn failures_are_one_json_document_where_json_is_asked_for() {
    let world = World::new();
    for (args, code, reason) in [
        (&["session", "ls", "--json", "--bogus"][..], 2, "USAGE"),
        (&["nonsense", "--json"], 2, "USAGE"),
        (&["--json"], 2, "USAGE"),
        (&["send", "x", "--json"], 2, "USAGE"),
        (&["wait", "x", "--for", "ever", "--json"], 2, "USAGE"),
        (
            &["tail", "x", "--from", "middle", "--json"],
            2,
            "BAD_CURSOR",
        ),
        (&["status", "--json"], 5, "COORDINATOR_UNREACHABLE"),
        (
            &["send", "x", "text", "--timeout", "1s", "--json"],
            5,
            "COORDINATOR_UNREACHABLE",
        ),
    ] {
        let error = failure(&world.run(args).exits(code));
        assert_eq!(error["reason"], reason, "{args:?}: {error}");
        assert_eq!(error["exit_code"], code, "{args:?}: {error}");
        assert_ne!(error["hint"], "", "{args:?}: {error}");
    }
}

#[test]
fn a_json_flag_of_the_program_is_not_ours() {
    let world = World::new();
    let ended = world.run(&["run", "echo", "--", "--json"]).exits(2);
    let error = ended.error();
    assert!(error.starts_with("error: "), "{error}");
    assert!(
        error.contains("hint: put the program after `--`: `muster run -- echo -- --json`"),
        "{error}"
    );
}

/// The lines of `tail --json`.
fn lines(world: &World, session: &str, from: &str) -> Vec<Value> {
    let ended = world.run(&["tail", session, "--json", "--from", from]);
    let text = ended.exits(0).out();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[test]
fn an_output_goes_on_at_every_cursor_that_its_lines_carry() {
    let world = World::new();
    let script = r"printf 'one\ntwo\n\nthree'";
    let ended = world.run(&["run", "--", "bash", "-c", script]).exits(0);
    assert_eq!(ended.out(), "one\ntwo\n\nthree");
    let names = world.run(&["names", "sessions"]).exits(0).out();
    let session = names.trim();

    let all = lines(&world, session, "start");
    let texts: Vec<&str> = all.iter().map(|l| l["line"].as_str().unwrap()).collect();
    assert_eq!(texts, ["one", "two", "", "three"]);
    assert_eq!(all[3]["torn"], true);
    for (at, line) in all.iter().enumerate() {
        let cursor = format!("{}:{}", line["run"], line["next"].as_str().unwrap());
        assert_eq!(lines(&world, session, &cursor), all[at + 1..], "{cursor}");
        let offset = line["offset"].as_str().unwrap();
        assert_eq!(lines(&world, session, offset), all[at..], "{offset}");
    }
    // In the middle of a line: exactly there.
    let raw = world.run(&["tail", session, "--from", "1:5", "--raw"]);
    assert_eq!(raw.exits(0).out(), "wo\n\nthree");

    for (cursor, run, code, reason) in [
        ("1:15", "1", 2, "BAD_CURSOR"),
        ("999999", "1", 2, "BAD_CURSOR"),
        ("7:0", "7", 3, "RUN_NOT_FOUND"),
        ("1:0", "2", 2, "BAD_CURSOR"),
    ] {
        let args = ["tail", session, "--from", cursor, "--run", run, "--json"];
        let error = failure(&world.run(&args).exits(code));
        assert_eq!(error["reason"], reason, "{cursor}: {error}");
        assert_ne!(error["hint"], "", "{cursor}: {error}");
    }
}

#[test]
fn a_wait_prints_what_it_waited_for_and_a_stop_what_it_did() {
    let world = World::new();
    let started = world.run(&["run", "--detach", "--", "sleep", "1000"]);
    let session = started.exits(0).out();
    let session = session.trim();
    let said = world.run(&["session", "stop", session]).exits(0);
    assert_eq!(said.out(), "");
    assert!(said.error().contains("next: `muster "), "{}", said.error());
    let waited = world.run(&["wait", session]).exits(0);
    assert_eq!(waited.out(), "stopped\n");
    let waited = world.run(&["wait", session, "--json"]).exits(0).out();
    let waited: Value = serde_json::from_str(&waited).unwrap();
    assert_eq!(waited["id"], session);
    let said = world.run(&["session", "stop", session]).exits(0).error();
    assert!(said.contains("nothing to stop"), "{said}");
}

#[test]
fn only_what_waits_in_that_session_is_taken_back() {
    let world = World::new();
    let start = |argv: &[&str]| {
        let args = [&["run", "--detach", "--"][..], argv].concat();
        world.run(&args).exits(0).out().trim().to_owned()
    };
    let cat = start(&["cat"]);
    let other = start(&["sleep", "1000"]);
    let sent = world.run(&["send", &cat, "text", "--wait", "written", "--json"]);
    let sent: Value = serde_json::from_str(&sent.exits(0).out()).unwrap();
    let message = sent["id"].as_str().unwrap();
    for (session, code, reason) in [
        (&cat, 4, "ALREADY_WRITTEN"),
        (&other, 3, "MESSAGE_NOT_FOUND"),
    ] {
        let args = ["queue", session, "cancel", message, "--json"];
        let error = failure(&world.run(&args).exits(code));
        assert_eq!(error["reason"], reason, "{error}");
        assert_ne!(error["hint"], "", "{error}");
    }
}
