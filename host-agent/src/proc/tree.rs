//! Everything that belongs to a run: the program, its group, its descendants, and whoever
//! carries the marker. Programs put their tools into sessions of their own, so neither the
//! group nor the ancestry alone is enough.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    os::unix::fs::MetadataExt as _,
};

use super::{Identity, Marker, Stat, marker_of, own_uid, pids, stat, stat::real_uid};

/// A living process of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub identity: Identity,
    /// Belongs to another user: reported, never signalled.
    pub foreign: bool,
}

/// Which processes belong to one run.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Marker of the run.
    pub marker: Marker,
    /// The program, while it was not waited for.
    pub program: Option<Identity>,
    /// The keeper that is the program's parent and subreaper: all its descendants count.
    /// `None` for a keeper that adopted.
    pub reaper: Option<i32>,
}

impl Tree {
    /// The living members, the program first. Never included: this process, Muster's own
    /// daemons with all that they started, and processes that carry another run's marker.
    ///
    /// # Errors
    /// What reading `/proc` says.
    pub fn members(&self) -> io::Result<Vec<Member>> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let mut all: HashMap<i32, Stat> = HashMap::new();
        for pid in pids()? {
            match stat(pid) {
                Ok(Some(stat)) => {
                    all.insert(pid, stat);
                }
                Ok(None) => {}
                // Where `/proc` hides other users' processes, those are none of ours.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error),
            }
        }
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for stat in all.values() {
            let siblings = children.entry(stat.parent).or_default();
            siblings.push(stat.identity.pid);
        }
        let own_daemons = OwnExecutable::new();
        let mut marks = HashMap::new();
        let mut found = HashSet::new();
        for root in self.roots(own, &all, &mut marks)? {
            let mut open = vec![root];
            while let Some(pid) = open.pop() {
                let place = self.place(pid, &mut marks, &own_daemons)?;
                if pid == own || place == Place::Outside || !found.insert(pid) {
                    continue;
                }
                open.extend(children.get(&pid).into_iter().flatten());
            }
        }
        let alive = found
            .iter()
            .filter_map(|pid| all.get(pid))
            .filter(|stat| !stat.has_ended());
        let mut members = Vec::new();
        for stat in alive {
            if let Some(uid) = real_uid(stat.identity.pid)? {
                members.push(Member {
                    identity: stat.identity,
                    foreign: uid != own_uid(),
                });
            }
        }
        let program = self.program;
        members.sort_unstable_by_key(|member| {
            let identity = member.identity;
            let later = Some(identity) != program;
            (later, identity.start_ticks, identity.pid)
        });
        Ok(members)
    }

    /// Where to begin: the program, its group, the reaper's children, the marked ones.
    fn roots(
        &self,
        own: i32,
        all: &HashMap<i32, Stat>,
        marks: &mut HashMap<i32, Option<Marker>>,
    ) -> io::Result<Vec<i32>> {
        // The group has the program's pid as its number, which is the program's only while
        // its identity is there.
        let program = self
            .program
            .filter(|program| all.get(&program.pid).map(|stat| stat.identity) == Some(*program));
        let mut roots = Vec::new();
        for (pid, stat) in all {
            if *pid <= 1 || *pid == own {
                continue;
            }
            let in_group = program.is_some_and(|program| stat.group == program.pid);
            let adopted = self.reaper == Some(stat.parent);
            if in_group || adopted || mark(*pid, marks)?.as_ref() == Some(&self.marker) {
                roots.push(*pid);
            }
        }
        Ok(roots)
    }

    fn place(
        &self,
        pid: i32,
        marks: &mut HashMap<i32, Option<Marker>>,
        daemons: &OwnExecutable,
    ) -> io::Result<Place> {
        if pid <= 1 {
            return Ok(Place::Outside);
        }
        Ok(match mark(pid, marks)? {
            Some(marker) if *marker == self.marker => Place::Inside,
            // A run of another session whose keeper died came to this reaper.
            Some(_) => Place::Outside,
            None if daemons.is_run_by(pid) => Place::Outside,
            None => Place::Inside,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Inside,
    Outside,
}

fn mark(pid: i32, marks: &mut HashMap<i32, Option<Marker>>) -> io::Result<&Option<Marker>> {
    Ok(match marks.entry(pid) {
        std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::hash_map::Entry::Vacant(entry) => entry.insert(marker_of(pid)?),
    })
}

/// Recognises Muster's own daemons among the descendants of a session that started one:
/// they run one of our executables and, being detached, carry no marker.
struct OwnExecutable {
    own: Option<(u64, u64)>,
}

impl OwnExecutable {
    fn new() -> Self {
        let own = fs::metadata("/proc/self/exe").ok();
        Self {
            own: own.map(|meta| (meta.dev(), meta.ino())),
        }
    }

    fn is_run_by(&self, pid: i32) -> bool {
        let exe = format!("/proc/{pid}/exe");
        let same = fs::metadata(&exe).ok();
        if same.is_some() && self.own == same.map(|meta| (meta.dev(), meta.ino())) {
            return true;
        }
        let Ok(path) = fs::read_link(&exe) else {
            return false;
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // An executable that was replaced by an upgrade has this behind its name.
        let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
        matches!(name, "muster" | "musterd" | "muster-agent") || name.starts_with("muster-agent-")
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Group(Child);

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn marked(session: &str, run: u32) -> (Group, Identity) {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null());
        command.env("MUSTER_SESSION_ID", session);
        command.env("MUSTER_RUN", run.to_string());
        let child = command.spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        (Group(child), Identity::of(pid).unwrap().unwrap())
    }

    #[test]
    fn h13_the_marker_finds_what_left_group_and_ancestry() {
        let session = uuid::Uuid::new_v4().to_string();
        let (_one, first) = marked(&session, 1);
        let (_two, _second) = marked(&session, 2);
        let tree = Tree {
            marker: Marker {
                session: session.clone(),
                run: 1,
            },
            program: None,
            reaper: None,
        };
        // The child exists before it has run its program: wait until its environment shows.
        while super::super::find_marked(&session, None).unwrap().len() < 2 {
            std::thread::yield_now();
        }
        let members: Vec<_> = tree.members().unwrap();
        let identities: Vec<_> = members.iter().map(|member| member.identity).collect();
        assert_eq!(identities, [first]);
        assert!(!members[0].foreign);
    }

    #[test]
    fn a_recycled_program_pid_lends_its_group_to_nobody() {
        let session = uuid::Uuid::new_v4().to_string();
        let (_one, first) = marked("another", 1);
        let tree = Tree {
            marker: Marker { session, run: 1 },
            program: Some(Identity {
                start_ticks: first.start_ticks - 1,
                ..first
            }),
            reaper: None,
        };
        assert_eq!(tree.members().unwrap(), []);
    }
}
