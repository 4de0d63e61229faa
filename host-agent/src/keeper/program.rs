//! Starting the program.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use muster_proto::keeper::{EnvVar, RunSpec, SpawnFailure, SpawnFailureReason};
use rustix::{
    fs::Access,
    process::{Resource, Rlimit},
};

use crate::proc::{MARKER_RUN, MARKER_SESSION};

/// Where a program is looked for when its environment has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// The program's three descriptors; it gets no other.
#[derive(Debug)]
pub(super) struct Stdio {
    pub(super) stdin: File,
    pub(super) stdout: File,
    pub(super) stderr: File,
}

pub(super) fn refusal(reason: SpawnFailureReason, message: impl Into<String>) -> SpawnFailure {
    SpawnFailure {
        reason: reason.into(),
        message: message.into(),
    }
}

/// Starts the program in a process group of its own, with the signals, limits and umask
/// that the user's programs have, and no descriptor but three: all others are
/// close-on-exec, those inherited from the starter since stage one.
pub(super) fn spawn(spec: &RunSpec, stdio: Stdio) -> Result<Child, SpawnFailure> {
    let cwd = Path::new(&spec.cwd);
    check_cwd(cwd)?;
    let Some(name) = spec.argv.first() else {
        return Err(refusal(
            SpawnFailureReason::ProgramNotFound,
            "the command line is empty",
        ));
    };
    let program = find(name, cwd, &spec.env)?;
    give_limits_back(spec);
    let mut command = Command::new(&program);
    command.arg0(name).args(&spec.argv[1..]).current_dir(cwd);
    command.env_clear();
    for variable in &spec.env {
        command.env(&variable.name, OsStr::from_bytes(&variable.value));
    }
    command.env(MARKER_SESSION, &spec.session_id);
    command.env(MARKER_RUN, spec.run.to_string());
    command.stdin(stdio.stdin);
    command.stdout(stdio.stdout).stderr(stdio.stderr);
    command.process_group(0);
    command.spawn().map_err(|error| {
        let reason = match error.kind() {
            // The file was there: its interpreter is not, or it is in no format we can run.
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                SpawnFailureReason::NotExecutable
            }
            _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                SpawnFailureReason::NotExecutable
            }
            _ => SpawnFailureReason::SpawnFailed,
        };
        refusal(reason, format!("start {}: {error}", program.display()))
    })
}

fn check_cwd(cwd: &Path) -> Result<(), SpawnFailure> {
    let message = match fs::metadata(cwd) {
        Ok(meta) if meta.is_dir() && cwd.is_absolute() => return Ok(()),
        Ok(_) => format!("{} is no folder", cwd.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{} does not exist", cwd.display())
        }
        Err(error) => {
            let message = format!("look at {}: {error}", cwd.display());
            return Err(refusal(SpawnFailureReason::SpawnFailed, message));
        }
    };
    Err(refusal(SpawnFailureReason::CwdMissing, message))
}

/// Looks a program up as a shell in `cwd` with this environment would.
fn find(name: &str, cwd: &Path, env: &[EnvVar]) -> Result<PathBuf, SpawnFailure> {
    let candidates = if name.contains('/') {
        vec![cwd.join(name)]
    } else {
        let path = env.iter().rev().find(|variable| variable.name == "PATH");
        let path = path.map_or(DEFAULT_PATH, |variable| variable.value.as_ref());
        let folders = path.split(|byte| *byte == b':');
        // An empty part means the working directory.
        let folders = folders.map(|folder| cwd.join(OsStr::from_bytes(folder)));
        folders.map(|folder| folder.join(name)).collect()
    };
    let mut unusable = None;
    let is_path = name.contains('/');
    for candidate in candidates {
        let Some(meta) = fs::metadata(&candidate).ok().filter(|_| !name.is_empty()) else {
            continue;
        };
        if !meta.is_file() {
            // In a PATH a folder of that name hides nothing; a path to one is an answer.
            if is_path {
                unusable.get_or_insert(candidate);
            }
            continue;
        }
        if rustix::fs::access(&candidate, Access::EXEC_OK).is_ok() {
            return Ok(candidate);
        }
        unusable.get_or_insert(candidate);
    }
    Err(match unusable {
        Some(candidate) => {
            let why = if candidate.is_dir() {
                "a folder"
            } else {
                "not executable"
            };
            let message = format!("{} is {why}", candidate.display());
            refusal(SpawnFailureReason::NotExecutable, message)
        }
        None => refusal(
            SpawnFailureReason::ProgramNotFound,
            format!("{name} was not found"),
        ),
    })
}

/// The agent raised its limit of open files; the program gets the user's own. A limit that
/// cannot be set is left as it is: no reason not to start.
fn give_limits_back(spec: &RunSpec) {
    if spec.nofile_soft == 0 {
        return;
    }
    let now = rustix::process::getrlimit(Resource::Nofile);
    let hard = (spec.nofile_hard > 0).then_some(spec.nofile_hard);
    let maximum = match (hard, now.maximum) {
        (Some(hard), Some(now)) => Some(hard.min(now)),
        (hard, now) => hard.or(now),
    };
    let limit = Rlimit {
        current: Some(maximum.map_or(spec.nofile_soft, |max| max.min(spec.nofile_soft))),
        maximum,
    };
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn env(path: &str) -> Vec<EnvVar> {
        vec![EnvVar {
            name: "PATH".into(),
            value: path.to_owned().into(),
        }]
    }

    fn file(path: &Path, mode: u32) {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_is_looked_up_in_the_path_that_it_will_have() {
        let temp = tempfile::tempdir().unwrap();
        let cwd = temp.path();
        fs::create_dir(cwd.join("a")).unwrap();
        fs::create_dir(cwd.join("b")).unwrap();
        file(&cwd.join("a/tool"), 0o644);
        let path = env("a:b");
        let reason = |name: &str| find(name, cwd, &path).unwrap_err().reason();
        assert_eq!(reason("tool"), SpawnFailureReason::NotExecutable);
        assert_eq!(reason("./a/tool"), SpawnFailureReason::NotExecutable);
        assert_eq!(reason("other"), SpawnFailureReason::ProgramNotFound);
        assert_eq!(reason(""), SpawnFailureReason::ProgramNotFound);
        assert_eq!(reason("a"), SpawnFailureReason::ProgramNotFound);
        assert_eq!(reason("./a"), SpawnFailureReason::NotExecutable);
        file(&cwd.join("b/tool"), 0o755);
        assert_eq!(find("tool", cwd, &path).unwrap(), cwd.join("b/tool"));
        assert_eq!(find("b/tool", cwd, &path).unwrap(), cwd.join("b/tool"));
        assert!(find("sh", cwd, &[]).is_ok());
    }
}
