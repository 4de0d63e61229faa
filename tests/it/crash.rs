//! Coordinator, agent or both are killed at random moments while messages are sent: each arrives once, in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_e2e::{Fate, Model, World, eventually, knob};

use crate::world;

/// What `send` told about one message.
pub(crate) fn send(world: &World, id: &str, key: &str, text: &str) -> Fate {
    let outcome = world
        .muster(["send", id, text, "--id", key, "--timeout", "60s"])
        .output();
    match outcome.code {
        Some(0) => Fate::Accepted,
        Some(_) if outcome.stderr.contains("not accepted") => Fate::NotAccepted,
        Some(5) if outcome.stderr.contains("unknown") => Fate::Unknown,
        _ => panic!("neither accepted nor refused: {outcome}"),
    }
}

/// Process ids of this world's coordinators and agents, by the names that they carry.
pub(crate) fn daemons(world: &World, coordinator: bool, agent: bool) -> Vec<i32> {
    let is = |command: &str, name: &str| {
        let program = command
            .split_whitespace()
            .next()
            .and_then(|word| word.rsplit('/').next());
        program == Some(name)
    };
    let processes = world.processes().into_iter();
    processes
        .filter(|process| {
            (coordinator && is(&process.command, "musterd"))
                || (agent && is(&process.command, "muster-agent"))
        })
        .map(|process| process.pid)
        .collect()
}

fn kill_now_and_then(world: &World, mut random: fastrand::Rng, done: &AtomicBool) -> u32 {
    let mut kills = 0;
    while !done.load(Ordering::Acquire) {
        // The moment is the fault that is injected; nothing waits for it.
        std::thread::sleep(Duration::from_millis(random.u64(20..500)));
        let (coordinator, agent) = match random.u8(0..3) {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        };
        for pid in daemons(world, coordinator, agent) {
            kills += u32::from(world.kill(pid));
        }
        let _ = world.muster(["up", "--detach"]).output().ok();
    }
    kills
}

fn one_seed(seed: u64, messages: u64) {
    eprintln!("seed {seed}: MUSTER_CRASH_SEED={seed} MUSTER_CRASH_MESSAGES={messages} replays it");
    let world = world();
    let log = world.root().join("messages");
    world.up();
    let id = world.detached([world.program(), "log", log.to_str().unwrap(), "serve"]);
    let mut model = Model::default();
    let done = AtomicBool::new(false);
    let kills = std::thread::scope(|scope| {
        let killer =
            scope.spawn(|| kill_now_and_then(&world, fastrand::Rng::with_seed(seed), &done));
        for number in 0..messages {
            let text = format!("message {number} of seed {seed}");
            model.sent(&text, send(&world, &id, &format!("{seed}-{number}"), &text));
        }
        done.store(true, Ordering::Release);
        killer.join().expect("the killer does not panic")
    });
    world.up();
    model.sent("the last one", send(&world, &id, "last", "the last one"));
    let received = eventually("the last message arrives", || {
        let received = std::fs::read(&log).unwrap_or_default();
        received.ends_with(b"the last one\n").then_some(received)
    });
    let counts = model
        .compare(&received)
        .unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
    eprintln!("seed {seed}: {kills} kills, {counts:?}");
    assert!(
        counts.unknown <= messages as usize / 4,
        "too often nobody knows: {counts:?}"
    );

    // What the program answered is as complete as what it read.
    let lines = received.split_inclusive(|&byte| byte == b'\n').enumerate();
    let answers: String = lines
        .map(|(at, line)| format!("got {} {}", at + 1, String::from_utf8_lossy(line)))
        .collect();
    let tail = eventually("the answers are all there", || {
        let tail = world
            .muster(["tail", &id, "--raw", "--from", "start"])
            .output()
            .ok()
            .stdout;
        (tail.len() >= answers.len()).then_some(tail)
    });
    assert_eq!(String::from_utf8_lossy(&tail), answers);
    assert_eq!(world.await_status(&id, "running")["run"], 1);
}

#[test]
fn each_message_arrives_once_and_in_order_whatever_is_killed() {
    let messages = knob("MUSTER_CRASH_MESSAGES", 60);
    let first = knob("MUSTER_CRASH_SEED", 1);
    for seed in first..first + knob("MUSTER_CRASH_SEEDS", 2) {
        one_seed(seed, messages);
    }
}
