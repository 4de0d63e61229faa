//! Without a coordinator: usage, help, what says that none answers.

use crate::world::{Ended, World};

#[test]
fn wrong_usage_exits_2_and_prints_no_data() {
    let world = World::new();
    for args in [
        &["nonsense"][..],
        &["wait", "x", "--for", "ever"],
        &["send", "x"],
        &["tail", "x", "--from", "middle"],
        &["cat", "/no/host"],
        &["cat", "local:/x", "--range", "9-5"],
    ] {
        let ended = world.run(args).exits(2);
        assert_eq!(ended.out(), "", "{args:?}");
        assert!(ended.error().contains("error:"), "{args:?}");
    }
}

#[test]
fn nothing_is_started_unless_it_is_a_run() {
    let world = World::new();
    for args in [
        &["status"][..],
        &["session", "ls", "--json"],
        &["send", "x", "text", "--timeout", "1s"],
        &["tail", "x"],
        &["ls", "local:/"],
    ] {
        let ended = world.run(args).exits(5);
        assert_eq!(ended.out(), "", "{args:?}");
        let error = ended.error();
        assert!(error.contains("error") && error.contains("hint"), "{error}");
    }
    assert!(!world.path().join("data").exists());
}

#[test]
fn inside_a_session_a_run_starts_nothing_either() {
    let world = World::new();
    let mut inside = world.muster(&["run", "--", "true"]);
    let output = inside.env("MUSTER_SESSION_ID", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(!world.path().join("data").exists());
}

#[test]
fn version_and_completions_need_nobody() {
    let world = World::new();
    let version = world.run(&["version", "--json"]).exits(0).out();
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run(&["completions", shell]).exits(0).out();
        assert!(script.contains("muster names"), "{shell}");
    }
    for shell in ["bash", "zsh"] {
        let check = format!(
            "{shell} -n <({} completions {shell})",
            env!("CARGO_BIN_EXE_muster")
        );
        let there = world.command("which", &[shell]).output();
        if there.is_ok_and(|output| output.status.success()) {
            let checked = world.command("bash", &["-c", &check]).output().unwrap();
            assert!(checked.status.success(), "{shell}");
        }
    }
    assert_eq!(world.run(&["names", "sessions"]).exits(0).out(), "");
}

#[test]
fn every_help_has_a_purpose_and_no_word_of_the_inside() {
    let world = World::new();
    let mut pages = vec![String::new()];
    while let Some(page) = pages.pop() {
        let mut args: Vec<&str> = page.split_whitespace().collect();
        args.push("--help");
        let help = world.run(&args).exits(0).out();
        let first = help.lines().next().unwrap();
        let command = args[..args.len() - 1].first().copied().unwrap_or_default();
        assert!(
            first.split(' ').count() >= 3 && !first.ends_with('.'),
            "{page}: {first}"
        );
        assert!(
            help.contains(format!("Usage: muster {command}").trim_end()),
            "{page}: {help}"
        );
        for word in help.split(|c: char| !c.is_alphanumeric()) {
            let inside = ["keeper", "fold", "changeset", "snapshot", "outbox", "actor"];
            let number = word.strip_prefix(['S', 'F', 'H', 'R']).unwrap_or_default();
            let rule = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
            assert!(
                !inside.contains(&word.to_lowercase().as_str()) && !rule,
                "{page}: {word}"
            );
        }
        let examples = ["run", "send", "tail", "wait"].contains(&page.as_str());
        assert!(!examples || help.contains("Examples:"), "{page}");
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in listed.take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap();
            if name != "help" {
                pages.push(format!("{page} {name}").trim().to_owned());
            }
        }
    }
}

#[test]
fn a_machine_whose_agent_cannot_start_says_so_at_once() {
    let world = World::new();
    let file = world.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let mut up = world.muster(&["up", "--detach"]);
    let up = Ended::of(up.env("MUSTER_AGENT_HOME", file.join("agent"))).exits(0);
    assert!(up.out().starts_with("muster is up at "), "{}", up.out());
    let said = up.error();
    assert!(
        said.contains("no program can be started") && said.contains("hint: "),
        "{said}"
    );
    let run = world
        .run(&["run", "--json", "--", "true"])
        .exits(125)
        .error();
    assert!(
        run.contains("HOST_UNREACHABLE") && run.contains("file/agent"),
        "{run}"
    );
    let status = world.run(&["status"]).exits(0).out();
    assert!(status.contains("bootstrap_failed"), "{status}");
    let _ = world.run(&["down"]).exits(0);
}
