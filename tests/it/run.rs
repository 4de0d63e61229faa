//! `muster run`: the main job in one command, on a machine that has never seen Muster.

use std::io::Read as _;

use muster_e2e::pattern::Checker;
use muster_e2e::{DEADLINE, eventually, knob};
use rustix::process::Signal;

use crate::world;

#[test]
fn the_first_run_needs_no_configuration_and_has_the_programs_code() {
    let world = world();
    let script = "for i in 1 2 3; do echo line $i; sleep 0.2; done; exit 3";
    let outcome = world
        .muster(["run", "--", "bash", "-c", script])
        .output()
        .exits(3);
    assert_eq!(outcome.text(), "line 1\nline 2\nline 3");

    let sessions = world.json(&["session", "ls"]);
    let session = &sessions["sessions"][0];
    assert_eq!(session["status"], "failed", "{session}");
    assert_eq!(session["exit_code"], 3, "{session}");
    let id = session["id"].as_str().unwrap();
    assert!(
        outcome.stderr.contains(id),
        "the session id goes to standard error: {outcome}"
    );
}

#[test]
fn the_exit_code_says_how_the_program_ended() {
    let world = world();
    let program = world.program();
    let _ = world
        .muster(["run", "--", program, "print", "x"])
        .output()
        .exits(0);
    let _ = world
        .muster(["run", "--", program, "exit", "255"])
        .output()
        .exits(255);
    let _ = world
        .muster(["run", "--", program, "die", "KILL"])
        .output()
        .exits(137);
    let _ = world
        .muster(["run", "--", program, "die", "TERM"])
        .output()
        .exits(143);
    let absent = world
        .muster(["run", "--", "no-such-program-anywhere"])
        .output();
    let _ = absent.exits(127).says("error:").says("hint:");
    let file = world.home().join("data");
    std::fs::write(&file, "no program").unwrap();
    let _ = world
        .muster(["run", "--", file.to_str().unwrap()])
        .output()
        .exits(126)
        .says("error:");
}

#[test]
fn output_arrives_byte_for_byte() {
    let world = world();
    let script = [
        "run",
        "--",
        world.program(),
        "print",
        "one",
        "latin",
        "giant",
        "3000000",
        "torn",
        "end",
    ];
    let outcome = world.muster(script).output().ok();
    let mut expected = b"one\ncaf\xe9 \xff\xfe \xed\xa0\x80\n".to_vec();
    expected.extend_from_slice(&vec![b'x'; 3_000_000]);
    expected.extend_from_slice(b"\nend");
    assert!(
        outcome.stdout == expected,
        "{} bytes came, {} were printed; {}",
        outcome.stdout.len(),
        expected.len(),
        outcome.stderr
    );
}

#[test]
fn a_large_output_arrives_whole_with_bounded_memory() {
    let bytes = knob("MUSTER_SCALE_BYTES", 128 << 20);
    let world = world();
    world.up();
    let (mut child, mut stdout) = world
        .muster(["run", "--", world.program(), "flood", &bytes.to_string()])
        .stream();
    let mut checker = Checker::default();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match stdout.read(&mut buffer).unwrap() {
            0 => break,
            size => checker.take(&buffer[..size]),
        }
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(checker.finish(bytes), Ok(()));
    for (name, pid) in [
        ("coordinator", world.coordinator_pid()),
        ("agent", world.agent_pid()),
    ] {
        let (_, peak) = muster_e2e::processes::memory(pid.unwrap()).unwrap();
        eprintln!("{name}: peak {} MiB", peak >> 20);
        assert!(
            peak < 300 << 20,
            "{name} held {peak} bytes while {bytes} passed"
        );
    }
}

#[test]
fn a_slow_reader_costs_no_memory_and_loses_nothing() {
    let bytes: u64 = 48 << 20;
    let world = world();
    world.up();
    let (mut child, mut stdout) = world
        .muster(["run", "--", world.program(), "flood", &bytes.to_string()])
        .stream();
    let mut first = [0; 64];
    stdout.read_exact(&mut first).unwrap();
    // Nobody reads: the program ends all the same, since it writes its file itself.
    let id = eventually("the session is listed", || {
        let sessions = world.json(&["session", "ls"]);
        sessions["sessions"][0]["id"].as_str().map(str::to_owned)
    });
    world.await_status(&id, "exited");
    let mut checker = Checker::default();
    checker.take(&first);
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match stdout.read(&mut buffer).unwrap() {
            0 => break,
            size => checker.take(&buffer[..size]),
        }
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(checker.finish(bytes), Ok(()));
}

