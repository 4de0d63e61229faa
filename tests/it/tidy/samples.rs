//! Each rule on a small good and a small bad sample: a rule that cannot fail checks nothing.

use super::rules;
use super::source::{Source, blank, named, words};
use super::workspace::Package;

fn package(name: &str, needs: &[&str], tests: &[&str]) -> Package {
    Package {
        name: name.to_owned(),
        needs: needs.iter().map(|&need| need.to_owned()).collect(),
        tests: tests.iter().map(|&test| test.to_owned()).collect(),
    }
}

fn findings(rule: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
    rule(&Source::new(path, text)).len()
}

#[test]
fn a_wrong_direction_is_found() {
    let bad = rules::directions(&[package("muster-domain", &["muster-proto"], &[])]);
    assert!(bad[0].starts_with("muster-domain: depends on"), "{bad:?}");
    let unknown = rules::directions(&[package("muster-new", &[], &[])]);
    assert!(unknown[0].contains("a new member"), "{unknown:?}");
    assert!(
        unknown
            .iter()
            .any(|finding| finding.starts_with("muster-runtime: is named"))
    );
}

#[test]
fn a_second_test_binary_is_found() {
    assert!(rules::one_test_binary(&[package("a", &[], &["it"])]).is_empty());
    assert_eq!(
        rules::one_test_binary(&[package("a", &[], &["it", "more"])]).len(),
        1
    );
}

#[test]
fn missing_lints_are_found() {
    assert_eq!(
        rules::inherits_lints("a", "[package]\n\n[lints]\nworkspace = true\n"),
        None
    );
    assert!(rules::inherits_lints("a", "[package]\nname = 'a'\n").is_some());
    assert!(rules::inherits_lints("a", "[lints]\n[lints.rust]\nx = 1\nworkspace = true").is_some());
}

#[test]
fn a_status_outside_the_edge_is_found() {
    let rule = rules::wire_status;
    assert_eq!(
        findings(
            rule,
            "services/coordinator/src/app.rs",
            "fn f() -> tonic::Status {}"
        ),
        1
    );
    assert_eq!(
        findings(
            rule,
            "services/client/src/lib.rs",
            "use tonic::{Request, Status};"
        ),
        1
    );
    assert_eq!(
        findings(
            rule,
            "services/coordinator/src/rpc/feed.rs",
            "use tonic::Status;"
        ),
        0
    );
    assert_eq!(
        findings(rule, "host-agent/src/rpc.rs", "use tonic::Status;"),
        0
    );
    assert_eq!(
        findings(rule, "host-agent/src/rpcs.rs", "use tonic::Status;"),
        1
    );
    assert_eq!(
        findings(
            rule,
            "host-agent/src/a.rs",
            "// tonic::Status\nuse tonic::StatusX;"
        ),
        0
    );
}

#[test]
fn sql_outside_the_store_is_found() {
    assert_eq!(
        findings(
            rules::database,
            "services/coordinator/src/app.rs",
            "use sqlx::query;"
        ),
        1
    );
    assert_eq!(
        findings(
            rules::database,
            "services/coordinator/src/store/sqlite.rs",
            "use sqlx::query;"
        ),
        0
    );
}

#[test]
fn a_process_started_elsewhere_is_found() {
    let rule = rules::commands;
    assert_eq!(
        findings(
            rule,
            "services/cli/src/run.rs",
            "std::process::Command::new(x)"
        ),
        1
    );
    assert_eq!(
        findings(
            rule,
            "services/cli/src/run.rs",
            "use std::process::{Command, Stdio};"
        ),
        1
    );
    assert_eq!(
        findings(
            rule,
            "services/cli/src/run.rs",
            "use std::process::ExitCode;"
        ),
        0
    );
    assert_eq!(
        findings(rule, "host-agent/src/keeper/child.rs", "process::Command"),
        0
    );
    assert_eq!(
        findings(rule, "services/cli/tests/it/main.rs", "process::Command"),
        0
    );
    let inline = "fn f() {}\n#[cfg(test)]\nmod tests {\n use std::process::Command;\n}\n";
    assert_eq!(findings(rule, "services/cli/src/run.rs", inline), 0);
}

