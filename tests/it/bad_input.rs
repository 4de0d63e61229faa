//! Faults and bad input: a typed error with a hint, or handled; nothing hangs, nothing is lost.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use muster_e2e::{DEADLINE, Mount, Outcome, World, eventually, skip};

use crate::{BINARIES, world};

/// Demands a refusal that a person can act on: this exit code, an `error:` line and a `hint:` line.
fn refused(outcome: Outcome, code: i32) -> Outcome {
    outcome.exits(code).says("error:").says("hint:")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn await_tail(world: &World, id: &str, text: &str) {
    eventually(&format!("the output contains {text:?}"), || {
        let output = world
            .muster(["tail", id, "--raw", "--from", "start"])
            .output()
            .ok();
        String::from_utf8_lossy(&output.stdout)
            .contains(text)
            .then_some(())
    });
}

#[test]
fn a_missing_working_directory_is_refused() {
    let world = world();
    let outcome = world
        .muster(["run", "--cwd", "/no/such/folder", "--", "true"])
        .output();
    refused(outcome, 125);
}

#[test]
fn a_session_id_that_is_none_is_not_found() {
    let world = world();
    world.up();
    for id in [
        "nonsense",
        "../../etc",
        "",
        "0198c0de-0000-7000-8000-000000000001",
    ] {
        let outcome = world.muster(["session", "show", id]).output();
        assert!(matches!(outcome.code, Some(2 | 3)), "{outcome}");
        let outcome = world.muster(["send", "--", id, "text"]).output();
        assert!(matches!(outcome.code, Some(2 | 3)), "{outcome}");
        let outcome = world.muster(["tail", id]).output();
        assert!(matches!(outcome.code, Some(2 | 3)), "{outcome}");
    }
}

#[test]
fn text_that_a_line_based_program_cannot_take_is_refused() {
    let world = world();
    let id = world.detached([world.program(), "serve"]);
    refused(world.muster(["send", &id, "two\nlines"]).output(), 2);
    let key = "k".repeat(129);
    let outcome = world.muster(["send", &id, "x", "--id", &key]).output();
    assert!(matches!(outcome.code, Some(2 | 4)), "{outcome}");
    let _ = world.muster(["send", &id, "one line"]).output().ok();
    await_tail(&world, &id, "got 1 one line");
}

#[test]
fn a_message_of_one_mebibyte_arrives_and_a_larger_one_is_refused() {
    let world = world();
    let log = world.root().join("messages");
    let id = world.detached([world.program(), "log", log.to_str().unwrap(), "serve"]);
    let send = |text: &str| {
        let file = world.root().join("text");
        std::fs::write(&file, text).unwrap();
        let script = format!("exec {} send {id} - < {}", BINARIES.muster, file.display());
        world.command("bash", ["-c", &script]).output()
    };
    let whole = "x".repeat(1 << 20);
    let _ = send(&whole).ok();
    let _ = send(&format!("{whole}y")).exits(2).says("error:");
    let _ = send("after").ok();
    await_tail(&world, &id, "got 2 after");
    assert!(std::fs::read_to_string(&log).unwrap() == format!("{whole}\nafter\n"));
}

#[test]
fn a_line_of_64_megabytes_passes() {
    let world = world();
    let bytes = 64 << 20;
    let giant = bytes.to_string();
    let id = world.detached([
        world.program(),
        "print",
        "before",
        "giant",
        &giant,
        "print",
        "after",
    ]);
    world.await_status(&id, "exited");
    let outcome = world
        .muster(["tail", &id, "--raw", "--from", "start"])
        .output()
        .ok();
    assert_eq!(
        outcome.stdout.len(),
        "before\n".len() + bytes + 1 + "after\n".len()
    );
    assert!(outcome.stdout.ends_with(b"x\nafter\n"));
    for pid in [world.coordinator_pid(), world.agent_pid()] {
        let (_, peak) = muster_e2e::processes::memory(pid.unwrap()).unwrap();
        assert!(peak < 300 << 20, "{peak} bytes were held");
    }
}

#[test]
fn paths_longer_than_a_socket_address_work() {
    let world = World::with_prefix(BINARIES, &"long-".repeat(30));
    assert!(world.agent().as_os_str().len() > 150);
    let outcome = world
        .muster(["run", "--", world.program(), "print", "far away"])
        .output()
        .ok();
    assert_eq!(outcome.text(), "far away");
    let id = world.detached([world.program(), "serve"]);
    let _ = world.muster(["send", &id, "hello"]).output().ok();
    await_tail(&world, &id, "got 1 hello");
}

#[test]
fn a_second_coordinator_on_the_same_data_is_refused() {
    let world = world();
    world.up();
    let pid = world.coordinator_pid();
    let agent = world.root().join("other-agent");
    let second = world
        .muster(["up"])
        .env("MUSTER_AGENT_HOME", &agent)
        .start();
    let outcome = second.finish(DEADLINE);
    let _ = refused(outcome, 4);
    assert_eq!(world.coordinator_pid(), pid, "the first one goes on");
}

#[test]
fn a_stale_socket_is_replaced_and_an_occupied_one_is_not() {
    let world = world();
    world.up();
    let id = world.detached([world.program(), "print", "ready", "serve"]);
    await_tail(&world, &id, "ready");
    let (coordinator, agent) = (world.coordinator_pid().unwrap(), world.agent_pid().unwrap());
    world.kill(coordinator);
    world.kill(agent);
    // Both sockets are still there, and nobody listens.
    world.up();
    world.await_status(&id, "running");

    let other = crate::world();
    std::fs::create_dir(other.data()).unwrap();
    std::fs::set_permissions(other.data(), PermissionsExt::from_mode(0o700)).unwrap();
    let occupied = other.data().join("coordinator.sock");
    // Through the folder's handle: the path may be longer than an address of a socket.
    let data = std::fs::File::open(other.data()).unwrap();
    let socket = format!("/proc/self/fd/{}/coordinator.sock", data.as_raw_fd());
    let _listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let outcome = other.muster(["up", "--detach"]).output().says("error:");
    assert_ne!(outcome.code, Some(0), "{outcome}");
    assert!(occupied.exists(), "a socket of somebody else was removed");
}

#[test]
fn a_data_folder_that_cannot_be_written_is_named() {
    let world = world();
    let data = world.data();
    let _mount = if is_root() {
        match Mount::tmpfs(&data, "ro,size=1m", "read-only data folder") {
            Some(mount) => Some(mount),
            None => return,
        }
    } else {
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, PermissionsExt::from_mode(0o500)).unwrap();
        None
    };
    let outcome = world.muster(["up", "--detach"]).output().says("error:");
    assert!(matches!(outcome.code, Some(1 | 4)), "{outcome}");
    assert!(outcome.stderr.contains(data.to_str().unwrap()), "{outcome}");
    let outcome = world.muster(["run", "--", "true"]).output();
    let _ = outcome.exits(125).says("error:");
}

