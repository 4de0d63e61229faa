//! Whether a machine has what it takes to start a program.

use muster_client::{Client, PageRequest, api::Host};

use crate::exit::{self, Failure};

/// The machine that is meant where none is named.
const WORKSTATION: &str = "local";
/// How the cause begins when an agent could not be started.
const NOT_STARTED: &str = "bootstrap_failed: ";

/// What is missing, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) text: String,
    pub(crate) hint: String,
}

impl Missing {
    /// `run` cannot begin.
    pub(crate) fn failure(self) -> Failure {
        Failure::with_code(exit::RUN_FAILED, self.text)
            .reason("HOST_UNREACHABLE")
            .hint(self.hint)
    }
}

/// What is known to be missing on the machine `host` (`None`: this one), where waiting alone
/// does not help.
pub(crate) async fn missing(client: &Client, host: Option<&str>) -> Option<Missing> {
    why(&find(client, host).await?)
}

/// How the machine is reached, where it is not: for people who wait.
pub(crate) async fn unreached(client: &Client, host: Option<&str>) -> Option<String> {
    let host = find(client, host).await?;
    (host.agent_pid == 0 && !host.cause.is_empty()).then(|| {
        let cause = host.cause.strip_prefix(NOT_STARTED).unwrap_or(&host.cause);
        format!("host `{}` is not reached ({cause})", host.name)
    })
}

async fn find(client: &Client, host: Option<&str>) -> Option<Host> {
    let name = host.unwrap_or(WORKSTATION);
    let page = client.list_hosts(PageRequest::default()).await.ok()?;
    page.items.into_iter().find(|host| host.name == name)
}

fn why(host: &Host) -> Option<Missing> {
    let cause = host.cause.strip_prefix(NOT_STARTED)?;
    let folder = host
        .address
        .strip_prefix("unix:")
        .and_then(|socket| socket.rsplit_once('/'))
        .map_or("its folder", |(folder, _)| folder);
    Some(Missing {
        text: format!("no program can be started on host `{}`: {cause}", host.name),
        hint: format!(
            "the host agent needs {folder}; make that writable, or choose another place with \
             MUSTER_AGENT_HOME, then `muster down` and `muster up --detach`"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_cannot_be_started_is_named_with_its_folder() {
        let mut host = Host {
            name: "local".to_owned(),
            address: "unix:/x/agent/agent.sock".to_owned(),
            cause: "bootstrap_failed: its agent could not be started: denied".to_owned(),
            ..Host::default()
        };
        let missing = why(&host).unwrap();
        assert!(missing.text.ends_with("could not be started: denied"));
        assert!(missing.hint.contains("/x/agent;"));
        host.cause = "network".to_owned();
        assert_eq!(why(&host), None);
    }
}
