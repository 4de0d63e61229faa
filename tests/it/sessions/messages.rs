//! Messages on their way to a program, and the queue that holds them.

use super::{await_tail, serving};
use crate::world;

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