#[test]
fn h18_the_program_gets_an_allowed_environment_and_its_markers() {
    let mut world = world();
    world.set_env("SECRET_OF_THE_SHELL", "1");
    world.set_env("LC_TIME", "C");
    let args = [
        "run",
        "--env",
        "GIVEN=yes",
        "--env",
        "LC_TIME",
        "--",
        world.program(),
        "env",
    ];
    let outcome = world.muster(args).output().ok();
    let text = outcome.text();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    for name in ["PATH", "HOME", "MUSTER_SESSION_ID", "MUSTER_RUN", "GIVEN"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    assert!(
        text.contains("GIVEN=yes\n") && text.contains("MUSTER_RUN=1\n"),
        "{text}"
    );
    for name in ["SECRET_OF_THE_SHELL", "MUSTER_HOME", "MUSTER_AGENT_HOME"] {
        assert!(!names.contains(&name), "{name} was passed on");
    }
}

#[test]
fn s7_the_program_runs_where_the_caller_stands() {
    let world = world();
    let folder = world.home().join("project");
    std::fs::create_dir(&folder).unwrap();
    let here = world
        .muster(["run", "--", world.program(), "cwd"])
        .in_folder(&folder)
        .output()
        .ok();
    assert_eq!(here.text(), folder.to_str().unwrap());
    let there = [
        "run",
        "--cwd",
        world.root().to_str().unwrap(),
        "--",
        world.program(),
        "cwd",
    ];
    let there = world.muster(there).in_folder(&folder).output().ok();
    assert_eq!(there.text(), world.root().to_str().unwrap());
}

#[test]
fn run_json_prints_lines_and_at_last_the_session() {
    let world = world();
    let args = [
        "run",
        "--json",
        "--",
        world.program(),
        "print",
        "one",
        "print",
        "two",
        "exit",
        "4",
    ];
    let outcome = world.muster(args).output().exits(4);
    let lines = outcome.json_lines();
    let printed: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["line"].as_str())
        .collect();
    assert_eq!(printed, ["one", "two"], "{lines:?}");
    assert_eq!(lines[0]["offset"].as_str(), Some("0"), "{lines:?}");
    let last = &lines.last().unwrap()["session"];
    assert_eq!(last["exit_code"], 4, "{lines:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_success() {
    let world = world();
    let program = world.program();
    let (mut child, stdout) = world
        .muster(["run", "--", program, "flood", "50000000", "exit", "9"])
        .stream();
    drop(stdout);
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(141), "128 + SIGPIPE");
    let id = eventually("the session is listed", || {
        let sessions = world.json(&["session", "ls"]);
        sessions["sessions"][0]["id"].as_str().map(str::to_owned)
    });
    let ended = world.await_status(&id, "failed");
    assert_eq!(ended["exit_code"], 9, "the session went on: {ended}");
}

#[test]
fn the_first_interrupt_without_a_terminal_detaches() {
    let world = world();
    let running = world
        .muster(["run", "--", world.program(), "print", "ready", "serve"])
        .start();
    running.await_output("ready");
    running.signal(Signal::INT);
    let _ = running.finish(DEADLINE).exits(130);
    let sessions = world.json(&["session", "ls"]);
    assert_eq!(sessions["sessions"][0]["status"], "running", "{sessions}");
}

#[test]
fn inside_a_session_nothing_is_started() {
    let world = world();
    let muster = crate::BINARIES.muster;
    // The inner command finds its coordinator by the address that it is given.
    let address = {
        world.up();
        world.json(&["status"])["coordinator"]["address"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let before = (world.coordinator_pid(), world.agent_pid());
    let with = format!("MUSTER_ADDR={address}");
    let inner = [
        "run",
        "--",
        "env",
        &with,
        muster,
        "run",
        "--",
        world.program(),
        "print",
        "inner",
    ];
    let outcome = world.muster(inner).output().ok();
    assert!(outcome.text().contains("inner"), "{outcome}");
    assert_eq!(before, (world.coordinator_pid(), world.agent_pid()));
    assert_eq!(
        world.json(&["session", "ls"])["sessions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );

    let _ = world.muster(["down"]).output().ok();
    let nobody = world
        .muster(["run", "--", "true"])
        .env("MUSTER_SESSION_ID", "0198c0de-0000-7000-8000-000000000001")
        .env("MUSTER_ADDR", &address)
        .output();
    assert!(
        matches!(nobody.code, Some(5 | 125)),
        "nothing is started inside a session: {nobody}"
    );
    assert!(world.coordinator_pid().is_none());
}
