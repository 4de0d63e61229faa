//! Without a coordinator: usage, help, what says that none answers.

use crate::world::World;

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
    assert_eq!(world.run(&["names", "sessions"]).exits(0).out(), "");
}
