//! Every named place of the write paths, killed there: the result is that of a run without a fault.
//!
//! The places are read from the sources, so a new one is tested by being there.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_e2e::wait::within;
use muster_e2e::{DEADLINE, Fate, Model, World};

use crate::crash::daemons;
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

/// At which passing the process dies: what happens once for a run, at once; else at the second message.
fn passing(place: &str) -> u32 {
    let once = ["spawn", "start_commit", "proc", "stop", "_exit", "half"];
    if once.iter().any(|part| place.contains(part)) {
        1
    } else {
        2
    }
}

/// Sends a message under one key until it is accepted; who is missing is started again in between, without the fault.
fn insist(world: &World, id: &str, key: &str, text: &str) -> Fate {
    let accepted = within(DEADLINE, || {
        let outcome = world
            .muster(["send", id, text, "--id", key, "--timeout", "2s"])
            .output();
        match outcome.code {
            Some(0) => Some(Fate::Accepted),
            // The run is over, as it is when its keeper is dead.
            Some(4) => Some(Fate::NotAccepted),
            _ => {
                world.up();
                None
            }
        }
    });
    accepted.unwrap_or(Fate::Unknown)
}

/// A run, five messages and a stop; a process that comes to `place` dies there.
fn killed_at(place: &str) -> Report {
    let world = world();
    let reached = world.root().join("reached");
    let armed = format!("{place}:{},{}", passing(place), reached.display());
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
    let started = world
        .muster(program)
        .env("MUSTER_FAILPOINT", &armed)
        .output();
    let id = if started.code == Some(0) {
        started.text()
    } else {
        // Its keeper died. The daemons that made it are still armed, and would make another like it.
        for pid in daemons(&world, true, true) {
            world.kill(pid);
        }
        world.up();
        world.muster(program).output().ok().text()
    };
    let mut model = Model::default();
    for number in 0..5 {
        let key = format!("message {number}");
        // The last one is more than a pipe takes at once.
        let text = if number == 4 {
            format!("{key} {}", "x".repeat(100_000))
        } else {
            key.clone()
        };
        model.sent(&text, insist(&world, &id, &key, &text));
    }
    let keeper_dead = || {
        world
            .keeper_pid(&id, 1)
            .is_none_or(|pid| !muster_e2e::processes::runs(pid))
    };
    let lost = keeper_dead();
    let received = || std::fs::read(&log).unwrap_or_default();
    let verdict = if lost {
        // Its run cannot go on: what was read is a beginning of what was accepted.
        model.compare_prefix(&received()).map(|_| ())
    } else {
        let complete = within(DEADLINE, || model.compare(&received()).ok());
        complete
            .map(|_| ())
            .ok_or_else(|| format!("{:?}", model.compare(&received())))
    };
    let ended = within(DEADLINE, || {
        let stopped = world.muster(["session", "stop", &id]).output();
        if stopped.code != Some(0) {
            world.up();
            return None;
        }
        let status = world.session(&id)["status"].as_str()?.to_owned();
        ["stopped", "lost", "failed"]
            .contains(&status.as_str())
            .then_some(status)
    });
    let verdict = verdict.and_then(|()| {
        ended
            .map(|_| ())
            .ok_or_else(|| "the session does not end".to_owned())
    });
    // What comes after the record of the end may still be on its way when the end is told.
    let reached = within(DEADLINE, || reached.exists().then_some(())).is_some();
    Report {
        place: place.to_owned(),
        reached,
        verdict,
    }
}

#[test]
fn a_death_at_every_named_place_changes_nothing() {
    let places: Vec<String> = places().into_iter().collect();
    assert!(!places.is_empty(), "the sources name no fail point");
    // Several at a time: most of the time is spent waiting for processes.
    let next = AtomicUsize::new(0);
    let work = || {
        let mut reports = Vec::new();
        while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
            reports.push(killed_at(place));
        }
        reports
    };
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
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
        missed.is_empty(),
        "places that were never reached: {missed:?}"
    );
}
