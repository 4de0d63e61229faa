//! Output: exact bytes, readers that go or stop, names, forms.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::Command,
};

use crate::world::{World, finish};

#[test]
fn both_outputs_of_the_program_come_through_apart() {
    let world = World::new();
    let script = r"printf 'a\0b\377'; printf 'complaint' >&2; exit 7";
    let output = world.muster(&["run", "--", "bash", "-c", script]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"a\0b\xff");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("session ") && error.contains("complaint"),
        "{error}"
    );
}

#[test]
fn a_reader_that_goes_ends_it_without_an_error() {
    let world = World::new();
    let mut child = world.start(&["run", "--", "bash", "-c", "while :; do echo line; done"]);
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    assert_eq!(first, "line\n");
    drop(reader);
    let ended = finish(child);
    assert!(!ended.error().contains("error:"), "{}", ended.error());
    assert!(
        ended.error().contains("the session goes on"),
        "{}",
        ended.error()
    );
}

#[test]
fn ctrl_c_is_heard_while_nobody_reads() {
    let world = World::new();
    let mut child = world.start(&["run", "--", "bash", "-c", "while :; do echo line; done"]);
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 5]).unwrap();
    // The pipe is full before long, and stays so: it blocks whoever writes into it.
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    let ended = finish(child).exits(130);
    assert!(ended.error().contains("goes on"), "{}", ended.error());
    drop(stdout);
}

#[test]
fn live_names_are_offered() {
    let world = World::new();
    let started = world.run(&["run", "--detach", "--", "true"]).exits(0);
    let session = started.out();
    let names = world.run(&["names", "sessions"]).exits(0).out();
    assert_eq!(names, session);
    assert_eq!(world.run(&["names", "hosts"]).exits(0).out(), "local:\n");
    assert_eq!(
        world
            .run(&["names", "tasks"])
            .exits(0)
            .out()
            .lines()
            .count(),
        1
    );
}

#[test]
fn a_message_that_cannot_arrive_is_no_success() {
    let world = World::new();
    let started = world.run(&[
        "run",
        "--detach",
        "--",
        "bash",
        "-c",
        "exec <&-; sleep 1000",
    ]);
    let session = started.exits(0).out();
    let args = [
        "send",
        session.trim(),
        "text",
        "--wait",
        "written",
        "--timeout",
        "20s",
    ];
    let ended = world.run(&args);
    let code = ended.error();
    assert!(code.contains("error:"), "{code}");
}