#[test]
fn a_local_branch_is_found() {
    let rule = rules::no_local_branch;
    assert_eq!(findings(rule, "a/src/b.rs", "if host.is_local() {}"), 1);
    assert_eq!(findings(rule, "a/src/b.rs", "if local { 1 } else { 2 }"), 1);
    assert_eq!(
        findings(rule, "a/src/b.rs", "let local_time = 1; // if local"),
        0
    );
}

#[test]
fn an_impure_domain_is_found() {
    let rule = rules::pure_domain;
    assert_eq!(
        findings(
            rule,
            "services/domain/src/a.rs",
            "use std::fs; use std::{fmt, env};"
        ),
        2
    );
    assert_eq!(
        findings(
            rule,
            "services/domain/src/a.rs",
            "SystemTime::now(); tokio::spawn(x)"
        ),
        2
    );
    assert_eq!(
        findings(
            rule,
            "services/domain/src/a.rs",
            "/// Not `tokio`.\nuse std::fmt;"
        ),
        0
    );
    assert_eq!(
        findings(rule, "services/runtime/src/a.rs", "use std::fs;"),
        0
    );
}

#[test]
fn unfinished_work_is_found() {
    let rule = rules::nothing_left_open;
    assert_eq!(findings(rule, "a.rs", concat!("// TO", "DO: later")), 1);
    assert_eq!(
        findings(rule, "a.rs", concat!("/// x\nfn f() {} // a TO", "DO(me)")),
        1
    );
    assert_eq!(findings(rule, "a.rs", concat!("//! TO", "DO later")), 1);
    assert_eq!(
        findings(rule, "a.rs", concat!("/// The phase TO", "DO of a task.")),
        0
    );
    assert_eq!(findings(rule, "a.rs", "fn f() { unimplemented!() }"), 1);
    assert_eq!(findings(rule, "a.rs", "#[ignore = \"slow\"]\nfn f() {}"), 1);
    assert_eq!(findings(rule, "a.rs", "let s = \"#[ignore]\";"), 0);
}

#[test]
fn long_files_and_mod_rs_are_found() {
    let long = "x\n".repeat(801);
    assert_eq!(findings(rules::too_long, "a/src/b.rs", &long), 1);
    assert_eq!(findings(rules::too_long, "a/src/b/tests.rs", &long), 0);
    assert!(rules::getting_long(&Source::new("a/src/b.rs", &"x\n".repeat(501))).is_some());
    assert_eq!(findings(rules::no_mod_rs, "a/src/b/mod.rs", ""), 1);
    assert_eq!(findings(rules::no_mod_rs, "a/src/b.rs", ""), 0);
}

#[test]
fn a_finding_names_file_and_line() {
    let source = Source::new("a/src/b.rs", "fn a() {}\n\nuse sqlx::query;\n");
    assert!(rules::database(&source)[0].starts_with("a/src/b.rs:3: "));
}

#[test]
fn literals_and_comments_are_blanked() {
    for text in [
        "\"sqlx\"",
        "r#\"a \" sqlx\"#",
        "b\"sqlx\\\" \"",
        "/* a /* sqlx */ sqlx */",
        "// sqlx",
        "'\\u{1F600}' // sqlx",
    ] {
        assert_eq!(
            words(&blank(text), "sqlx").count(),
            0,
            "{text} -> {}",
            blank(text)
        );
    }
    for text in [
        "'a' sqlx",
        "&'a sqlx",
        "'\\'' sqlx",
        "'ü' sqlx",
        "r#type sqlx",
        "\"\\\\\" sqlx",
    ] {
        assert_eq!(
            words(&blank(text), "sqlx").count(),
            1,
            "{text} -> {}",
            blank(text)
        );
        assert_eq!(blank(text).len(), text.len());
    }
    assert_eq!(
        named("use tonic::{a::{B}, Status}; Status", "tonic", "Status").len(),
        1
    );
}
