//! Debug output of messages that hold values of environments: names only (R12).

use std::fmt;

use crate::{agent, keeper, public};

impl fmt::Debug for agent::EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnvVar({}=…)", self.name)
    }
}

impl fmt::Debug for keeper::EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnvVar({}=…)", self.name)
    }
}

impl fmt::Debug for public::StartSessionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartSessionRequest")
            .field("client_key", &self.client_key)
            .field("task_id", &self.task_id)
            .field("slot", &self.slot)
            .field("host", &self.host)
            .field("cwd", &self.cwd)
            .field("adapter", &self.adapter)
            .field("argv", &self.argv)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r12_values_of_environments_are_never_printed() {
        let spawn = agent::SpawnRequest {
            env: vec![agent::EnvVar {
                name: "TOKEN".to_owned(),
                value: "hunter2".to_owned(),
            }],
            ..agent::SpawnRequest::default()
        };
        let spec = keeper::RunSpec {
            env: vec![keeper::EnvVar {
                name: "TOKEN".to_owned(),
                value: b"hunter2".to_vec().into(),
            }],
            ..keeper::RunSpec::default()
        };
        let start = public::StartSessionRequest {
            env: [("TOKEN".to_owned(), "hunter2".to_owned())].into(),
            ..public::StartSessionRequest::default()
        };
        for shown in [
            format!("{spawn:?}"),
            format!("{spec:?}"),
            format!("{start:?}"),
        ] {
            assert!(shown.contains("TOKEN"), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
