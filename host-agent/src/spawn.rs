//! The environment that programs are started with: the user's login environment, resolved once,
//! filtered by an allow-list, with what the caller added and the markers of the run (H18).

mod allow;
mod login;

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    sync::Arc,
};

use muster_domain::{Fault, limits};
use muster_proto::{agent, keeper};
use muster_runtime::Tasks;
use tokio::sync::OnceCell;

use crate::{
    proc::{MARKER_RUN, MARKER_SESSION},
    run_dir::RunKey,
};

/// The one variable of Muster's own that a caller may set: where a program finds the API.
const ADDRESS: &str = "MUSTER_ADDR";

type Environment = Arc<Vec<(OsString, OsString)>>;

/// The login environment, resolved at its first use. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LoginEnv {
    user_home: PathBuf,
    tasks: Tasks,
    resolved: Arc<OnceCell<Environment>>,
}

impl LoginEnv {
    pub(crate) fn new(user_home: PathBuf, tasks: Tasks) -> Self {
        Self {
            user_home,
            tasks,
            resolved: Arc::default(),
        }
    }

    /// The filtered environment. The first call waits for the user's shell, at most 10 s; when
    /// the shell does not answer, the agent's own environment stands in.
    async fn get(&self) -> Environment {
        let resolve = || async {
            let home = self.user_home.clone();
            let asked = self
                .tasks
                .spawn_blocking("login environment", move || login::ask_shell(&home));
            let answered = asked.await.map_err(std::io::Error::other);
            let all = match answered.and_then(|answer| answer) {
                Ok(all) => all,
                Err(error) => {
                    tracing::warn!(%error, "the login shell gave no environment: the agent's own is used");
                    std::env::vars_os().collect()
                }
            };
            Arc::new(
                all.into_iter()
                    .filter(|(name, _)| allow::is_allowed(name))
                    .collect(),
            )
        };
        self.resolved.get_or_init(resolve).await.clone()
    }

    /// The whole environment of a run.
    pub(crate) async fn for_run(
        &self,
        key: RunKey,
        added: &[agent::EnvVar],
    ) -> Vec<keeper::EnvVar> {
        let login = self.get().await;
        let replaced = |name: &OsStr| added.iter().any(|var| OsStr::new(&var.name) == name);
        let kept = login.iter().filter(|(name, _)| !replaced(name));
        let mut all: Vec<_> = kept
            .filter_map(|(name, value)| Some(variable(name.to_str()?, value.as_bytes())))
            .collect();
        all.extend(
            added
                .iter()
                .map(|var| variable(&var.name, var.value.as_bytes())),
        );
        let session = key.session.hyphenated().to_string();
        all.push(variable(MARKER_SESSION, session.as_bytes()));
        all.push(variable(MARKER_RUN, key.run.to_string().as_bytes()));
        all
    }
}

fn variable(name: &str, value: &[u8]) -> keeper::EnvVar {
    keeper::EnvVar {
        name: name.to_owned(),
        value: value.to_vec().into(),
    }
}

/// Checks what a caller wants to run, before anything is made.
///
/// # Errors
/// `INVALID`, `MISSING_FIELD`.
pub(crate) fn check_command(argv: &[String], added: &[agent::EnvVar]) -> Result<(), Fault> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(Fault::missing("argv"));
    }
    if argv.iter().any(|arg| arg.contains('\0')) {
        return Err(Fault::invalid("argv", "an argument has no NUL byte"));
    }
    for (at, var) in added.iter().enumerate() {
        if var.name.is_empty() || var.name.contains(['=', '\0']) {
            return Err(Fault::invalid(
                "env",
                "a name is not empty and has no `=` and no NUL byte",
            ));
        }
        if var.name.starts_with("MUSTER_") && var.name != ADDRESS {
            let why = format!("`{}` is Muster's own", var.name);
            return Err(Fault::invalid("env", why));
        }
        if var.value.contains('\0') {
            let why = format!("the value of `{}` has a NUL byte", var.name);
            return Err(Fault::invalid("env", why));
        }
        if added[..at].iter().any(|earlier| earlier.name == var.name) {
            return Err(Fault::invalid(
                "env",
                format!("`{}` stands there twice", var.name),
            ));
        }
    }
    let arguments: usize = argv.iter().map(String::len).sum();
    let environment: usize = added
        .iter()
        .map(|var| var.name.len() + var.value.len())
        .sum();
    if arguments + environment > limits::ARGV_BYTES {
        let why = format!(
            "arguments and environment have at most {} bytes",
            limits::ARGV_BYTES
        );
        return Err(Fault::invalid("argv", why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn var(name: &str, value: &str) -> agent::EnvVar {
        agent::EnvVar {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn h18_commands_are_checked() {
        let argv = ["program".to_owned()];
        check_command(&argv, &[var("A", "1"), var("MUSTER_ADDR", "unix:/x")]).unwrap();
        for (argv, env) in [
            (vec![], vec![]),
            (vec![String::new()], vec![]),
            (vec!["a\0b".to_owned()], vec![]),
            (argv.to_vec(), vec![var("", "1")]),
            (argv.to_vec(), vec![var("A=B", "1")]),
            (argv.to_vec(), vec![var("A", "a\0b")]),
            (argv.to_vec(), vec![var("MUSTER_RUN", "7")]),
            (argv.to_vec(), vec![var("A", "1"), var("A", "2")]),
            (vec!["x".repeat(limits::ARGV_BYTES + 1)], vec![]),
        ] {
            assert!(check_command(&argv, &env).is_err(), "{:?}", env);
        }
    }

    #[tokio::test]
    async fn h18_the_environment_of_a_run_is_filtered_and_marked() {
        let tasks = Tasks::new("test");
        let login = LoginEnv::new("/".into(), tasks);
        let given = vec![("PATH".into(), "/bin".into()), ("LANG".into(), "C".into())];
        login.resolved.set(Arc::new(given)).unwrap();
        let key = RunKey {
            session: uuid::Uuid::nil(),
            run: 3,
        };
        let env = login
            .for_run(key, &[var("LANG", "de"), var("X", "y")])
            .await;
        let shown: Vec<_> = env
            .iter()
            .map(|var| format!("{}={}", var.name, String::from_utf8_lossy(&var.value)))
            .collect();
        assert_eq!(
            shown,
            [
                "PATH=/bin",
                "LANG=de",
                "X=y",
                "MUSTER_SESSION_ID=00000000-0000-0000-0000-000000000000",
                "MUSTER_RUN=3"
            ]
        );
    }
}
