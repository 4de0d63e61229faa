//! Every named place of the write paths, killed there: the result is that of a run without a fault.
//!
//! The places are read from the sources, so a new one is tested by being there.

use std::collections::BTreeSet;
use std::path::Path;

use muster_e2e::{Fate, Model, eventually};

use crate::crash::send;
use crate::world;

/// Names of all fail points below the sources that are shipped.
fn places() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    let mut folders: Vec<_> = ["services/coordinator/src", "host-agent/src"]
        .map(|folder| root.join(folder))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                for call in ["failpoint!(", " hit("] {
                    let names = text.split(call).skip(1);
                    let names = names
                        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
                    found.extend(names.map(str::to_owned));
                }
            }
        }
    }
    found
}

/// What happened at one place.
#[derive(Debug)]
struct Report {
    place: String,
    reached: bool,
    verdict: Result<(), String>,
}

/// Sends five messages; the `pass`-th time that any process comes to `place`, it dies there.
fn killed_at(place: &str, pass: u32) -> Report {
    let world = world();
    let armed = format!("{place}:{pass}");
    let log = world.root().join("messages");
    let program = [
        "run",
        "--detach",
        "--",
        world.program(),
        "log",
        log.to_str().unwrap(),
        "serve",
    ];
    let _ = world
        .muster(["up", "--detach"])
        .env("MUSTER_FAILPOINT", &armed)
        .output();
    let before: BTreeSet<i32> = crate::crash::daemons(&world, true, true)
        .into_iter()
        .collect();
    let started = world
        .muster(program)
        .env("MUSTER_FAILPOINT", &armed)
        .output();
    let id = if started.code == Some(0) {
        started.text()
    } else {
        // The start itself was hit. What it left is taken up, or started anew.
        world.up();
        let listed = world.json(&["session", "ls"]);
        let running = listed["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|session| session["status"] == "running");
        match running {
            Some(session) => session["id"].as_str().unwrap().to_owned(),
            None => world.muster(program).output().ok().text(),
        }
    };
    let mut model = Model::default();
    for number in 0..5 {
        let text = format!("message {number}");
        let key = format!("k{number}");
        world.up();
        model.sent(&text, send(&world, &id, &key, &text));
    }
    world.up();
    let after: BTreeSet<i32> = crate::crash::daemons(&world, true, true)
        .into_iter()
        .collect();
    let keeper_dead = world
        .keeper_pid(&id, 1)
        .is_some_and(|pid| !muster_e2e::processes::runs(pid));
    let reached = !before.is_subset(&after) || before.len() < 2 || keeper_dead;
    let verdict = if keeper_dead {
        // Its run cannot go on: what was read is a beginning of what was sent.
        model
            .compare_prefix(&std::fs::read(&log).unwrap_or_default())
            .map(|_| ())
    } else {
        let last = send(&world, &id, "last", "the last one");
        assert_eq!(last, Fate::Accepted, "{armed}: nothing works any more");
        model.sent("the last one", Fate::Accepted);
        let received = eventually(&format!("{armed}: the last message arrives"), || {
            let received = std::fs::read(&log).unwrap_or_default();
            received.ends_with(b"the last one\n").then_some(received)
        });
        model.compare(&received).map(|_| ())
    };
    Report {
        place: armed,
        reached,
        verdict,
    }
}

#[test]
fn a_death_at_every_named_place_changes_nothing() {
    let places: Vec<String> = places().into_iter().collect();
    assert!(!places.is_empty(), "the sources name no fail point");
    // Two at a time: most of the time is spent waiting for processes.
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let halves = places.chunks(places.len().div_ceil(3));
        let workers: Vec<_> = halves
            .map(|half| {
                scope.spawn(move || {
                    half.iter()
                        .map(|place| killed_at(place, 2))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("see above"))
            .collect()
    });
    for report in &reports {
        eprintln!(
            "{}: reached {}, {:?}",
            report.place, report.reached, report.verdict
        );
    }
    let wrong: Vec<_> = reports
        .iter()
        .filter(|report| report.verdict.is_err())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let missed: Vec<_> = reports
        .iter()
        .filter(|report| !report.reached)
        .map(|report| &report.place)
        .collect();
    assert!(
        missed.len() * 2 <= reports.len(),
        "most places were never reached: {missed:?}"
    );
}
