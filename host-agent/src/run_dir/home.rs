//! The agent's home: where the run folders are, and which there are.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use uuid::Uuid;

use super::RunDir;

/// Names one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// Session.
    pub session: Uuid,
    /// Ordinal, from 1.
    pub run: u32,
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The runs, sorted.
    pub runs: Vec<RunKey>,
    /// Names that are no session or run of ours: reported, never touched.
    pub foreign: Vec<PathBuf>,
}

/// The folder of one agent: `$MUSTER_AGENT_HOME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// By its absolute path; nothing is created or opened.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `sessions/<uuid>/runs/<n>` below the home.
    pub fn run_path(&self, key: RunKey) -> PathBuf {
        let mut path = self.path.join("sessions");
        path.push(key.session.hyphenated().to_string());
        path.push("runs");
        path.push(key.run.to_string());
        path
    }

    /// Makes the folder of a run, 0700, with its parents; one that exists is opened.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create_run(&self, key: RunKey) -> io::Result<RunDir> {
        let path = self.run_path(key);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        RunDir::open(path)
    }

    /// Opens the folder of a run; `None` when it does not exist.
    ///
    /// # Errors
    /// Any failure but absence.
    pub fn open_run(&self, key: RunKey) -> io::Result<Option<RunDir>> {
        match RunDir::open(self.run_path(key)) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All runs. Only canonical names count: a lower-case hyphenated UUID, a number without
    /// leading zeros.
    ///
    /// # Errors
    /// Any failure to read: a scan that failed says nothing about what exists.
    pub fn scan(&self) -> io::Result<Scan> {
        let mut scan = Scan::default();
        for (name, path) in entries(&self.path.join("sessions"))? {
            let Some(session) = canonical_session(&name) else {
                scan.foreign.push(path);
                continue;
            };
            for (name, path) in entries(&path.join("runs"))? {
                match canonical_run(&name) {
                    Some(run) => scan.runs.push(RunKey { session, run }),
                    None => scan.foreign.push(path),
                }
            }
        }
        scan.runs.sort_unstable();
        scan.foreign.sort_unstable();
        Ok(scan)
    }

    /// The runs of one session, ascending.
    ///
    /// # Errors
    /// Any failure to read but the absence of the session.
    pub fn runs_of(&self, session: Uuid) -> io::Result<Vec<RunKey>> {
        let mut folder = self.path.join("sessions");
        folder.push(session.hyphenated().to_string());
        folder.push("runs");
        let names = entries(&folder)?;
        let runs = names.iter().filter_map(|(name, _)| canonical_run(name));
        let mut keys: Vec<_> = runs.map(|run| RunKey { session, run }).collect();
        keys.sort_unstable();
        Ok(keys)
    }
}

/// A session id in the one spelling that names a folder.
fn canonical_session(name: &str) -> Option<Uuid> {
    let session = Uuid::try_parse(name).ok()?;
    (session.hyphenated().to_string() == name).then_some(session)
}

fn canonical_run(name: &str) -> Option<u32> {
    let run: u32 = name.parse().ok()?;
    (run >= 1 && run.to_string() == name).then_some(run)
}

/// Names of a folder; an absent folder has none. Names that are no UTF-8 are shown lossily,
/// which makes them foreign.
fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let list = match std::fs::read_dir(folder) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in list {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        names.push((name, entry.path()));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h17_only_canonical_names_are_runs() {
        let temp = tempfile::tempdir().unwrap();
        let home = Home::new(temp.path());
        assert_eq!(home.scan().unwrap(), Scan::default());
        let session = Uuid::new_v4();
        for run in [10, 2] {
            home.create_run(RunKey { session, run }).unwrap();
        }
        let upper = session.hyphenated().to_string().to_uppercase();
        let sessions = temp.path().join("sessions");
        std::fs::create_dir_all(sessions.join(upper).join("runs/1")).unwrap();
        std::fs::create_dir_all(sessions.join("..x")).unwrap();
        let runs = sessions.join(session.hyphenated().to_string()).join("runs");
        for name in ["01", "0", "-1", "one"] {
            std::fs::create_dir_all(runs.join(name)).unwrap();
        }
        let scan = home.scan().unwrap();
        let found: Vec<_> = scan.runs.iter().map(|key| key.run).collect();
        assert_eq!(found, [2, 10]);
        assert_eq!(scan.foreign.len(), 6);
        assert_eq!(home.runs_of(session).unwrap(), scan.runs);
    }
}
