//! The use cases. Each speaks domain words: requests come checked for their form, answers
//! are shown by `rpc`.

mod files;
mod hosts;
mod messages;
mod sessions;
mod start;
mod system;
mod tail;
mod tasks;
mod views;

use std::{path::PathBuf, sync::Arc, time::Duration};

use muster_domain::{
    Fault, Reason, Timestamp, WorkspaceId,
    changeset::{Changeset, Committed, Conflict},
};
use muster_runtime::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{hosts::api::HostsApi, sessions::api::SessionsApi, store};

pub use messages::{Queued, SendRequest, WaitFor};
pub use sessions::{Controlled, ListSessions};
pub use start::{StartRequest, Started};
pub use system::{ShutDown, Status, StopAll};
pub use tail::{TailFrame, TailFrames, TailRequest, TailStart};
pub use tasks::{TaskUpdate, Updated};
pub use views::{SessionView, Views, newest};

/// How long a use case waits for a host.
const HOST_CALL: Duration = Duration::from_secs(30);
/// How often an update is tried again when another one came first.
const TRIES: u32 = 5;
/// Candidates that an ambiguous prefix names.
const CANDIDATES: u32 = 5;

/// Everything that use cases need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    parts: Arc<Parts>,
}

/// What an [`App`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The rows.
    pub store: store::Handle,
    /// The actors.
    pub sessions: Arc<dyn SessionsApi>,
    /// The machines.
    pub hosts: Arc<dyn HostsApi>,
    /// Time.
    pub clock: Clock,
    /// Name space of this coordinator.
    pub workspace: WorkspaceId,
    /// Name of the host that the coordinator runs on.
    pub workstation: String,
    /// What it says of itself.
    pub about: About,
    /// Start-up is over.
    pub ready: watch::Receiver<bool>,
    /// Cancelled to end the coordinator.
    pub end: CancellationToken,
}

/// What the coordinator says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Where it listens.
    pub address: String,
    /// Kind of its database.
    pub database: String,
    /// Its data folder.
    pub data_dir: PathBuf,
}

impl App {
    /// The use cases over these parts.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts: Arc::new(parts),
        }
    }

    /// How rows are shown.
    pub fn views(&self) -> Views {
        Views::new(
            self.parts.store.clone(),
            self.parts.hosts.clone(),
            self.parts.sessions.clone(),
        )
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.parts.clock.now_micros())
    }

    async fn commit(&self, changeset: Changeset) -> Result<Committed, Conflict> {
        let answers = self.parts.store.commit(vec![changeset]).await;
        match answers.into_iter().next() {
            Some(answer) => answer,
            None => Err(Conflict::Unavailable("no answer".to_owned())),
        }
    }
}

/// The fault for a conflict that was not solved by trying again.
fn conflict(conflict: Conflict) -> Fault {
    match conflict {
        Conflict::Version {
            what,
            expected,
            found,
        } => Fault::new(
            Reason::VersionMismatch,
            format!("the {what} was changed by somebody else"),
        )
        .with("expected", expected)
        .with("found", found),
        Conflict::KeyTaken => Fault::new(
            Reason::KeyReused,
            "the client key was used for something else",
        ),
        Conflict::Unavailable(cause) => {
            Fault::new(Reason::StoreUnavailable, "the store cannot be written")
                .with_hint("check the disk that holds the data folder")
                .with_internal(cause)
        }
    }
}

/// The fault for a session that is not there.
pub(crate) fn no_session(id: &str) -> Fault {
    not_found(Reason::SessionNotFound, "session", id)
}

fn not_found(reason: Reason, what: &str, id: &str) -> Fault {
    let shown: String = id.chars().take(64).collect();
    Fault::new(reason, format!("there is no {what} `{shown}`")).with("id", shown)
}

/// The one id that a prefix stands for.
fn only<T: ToString + Copy>(
    found: &[T],
    prefix: &str,
    reason: Reason,
    what: &str,
) -> Result<T, Fault> {
    match found {
        [] => Err(not_found(reason, what, prefix)),
        [id] => Ok(*id),
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(Fault::new(
                Reason::AmbiguousId,
                format!("`{prefix}` stands for several {what}s"),
            )
            .with("candidates", ids.join(","))
            .with_hint("give more of the id"))
        }
    }
}

/// A text that may be the beginning of the id of such a thing.
fn check_prefix(what: &'static str, text: &str) -> Result<(), Fault> {
    if text.is_empty() {
        return Err(Fault::missing("id"));
    }
    let fits = text.len() <= 36
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b) || b == b'-');
    if fits {
        Ok(())
    } else {
        let shown: String = text.chars().take(64).collect();
        let fault = Fault::new(Reason::InvalidId, format!("`{shown}` is no {what} id"));
        Err(fault
            .with("field", "id")
            .with_hint(format!("`muster {what} ls` lists the {what}s")))
    }
}
