//! Rules of the source tree that neither the compiler nor clippy knows.
//!
//! Each rule is a function from sources to findings (`rules`), tested on small samples (`samples`), and applied here to
//! the whole workspace. A finding names file and line and says what to do instead.

mod citations;
mod rules;
mod samples;
mod source;
mod workspace;

use source::Source;
use workspace::Workspace;

/// Fails with every finding on a line of its own, so that one run shows all of them.
fn expect_none(rule: &str, findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{rule}: {} finding(s)\n  {}\n",
        findings.len(),
        findings.join("\n  ")
    );
}

fn check(rule: &str, apply: fn(&Source) -> Vec<String>) {
    let findings: Vec<String> = Workspace::load().sources.iter().flat_map(apply).collect();
    expect_none(rule, &findings);
}

#[test]
fn the_walk_finds_the_sources() {
    let workspace = Workspace::load();
    for part in [
        "proto/src/lib.rs",
        "services/domain/src/lib.rs",
        "host-agent/src/lib.rs",
        "tests/it/tidy.rs",
    ] {
        assert!(
            workspace.sources.iter().any(|source| source.path == part),
            "{part} is not among the sources read: the other rules would pass without looking"
        );
    }
}

#[test]
fn dependencies_point_in_the_agreed_direction() {
    expect_none(
        "dependency directions",
        &rules::directions(&Workspace::load().packages),
    );
}

#[test]
fn every_crate_has_at_most_one_integration_test_binary() {
    expect_none(
        "one test binary",
        &rules::one_test_binary(&Workspace::load().packages),
    );
}

#[test]
fn every_crate_inherits_the_workspace_lints() {
    let findings: Vec<String> = Workspace::load()
        .manifests
        .iter()
        .filter_map(|(path, text)| rules::inherits_lints(path, text))
        .collect();
    expect_none("workspace lints", &findings);
}

#[test]
fn only_rpc_proto_and_runtime_name_the_wire_status() {
    check("tonic::Status", rules::wire_status);
}

#[test]
fn only_the_store_names_sqlx() {
    check("sqlx", rules::database);
}

#[test]
fn only_spawn_keeper_and_runtime_process_start_processes() {
    check("process::Command", rules::commands);
}

#[test]
fn nothing_asks_whether_a_host_is_local() {
    check("local and remote are one code path", rules::no_local_branch);
}

#[test]
fn the_domain_is_pure() {
    check("pure domain", rules::pure_domain);
}

#[test]
fn modules_have_their_own_file_name() {
    check("no mod.rs", rules::no_mod_rs);
}

#[test]
fn nothing_is_left_for_later() {
    check("unfinished work", rules::nothing_left_open);
}

#[test]
fn files_stay_readable() {
    let workspace = Workspace::load();
    for warning in workspace.sources.iter().filter_map(rules::getting_long) {
        eprintln!("warning: {warning}");
    }
    check("file length", rules::too_long);
}

#[test]
fn cited_requirements_can_be_looked_up() {
    let known = citations::defined(&citations::requirements());
    assert!(
        known.len() > 50,
        "docs/requirements.md was not understood: {known:?}"
    );
    let texts = citations::texts(&Workspace::load());
    let findings: Vec<String> = texts
        .iter()
        .flat_map(|(path, text)| citations::unknown(path, text, &known))
        .collect();
    expect_none("cited numbers stand in docs/requirements.md", &findings);
}

#[test]
fn nothing_cites_a_text_that_is_not_in_the_repository() {
    let texts = citations::texts(&Workspace::load());
    let findings: Vec<String> = texts
        .iter()
        .flat_map(|(path, text)| citations::absent_texts(path, text))
        .collect();
    expect_none("citations of absent texts", &findings);
}
