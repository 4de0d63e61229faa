//! The keeper is killed: the program lives on, nothing is invented, every message is accounted for.

use std::time::Duration;

use muster_e2e::api::Api;
use muster_e2e::{Fate, Model, World, eventually, knob};
use muster_proto::public::{MessageKind, MessageState};

use crate::crash::send;
use crate::world;

fn messages(world: &World, id: &str) -> Vec<(String, MessageState)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let all = runtime.block_on(async { Api::connect(world).await.all_messages(id).await });
    let user = all
        .into_iter()
        .filter(|message| message.kind() == MessageKind::User);
    user.map(|message| (message.client_key.clone(), message.state()))
        .collect()
}

fn one_seed(seed: u64, count: u64) {
    eprintln!("keeper seed {seed}");
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
    let keeper = eventually("the keeper has written who it is", || {
        world.keeper_pid(&id, 1)
    });
    let victim = fastrand::Rng::with_seed(seed).u64(0..count);
    let mut model = Model::default();
    let mut fates = Vec::new();
    for number in 0..count {
        if number == victim {
            assert!(world.kill(keeper));
        }
        let text = format!("message {number}");
        let outcome = world
            .muster(["send", &id, &text, "--id", &text, "--timeout", "10s"])
            .output();
        // After the keeper's death a refusal is as good as an acceptance that is later failed.
        let fate = if outcome.code == Some(0) {
            Fate::Unknown
        } else {
            Fate::NotAccepted
        };
        model.sent(&text, fate);
        fates.push((text, fate));
    }

    // The program is stopped by nobody: it goes on, or has met the end of its input.
    let settled = eventually("the session's end or state is known", || {
        let session = world.session(&id);
        (session["status"] != "running" || session["process"] == "alive").then_some(session)
    });
    eprintln!(
        "after the keeper's death: {} {}",
        settled["status"], settled["process"]
    );
    let _ = world.muster(["session", "stop", &id]).output();
    let lost = eventually("the run ends as lost", || {
        let session = world.session(&id);
        (session["status"] == "lost" || session["status"] == "stopped").then_some(session)
    });
    if lost["status"] == "lost" {
        assert_eq!(lost["lost_reason"], "keeper", "{lost}");
    }

    let received = std::fs::read(&log).unwrap_or_default();
    let counts = model
        .compare_prefix(&received)
        .unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
    eprintln!("keeper seed {seed}: killed before message {victim}; {counts:?}");
    account(&world, &id, &fates, &received);
}

/// Each message is received, refused, failed or unconfirmed; none is still said to be on its way.
fn account(world: &World, id: &str, fates: &[(String, Fate)], received: &[u8]) {
    let received = String::from_utf8_lossy(received);
    let stored = eventually("no message is left waiting", || {
        let stored = messages(world, id);
        let waiting = stored
            .iter()
            .any(|(_, state)| matches!(state, MessageState::Accepted | MessageState::Held));
        (!waiting).then_some(stored)
    });
    for (text, fate) in fates {
        let read = received.lines().any(|line| line == text);
        let state = stored
            .iter()
            .find(|(key, _)| key == text)
            .map(|(_, state)| *state);
        match (fate, state) {
            (Fate::NotAccepted, None) => assert!(!read, "{text} was refused and read"),
            (_, Some(MessageState::Written | MessageState::Done)) => {
                assert!(read, "{text} is said to be written")
            }
            (_, Some(MessageState::Failed | MessageState::Cancelled)) => {
                assert!(!read, "{text} failed and was read")
            }
            (_, Some(MessageState::Unconfirmed)) => {}
            other => panic!("{text} is not accounted for: {other:?}"),
        }
    }
}

#[test]
fn every_message_is_accounted_for_when_the_keeper_dies() {
    for seed in 1..=knob("MUSTER_CRASH_SEEDS", 2) {
        one_seed(seed, 12);
    }
}

#[test]
fn a_program_whose_keeper_died_is_still_seen_and_can_be_stopped() {
    let world = world();
    let id = world.detached([world.program(), "print", "ready", "silence"]);
    let keeper = eventually("the keeper has written who it is", || {
        world.keeper_pid(&id, 1)
    });
    let program: i32 = eventually("the program runs", || {
        i32::try_from(world.session(&id)["pid"].as_i64()?).ok()
    });
    assert!(world.kill(keeper));
    assert!(muster_e2e::processes::runs(program));
    let _ = world.muster(["session", "stop", &id]).output();
    eventually("the program is gone", || {
        (!muster_e2e::processes::runs(program)).then_some(())
    });
    let session = eventually("the end is told", || {
        let session = world.session(&id);
        matches!(session["status"].as_str(), Some("lost" | "stopped")).then_some(session)
    });
    assert!(
        session["exit_code"].is_null(),
        "nobody saw how it ended: {session}"
    );
}

#[test]
fn after_all_daemons_die_with_the_keeper_the_next_ones_say_what_is_left() {
    let world = world();
    let id = world.detached([world.program(), "print", "ready", "serve"]);
    let keeper = eventually("the keeper has written who it is", || {
        world.keeper_pid(&id, 1)
    });
    let first = send(&world, &id, "first", "first");
    assert_eq!(first, Fate::Accepted);
    for pid in crate::crash::daemons(&world, true, true) {
        world.kill(pid);
    }
    world.kill(keeper);
    world.up();
    let session = eventually("the end is told", || {
        let session = world.session(&id);
        (session["status"] == "lost").then_some(session)
    });
    assert_eq!(session["lost_reason"], "keeper", "{session}");
    let refused = world
        .muster(["send", &id, "late", "--timeout", "5s"])
        .limit(Duration::from_secs(120))
        .output();
    assert_ne!(refused.code, Some(0), "{refused}");
}
