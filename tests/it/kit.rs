//! The test kit on itself: what it cannot do, no test above it would notice.

use muster_e2e::pattern::Checker;
use muster_e2e::{DEADLINE, eventually};

use crate::{BINARIES, world};

#[test]
fn the_program_obeys_its_arguments() {
    let world = world();
    let script = [
        "print", "one", "stderr", "two", "giant", "100000", "latin", "torn", "end", "exit", "7",
    ];
    let outcome = world
        .command(world.program(), script)
        .output()
        .exits(7)
        .says("two\n");
    let mut expected = b"one\n".to_vec();
    expected.extend_from_slice(&[b'x'; 100_000]);
    expected.extend_from_slice(b"\ncaf\xe9 \xff\xfe \xed\xa0\x80\nend");
    assert_eq!(outcome.stdout, expected);
}

#[test]
fn the_program_floods_with_the_pattern() {
    let world = world();
    let outcome = world
        .command(world.program(), ["flood", "1000001"])
        .output()
        .ok();
    let mut checker = Checker::default();
    checker.take(&outcome.stdout);
    assert_eq!(checker.finish(1_000_001), Ok(()));
}

#[test]
fn the_program_is_deaf_on_request_and_its_children_end_with_the_world() {
    let root = {
        let world = world();
        let mut running = world
            .command(
                world.program(),
                ["ignore", "TERM", "fork", "print", "ready", "silence"],
            )
            .in_folder(world.root())
            .start();
        running.await_output("ready");
        running.signal(rustix::process::Signal::TERM);
        assert!(!running.has_ended());
        eventually("program and child are seen", || {
            (world.processes().len() == 2).then_some(())
        });
        world.root().to_path_buf()
    };
    assert!(!root.exists());
}

#[test]
fn a_panic_ends_the_world_too() {
    let mut root = None;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let world = world();
        root = Some(world.root().to_path_buf());
        let running = world
            .command(world.program(), ["fork", "silence"])
            .in_folder(world.root())
            .start();
        running.await_output("forked");
        panic!("on purpose");
    }));
    assert!(caught.is_err());
    let root = root.expect("the world was made");
    assert_eq!(muster_e2e::processes::working_in(&root), []);
    assert!(!root.exists());
}

#[test]
fn messages_are_noted_byte_for_byte() {
    let world = world();
    let log = world.root().join("messages");
    let input = world.root().join("input");
    std::fs::write(&input, "a\n!print b\n c \n\n!exit 3\nnever\n").unwrap();
    let script = format!(
        "exec {} log {} serve < {}",
        BINARIES.program,
        log.display(),
        input.display()
    );
    let outcome = world
        .command("bash", ["-c", &script])
        .limit(DEADLINE)
        .output()
        .exits(3);
    assert_eq!(outcome.text(), "got 1 a\nb\ngot 2  c \ngot 3 ");
    assert_eq!(std::fs::read(&log).unwrap(), b"a\n c \n\n");
}
