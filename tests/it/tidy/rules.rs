//! The rules themselves: pure functions from a source, or from the members, to findings.

use super::source::{Source, named, words};
use super::workspace::Package;

/// A file above this many lines fails.
const LINES_MAX: usize = 800;
/// A file above this many lines is mentioned.
const LINES_WARN: usize = 500;

/// Who may build on whom: member and exactly its normal dependencies among the members, sorted.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("muster-domain", &[]),
    ("muster-runtime", &[]),
    ("muster-proto", &["muster-domain"]),
    ("muster-transport", &["muster-runtime"]),
    (
        "muster-client",
        &["muster-domain", "muster-proto", "muster-transport"],
    ),
    (
        "muster-coordinator",
        &[
            "muster-domain",
            "muster-proto",
            "muster-runtime",
            "muster-transport",
        ],
    ),
    (
        "muster-host-agent",
        &["muster-domain", "muster-proto", "muster-runtime"],
    ),
    (
        "muster",
        &[
            "muster-client",
            "muster-coordinator",
            "muster-host-agent",
            "muster-runtime",
        ],
    ),
];

/// The test crate may use every member; nothing may use it.
const TEST_CRATE: &str = "muster-e2e";

pub(super) fn directions(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package.name != TEST_CRATE) {
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(name, _)| *name == package.name) else {
            findings.push(format!(
                "{}: a new member; say in DIRECTIONS whom it may build on",
                package.name
            ));
            continue;
        };
        if package.needs != *allowed {
            findings.push(format!(
                "{}: depends on {:?}, agreed is {allowed:?}; move the code to where it may live, or change the design first",
                package.name, package.needs
            ));
        }
    }
    for (name, _) in DIRECTIONS {
        if !packages.iter().any(|package| package.name == *name) {
            findings.push(format!("{name}: is named by the rule and is no member"));
        }
    }
    findings
}

pub(super) fn one_test_binary(packages: &[Package]) -> Vec<String> {
    let crowded = packages.iter().filter(|package| package.tests.len() > 1);
    crowded
        .map(|package| {
            format!(
                "{}: {:?}; each binary links everything again: make them modules of `tests/it/main.rs`",
                package.name, package.tests
            )
        })
        .collect()
}

pub(super) fn inherits_lints(path: &str, manifest: &str) -> Option<String> {
    let mut lines = manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[lints]")
        .skip(1);
    let inherits = lines.next() == Some("workspace = true");
    (!inherits).then(|| format!("{path}: add `[lints]` with `workspace = true`"))
}

/// Faults travel inside Muster as `Fault`; the wire's own status is met only at the edge.
pub(super) fn wire_status(source: &Source) -> Vec<String> {
    const EDGE: &[&str] = &[
        "proto/src",
        "services/runtime/src",
        "services/coordinator/src/rpc",
        "services/coordinator/src/hosts",
        "host-agent/src/rpc",
    ];
    if EDGE.iter().any(|module| source.in_module(module)) {
        return Vec::new();
    }
    let found = named(source.shipped_code(), "tonic", "Status");
    let message =
        "names `tonic::Status`: use `Fault`, and convert in `rpc` with the table in `proto`";
    found.into_iter().map(|at| source.at(at, message)).collect()
}

pub(super) fn database(source: &Source) -> Vec<String> {
    if source.in_module("services/coordinator/src/store") {
        return Vec::new();
    }
    let found = words(source.shipped_code(), "sqlx");
    let message = "names `sqlx`: ask the `Store` traits; SQL lives in the coordinator's `store`";
    found.map(|at| source.at(at, message)).collect()
}

pub(super) fn commands(source: &Source) -> Vec<String> {
    const MAY: &[&str] = &[
        "host-agent/src/spawn",
        "host-agent/src/keeper",
        "services/runtime/src/process",
    ];
    if MAY.iter().any(|module| source.in_module(module)) {
        return Vec::new();
    }
    let found = named(source.shipped_code(), "process", "Command");
    let message = "starts a process: that is for the agent's spawn, the keeper and `runtime::process`, which know \
                   about sessions, environments and signals";
    found.into_iter().map(|at| source.at(at, message)).collect()
}

