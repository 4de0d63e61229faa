//! Completions, as a shell asks for them.

use std::path::Path;

use crate::world::World;

/// What bash offers for the words, of which the last is not finished.
fn offered(world: &World, words: &[&str]) -> Vec<String> {
    let script = r#"
        set -u
        source <(muster completions bash)
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        COMPREPLY=()
        function=$(complete -p muster | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" muster "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let folder = Path::new(env!("CARGO_BIN_EXE_muster")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = world.command("bash", &["--norc", "-c", script, "bash"]);
    bash.env("PATH", format!("{}:{path}", folder.display()));
    let output = bash.args(words).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let world = World::new();
    assert_eq!(offered(&world, &["muster", "ses"]), ["session"]);
    assert_eq!(offered(&world, &["muster", "session", "sh"]), ["show"]);
    assert_eq!(offered(&world, &["muster", "up", "--det"]), ["--detach"]);
    assert_eq!(
        offered(&world, &["muster", "wait", "--for", "a"]),
        ["attention"]
    );
    let all = offered(&world, &["muster", "session", ""]);
    for verb in ["ls", "show", "explain", "stop", "interrupt", "resume"] {
        assert!(all.iter().any(|word| word == verb), "{verb}: {all:?}");
    }
}

#[test]
fn bash_completes_names_that_exist_now() {
    let world = World::new();
    let started = world.run(&["run", "--detach", "--", "true"]).exits(0);
    let session = started.out().trim().to_owned();
    for words in [
        &["muster", "session", "show", ""][..],
        &["muster", "tail", &session[..8]],
        &["muster", "tail", "--follow", ""],
        &["muster", "feed", "--session", ""],
    ] {
        assert_eq!(offered(&world, words), [session.as_str()], "{words:?}");
    }
    assert_eq!(offered(&world, &["muster", "task", "show", ""]).len(), 1);
    assert_eq!(offered(&world, &["muster", "cat", "lo"]), ["local:"]);
}
