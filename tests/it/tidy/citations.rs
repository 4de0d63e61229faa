//! Numbers of requirements that comments, documents and names of tests cite: each can be looked up in
//! `docs/requirements.md`, and no text is cited that users of the repository do not have.

use std::collections::BTreeSet;

use super::workspace::{Workspace, text_files};

/// Letters under which requirements are numbered.
const LETTERS: &str = "RHSTF";

const REQUIREMENTS: &str = "docs/requirements.md";

/// Texts that do not come with the repository; put together here so that this file does not find itself.
const ABSENT: [&str; 3] = [
    concat!("DES", "IGN.md"),
    concat!("DES", "IGN §"),
    concat!("sp", "ec/"),
];

/// Path and text of everything that may cite: Rust sources, contracts, documents, scripts.
pub(super) fn texts(workspace: &Workspace) -> Vec<(String, String)> {
    let sources = workspace.sources.iter();
    let mut all: Vec<_> = sources
        .map(|source| (source.path.clone(), source.text.clone()))
        .collect();
    all.extend(text_files(&[".md", ".proto", ".toml", ".service", "run"]));
    all
}

/// The text of the document that defines the numbers.
pub(super) fn requirements() -> String {
    let mut found = text_files(&[".md"]);
    found.retain(|(path, _)| path == REQUIREMENTS);
    found.pop().expect("docs/requirements.md is there").1
}

/// The numbers that the document defines: list entries that begin with one in bold.
pub(super) fn defined(document: &str) -> BTreeSet<String> {
    document
        .lines()
        .filter_map(|line| line.strip_prefix("- **")?.split_once("** "))
        .map(|(number, _)| number.to_owned())
        .collect()
}

/// Citations of numbers that are not known.
pub(super) fn unknown(path: &str, text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let rust = path.ends_with(".rs");
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut cited = if rust {
            let comment = line.find("//").map_or("", |start| &line[start..]);
            in_prose(comment)
        } else {
            in_prose(line)
        };
        if rust && let Some((_, name)) = line.split_once("fn ") {
            cited.extend(in_name(name.split('(').next().unwrap_or_default()));
        }
        cited.retain(|number| !known.contains(number));
        findings.extend(cited.into_iter().map(|number| {
            let line = index + 1;
            format!("{path}:{line}: {number} is not in {REQUIREMENTS}: say there what it means, in a sentence")
        }));
    }
    findings
}

/// Mentions of texts that readers do not have.
pub(super) fn absent_texts(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for absent in ABSENT {
            if let Some(at) = line.find(absent) {
                let before = line[..at].chars().next_back();
                if before.is_none_or(|c| !c.is_alphanumeric() && c != '/' && c != '_') {
                    let line = index + 1;
                    findings.push(format!(
                        "{path}:{line}: readers do not have it; cite docs/ARCHITECTURE.md, or say the thing itself"
                    ));
                }
            }
        }
    }
    findings
}

/// `R5`, `S17`, and both ends of `F8–F14`, as words of their own.
fn in_prose(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter_map(|word| number(word, false)).collect()
}

/// `s17_…`, at the beginning of a name or within it.
fn in_name(name: &str) -> Vec<String> {
    let mut parts: Vec<&str> = name.split('_').collect();
    // What ends a name is no citation: `utf_8`, `read_s3`.
    parts.pop();
    parts
        .into_iter()
        .filter_map(|part| number(part, true))
        .collect()
}

fn number(word: &str, small: bool) -> Option<String> {
    let mut characters = word.chars();
    let first = characters.next()?;
    let letter = first.to_ascii_uppercase();
    let digits = characters.as_str();
    let is_number = (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    (first.is_ascii_lowercase() == small && LETTERS.contains(letter) && is_number)
        .then(|| format!("{letter}{digits}"))
}

#[cfg(test)]
mod samples {
    use super::*;

    fn known() -> BTreeSet<String> {
        defined("# Requirements\n\n- **R5** Evidence.\n- **S17** Once.\n")
    }

    #[test]
    fn numbers_are_found_in_comments_and_names_alone() {
        let good = [
            "/// So it is (R5, S17).",
            "fn s17_once() {}",
            "let x = Reflected::F64(1);",
            "fn md5_of_s3() {}",
        ]
        .join("\n");
        let good = &good;
        assert_eq!(unknown("a.rs", good, &known()), Vec::<String>::new());
        let bad = "/// So it is (R6).\nasync fn h9_once_and_s19_twice() {}\n";
        let found = unknown("a.rs", bad, &known());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: R6 is not in"), "{found:?}");
        assert_eq!(unknown("a.md", "As F8–F14 say", &known()).len(), 2);
    }

    #[test]
    fn absent_texts_are_found() {
        let found = absent_texts(
            "a.rs",
            &format!("// see {}\n// src/{}x", ABSENT[0], ABSENT[2]),
        );
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
