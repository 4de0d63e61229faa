//! What the rules are applied to: the members by `cargo metadata`, their manifests and their Rust sources.

use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, TargetKind};

use super::source::Source;

/// A member of the workspace, reduced to what the rules ask.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    /// Normal dependencies on other members, sorted. Development dependencies point anywhere.
    pub(super) needs: Vec<String>,
    /// Names of integration-test targets.
    pub(super) tests: Vec<String>,
}

/// The workspace as it stands on disk.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) packages: Vec<Package>,
    /// Path and text of each member's manifest.
    pub(super) manifests: Vec<(String, String)>,
    pub(super) sources: Vec<Source>,
}

impl Workspace {
    /// Reads everything. Needs no network: only the members are asked for.
    pub(super) fn load() -> Self {
        let root = root();
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .exec()
            .expect("cargo metadata describes the workspace");
        let mut packages = Vec::new();
        let mut manifests = Vec::new();
        let mut sources = Vec::new();
        for package in &metadata.packages {
            let manifest = package.manifest_path.as_std_path();
            manifests.push((relative(&root, manifest), read(manifest)));
            let mut needs: Vec<String> = package
                .dependencies
                .iter()
                .filter(|dep| dep.kind == DependencyKind::Normal && dep.path.is_some())
                .map(|dep| dep.name.clone())
                .collect();
            needs.sort();
            let tests = package
                .targets
                .iter()
                .filter(|target| target.kind.contains(&TargetKind::Test));
            packages.push(Package {
                name: package.name.to_string(),
                needs,
                tests: tests.map(|target| target.name.clone()).collect(),
            });
            let folder = manifest.parent().expect("a manifest stands in a folder");
            files(folder, &[".rs"], &mut |path| {
                sources.push(Source::new(&relative(&root, path), &read(path)))
            });
        }
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Self {
            packages,
            manifests,
            sources,
        }
    }
}

/// Path and text of every file of the repository whose name ends so, except what git and builds keep there.
pub(super) fn text_files(endings: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    files(&root, endings, &mut |path| {
        found.push((relative(&root, path), read(path)));
    });
    found.sort();
    found
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("this crate stands in the workspace")
        .to_path_buf()
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// Every file below `folder` whose name ends so; hidden folders and build output are passed over.
fn files(folder: &Path, endings: &[&str], found: &mut dyn FnMut(&Path)) {
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a readable folder").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !name.starts_with("target") {
                files(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found(&path);
        }
    }
}
