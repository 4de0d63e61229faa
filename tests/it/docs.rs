//! The documentation is run: every block marked for it, in order, each file in a world of its own.
//!
//! A fenced block whose info string is `sh run` is a script; `sh run exit=3` one that must end with that code. A block
//! `text output` right after it is exactly what the script prints. In these worlds `muster` is the binary under test,
//! `cargo run --release -- …` means the same, and `grpcurl` is the real one where it is installed, else a stand-in
//! that knows the API by reflection alone.

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use muster_e2e::World;

use crate::{BINARIES, world};

/// A script of a document, and what it must do.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    line: usize,
    script: String,
    code: i32,
    output: Option<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let mut body = String::new();
        for (_, line) in lines.by_ref().take_while(|(_, line)| *line != "```") {
            writeln!(body, "{line}").expect("a string takes everything");
        }
        let mut words = info.split_whitespace();
        match (words.next(), words.next()) {
            (Some("sh"), Some("run")) => found.push(Block {
                line: number + 1,
                script: body,
                code: words
                    .find_map(|word| word.strip_prefix("exit=")?.parse().ok())
                    .unwrap_or(0),
                output: None,
            }),
            (Some("text"), Some("output")) => {
                let block = found
                    .last_mut()
                    .expect("output belongs to a script before it");
                block.output = Some(body);
            }
            _ => {}
        }
    }
    found
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

fn world_for_docs() -> World {
    let mut world = world();
    let bin = world.root().join("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(BINARIES.muster, bin.join("muster")).unwrap();
    if !in_path("grpcurl") {
        symlink(env!("CARGO_BIN_EXE_grpcurl"), bin.join("grpcurl")).unwrap();
    }
    let cargo = bin.join("cargo");
    std::fs::write(
        &cargo,
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec muster \"$@\"\n",
    )
    .unwrap();
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    world.set_env("PATH", format!("{}:{path}", bin.display()));
    world
}

fn run_document(name: &str) {
    let text = std::fs::read_to_string(repository().join(name)).unwrap();
    let blocks = blocks(&text);
    assert!(!blocks.is_empty(), "{name} has no block that is run");
    let world = world_for_docs();
    // Variables set by one block are there in the next, as in a reader's shell.
    let kept = world.root().join("variables");
    std::fs::write(&kept, "").unwrap();
    for block in blocks {
        let kept = kept.display();
        let script = format!(
            "set -euo pipefail; . {kept}; trap 'declare -p | grep \"^declare -- [a-z]\" > {kept} || :' EXIT\n{}",
            block.script
        );
        let outcome = world.command("bash", ["-c", &script]).output();
        assert_eq!(
            outcome.code,
            Some(block.code),
            "{name}:{}: {outcome}",
            block.line
        );
        if let Some(output) = block.output {
            let printed = String::from_utf8_lossy(&outcome.stdout);
            assert_eq!(printed, output, "{name}:{}: {outcome}", block.line);
        }
    }
}

#[test]
fn the_readme_is_true() {
    run_document("README.md");
}

#[test]
fn the_api_guide_is_true() {
    run_document("docs/api.md");
}

#[test]
fn the_operating_guide_is_true() {
    run_document("docs/operating.md");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = repository();
    let mut documents = vec![root.join("README.md"), root.join("deploy/README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                documents.push(path);
            }
        }
    }
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let target = document.parent().unwrap().join(target);
            assert!(
                target.exists(),
                "{} links to {link}, which is not there",
                document.display()
            );
        }
    }
}

#[test]
fn blocks_are_found_with_code_and_output() {
    let text = "a\n```sh run exit=3\nx\ny\n```\n\n```text output\no\n```\n```sh\nnot run\n```\n";
    let expected = Block {
        line: 2,
        script: "x\ny\n".to_owned(),
        code: 3,
        output: Some("o\n".to_owned()),
    };
    assert_eq!(blocks(text), [expected]);
}