#[test]
fn an_unreadable_folder_is_an_error_of_its_own() {
    if is_root() {
        skip("an unreadable folder: root reads every folder");
        return;
    }
    let world = world();
    world.up();
    let folder = world.home().join("closed");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o0)).unwrap();
    let host = host(&world);
    let outcome = world
        .muster(["ls", &format!("{host}:{}", folder.display())])
        .output();
    assert_ne!(outcome.code, Some(3), "unreadable is not absent: {outcome}");
    let _ = outcome.says("error:");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
}

fn host(world: &World) -> String {
    let status = world.json(&["status"]);
    status["hosts"][0]["name"].as_str().unwrap().to_owned()
}

#[test]
fn h17_nothing_outside_the_roots_is_read() {
    let world = world();
    world.up();
    let host = host(&world);
    let home = world.home();
    std::fs::write(world.root().join("secret"), "outside").unwrap();
    symlink(world.root().join("secret"), home.join("link")).unwrap();
    symlink("..", home.join("up")).unwrap();
    for path in ["../secret", "link", "up/secret", "x/../../secret"] {
        let path = format!("{host}:{}/{path}", home.display());
        let outcome = world.muster(["cat", &path]).output().says("error:");
        assert!(
            !outcome.stdout.windows(7).any(|part| part == b"outside"),
            "{outcome}"
        );
        assert_ne!(outcome.code, Some(0), "{outcome}");
    }
    let outcome = world
        .muster(["cat", &format!("{host}:/etc/passwd")])
        .output();
    assert!(
        outcome.code != Some(0) && outcome.stdout.is_empty(),
        "{outcome}"
    );
    let _ = outcome.says("--root");
}

#[test]
fn special_files_are_refused_and_never_waited_for() {
    let world = world();
    world.up();
    let host = host(&world);
    let fifo = world.home().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let outcome = world
        .muster(["cat", &format!("{host}:{}", fifo.display())])
        .output();
    assert_ne!(outcome.code, Some(0), "{outcome}");
    let _ = outcome.says("error:");
    let outcome = world
        .muster(["cat", &format!("{host}:{}", world.home().display())])
        .output();
    assert_ne!(outcome.code, Some(0), "a folder is no file: {outcome}");
}

#[test]
fn a_folder_of_10000_files_is_listed_whole_and_in_order() {
    let world = world();
    world.up();
    let folder = world.home().join("many");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..10_000 {
        std::fs::write(folder.join(format!("f{number:05}")), "").unwrap();
    }
    let listed = world
        .muster(["ls", &format!("{}:{}", host(&world), folder.display())])
        .output()
        .ok()
        .text();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let names: Vec<&str> = names
        .into_iter()
        .filter(|name| name.starts_with('f'))
        .collect();
    assert_eq!(names.len(), 10_000);
    assert!(names.is_sorted());
}

#[test]
fn a_program_that_never_reads_fills_its_pipe_and_nothing_else() {
    let world = world();
    let id = world.detached([world.program(), "print", "ready", "silence"]);
    await_tail(&world, &id, "ready");
    let text = "x".repeat(60_000);
    let mut written = 0;
    for _ in 0..4 {
        // Accepted is all that can be had: the pipe takes 64 KiB.
        let _ = world.muster(["send", &id, &text]).output().ok();
        written += 1;
    }
    assert_eq!(written, 4);
    let queue = world.json(&["queue", &id]);
    let waiting = queue["messages"].as_array().unwrap().len();
    assert!(waiting >= 2, "{waiting} wait");
    // Others are served, and the end is the end: what was never read is said.
    let other = world
        .muster(["run", "--", world.program(), "print", "alive"])
        .output()
        .ok();
    assert_eq!(other.text(), "alive");
    let _ = world.muster(["session", "stop", &id]).output().ok();
    world.await_status(&id, "stopped");
}

#[test]
fn input_after_the_program_closed_it_is_refused() {
    let world = world();
    let id = world.detached([world.program(), "close-stdin", "print", "closed", "silence"]);
    await_tail(&world, &id, "closed");
    let outcome = world
        .muster([
            "send",
            &id,
            "hello",
            "--wait",
            "written",
            "--timeout",
            "20s",
        ])
        .output();
    assert_ne!(outcome.code, Some(0), "{outcome}");
    let _ = outcome.says("error:");
}