pub(super) fn no_local_branch(source: &Source) -> Vec<String> {
    let code = &source.code;
    let message = "asks whether a host is local: give the host another dialler instead";
    let names = words(code, "is_local");
    let branches = ["if local", "if !local", "if self.local", "if !self.local"];
    let branches = branches.iter().flat_map(|branch| words(code, branch));
    names
        .chain(branches)
        .map(|at| source.at(at, message))
        .collect()
}

pub(super) fn pure_domain(source: &Source) -> Vec<String> {
    const IMPURE: &[&str] = &[
        "tokio",
        "tonic",
        "sqlx",
        "tracing",
        "SystemTime",
        "Instant",
        "fastrand",
        "rustix",
    ];
    if !source.in_module("services/domain/src") {
        return Vec::new();
    }
    let code = source.shipped_code();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for name in IMPURE {
        found.extend(words(code, name).map(|at| (at, *name)));
    }
    for module in ["fs", "env", "net", "process", "thread"] {
        found.extend(
            named(code, "std", module)
                .into_iter()
                .map(|at| (at, module)),
        );
    }
    found
        .into_iter()
        .map(|(at, name)| {
            let message = format!(
                "the domain names `{name}`: it decides from values; take the fact as an argument"
            );
            source.at(at, &message)
        })
        .collect()
}

pub(super) fn no_mod_rs(source: &Source) -> Vec<String> {
    let bad = source.path.ends_with("/mod.rs");
    let finding = format!(
        "{}: name the file after its module, beside its folder",
        source.path
    );
    bad.then_some(finding).into_iter().collect()
}

pub(super) fn nothing_left_open(source: &Source) -> Vec<String> {
    // Put together here so that this file does not find itself. A mark stands first in its comment or has a colon or a
    // name behind it: a task's first phase has the same name.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let marks = marks.iter().flat_map(|mark| {
        let is_mark = |at: &usize| {
            let before = source.text[..*at].trim_end_matches([' ', '!']);
            let after = source.text[at + mark.len()..].chars().next();
            before.ends_with("//") || before.ends_with("/*") || matches!(after, Some(':' | '('))
        };
        let found = words(&source.text, mark).filter(is_mark);
        found
            .map(|at| {
                (
                    at,
                    "finish it, or open an issue and say here what is absent and why",
                )
            })
            .collect::<Vec<_>>()
    });
    let macros = ["todo!", "unimplemented!"];
    let macros = macros.iter().flat_map(|name| {
        source
            .code
            .match_indices(name)
            .map(|(at, _)| (at, "code that panics by plan is not done"))
    });
    let ignored = source.code.match_indices("#[ignore");
    let ignored = ignored.map(|(at, _)| {
        (
            at,
            "an ignored test proves nothing: skip visibly at run time, or remove it",
        )
    });
    marks
        .chain(macros)
        .chain(ignored)
        .map(|(at, message)| source.at(at, message))
        .collect()
}

pub(super) fn too_long(source: &Source) -> Vec<String> {
    let lines = counted_lines(source);
    let finding = format!(
        "{}: {lines} lines, at most {LINES_MAX}: split it by what it owns",
        source.path
    );
    (lines > LINES_MAX).then_some(finding).into_iter().collect()
}

pub(super) fn getting_long(source: &Source) -> Option<String> {
    let lines = counted_lines(source);
    (lines > LINES_WARN).then(|| format!("{}: {lines} lines, aim at 300", source.path))
}

/// Tables of cases may be long; they are read one case at a time.
fn counted_lines(source: &Source) -> usize {
    if source.path.ends_with("/tests.rs") || source.path.contains("/generated/") {
        return 0;
    }
    source.text.lines().count()
}
