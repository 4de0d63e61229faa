//! What session actors and use cases ask of hosts, in the domain's words.
//!
//! Every call has a deadline. While the link is not up a call waits for it, up to that
//! deadline; then it fails with `HOST_UNREACHABLE` and the cause. "Not found" comes only
//! from the agent that looked. Every call is cancel safe: dropping it withdraws interest,
//! never an effect that the agent has begun.

mod streams;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use muster_domain::{
    DeliveryId, Fault, HostId, SessionId, Timestamp,
    delivery::Answer,
    host::Agent,
    page,
    session::{Identity, Link, RunReport},
};
use tokio::sync::watch;

pub use streams::{
    FileInfo, FileKind, FileRef, FollowCall, Framing, ReadCall, ReadChunk, ReadStream, RunFile,
    Start, Stat, TailEvent, TailStream,
};

use super::reports::Reports;

/// The hosts that this coordinator knows.
pub trait HostsApi: Send + Sync + fmt::Debug {
    /// The host with this id.
    fn get(&self, id: HostId) -> Option<Arc<dyn HostApi>>;

    /// All of them, by name.
    fn all(&self) -> Vec<Arc<dyn HostApi>>;
}

/// One host.
#[async_trait]
pub trait HostApi: Send + Sync + fmt::Debug {
    /// Its id.
    fn id(&self) -> HostId;

    /// Its unique name.
    fn name(&self) -> String;

    /// The link now, and whenever it changes.
    fn link(&self) -> watch::Receiver<LinkView>;

    /// What the host reports of one session's runs from now on. After every connection the
    /// subscriber gets at least one report; a new subscriber begins with
    /// [`Report::Relist`](super::reports::Report::Relist). A later subscription of the same
    /// session replaces the earlier one.
    fn reports(&self, session: SessionId) -> Reports;

    /// Starts a run. Idempotent by (session, run).
    ///
    /// # Errors
    /// `CWD_MISSING`, `PROGRAM_NOT_FOUND`, `NOT_EXECUTABLE`, `SPAWN_FAILED`,
    /// `SESSION_ALIVE`, `DISK_FULL`, `INVALID`, `EPOCH_STALE`: nothing was started.
    /// `HOST_UNREACHABLE`, `CANCELLED`: nobody knows; ask [`HostApi::get_run`].
    async fn spawn(&self, call: SpawnCall, deadline: Duration) -> Result<RunReport, Fault>;

    /// One run. `process`: its program as it was reported, which is looked for when the
    /// run's folder is gone.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND` (there is neither a folder nor a process), `HOST_UNREACHABLE`.
    async fn get_run(
        &self,
        run: RunKey,
        process: Option<Identity>,
        deadline: Duration,
    ) -> Result<RunReport, Fault>;

    /// The runs of a session, oldest first.
    ///
    /// # Errors
    /// `HOST_UNREACHABLE`.
    async fn list_runs(
        &self,
        session: SessionId,
        deadline: Duration,
    ) -> Result<Vec<RunReport>, Fault>;

    /// Writes a delivery, or asks again for it. Idempotent by delivery id.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `NOT_A_LINE`, `MESSAGE_TOO_LARGE`, `EPOCH_STALE`: nothing was
    /// written. `DELIVERY_LIMIT`: nothing was written, try again. `HOST_UNREACHABLE`,
    /// `CANCELLED`: nobody knows; deliver again or ask [`HostApi::get_delivery`].
    async fn deliver(&self, call: DeliverCall, deadline: Duration) -> Result<Answer, Fault>;

    /// What the journal says about a delivery; [`Answer::Unseen`] where it has none.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `HOST_UNREACHABLE`.
    async fn get_delivery(
        &self,
        run: RunKey,
        delivery: DeliveryId,
        deadline: Duration,
    ) -> Result<Answer, Fault>;

    /// Closes the program's stdin. `true`: it was closed before.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `STDIN_HELD`, `NO_KEEPER`, `HOST_UNREACHABLE`.
    async fn close_stdin(&self, run: RunKey, deadline: Duration) -> Result<bool, Fault>;

    /// Starts the stop ladder. Succeeds on an ended run and says so.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `HOST_UNREACHABLE`.
    async fn stop(&self, call: StopCall, deadline: Duration) -> Result<Stopped, Fault>;

    /// One signal to the whole tree of a run; who got it.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `INVALID`, `HOST_UNREACHABLE`.
    async fn signal(
        &self,
        run: RunKey,
        signal: i32,
        deadline: Duration,
    ) -> Result<Vec<Identity>, Fault>;

    /// Processes that carry the marker of a session.
    ///
    /// # Errors
    /// `HOST_UNREACHABLE`.
    async fn find_processes(
        &self,
        session: SessionId,
        deadline: Duration,
    ) -> Result<Vec<Found>, Fault>;

    /// Follows a file. The stream is pulled: what is not taken is not read on the host.
    /// `deadline` bounds the opening. A cut link ends the stream with `HOST_UNREACHABLE`,
    /// an agent that hands over with `MOVED`: follow again from the last cursor.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `NOT_FOUND`, `OUTSIDE_ROOTS`, `NOT_A_FILE`, `BAD_CURSOR`,
    /// `STREAM_LIMIT`, `HOST_UNREACHABLE`; the same as an item later.
    async fn follow(&self, call: FollowCall, deadline: Duration) -> Result<TailStream, Fault>;

    /// Describes a file.
    ///
    /// # Errors
    /// `NOT_FOUND`, `OUTSIDE_ROOTS`, `PERMISSION_DENIED`, `INVALID_PATH`, `HIDDEN_PATH`,
    /// `HOST_UNREACHABLE`.
    async fn stat(&self, path: &str, deadline: Duration) -> Result<Stat, Fault>;

    /// One page of a folder, sorted by name.
    ///
    /// # Errors
    /// As [`HostApi::stat`], `NOT_A_DIRECTORY`, `TOO_MANY_NAMES`, `BAD_PAGE_TOKEN`.
    async fn list(
        &self,
        path: &str,
        page: page::Request,
        deadline: Duration,
    ) -> Result<page::Page<FileInfo>, Fault>;

    /// A byte range, pulled. `deadline` bounds the opening.
    ///
    /// # Errors
    /// As [`HostApi::stat`], `NOT_A_FILE`; the same as an item later.
    async fn read(&self, call: ReadCall, deadline: Duration) -> Result<ReadStream, Fault>;

    /// Tells the agent to end, and reaches this host no more; sessions go on.
    ///
    /// # Errors
    /// `HOST_UNREACHABLE`.
    async fn drain(&self, deadline: Duration) -> Result<(), Fault>;
}

/// The link to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkView {
    /// Its state. Only `Connected` and `Suspect` are up (S31).
    pub link: Link,
    /// Why it is not up: a closed word with details, as in `refused`.
    pub cause: Option<String>,
    /// Attempts since it was last connected.
    pub attempts: u32,
    /// When the next attempt is due.
    pub next_try: Option<Timestamp>,
    /// Since when it is as it is.
    pub since: Timestamp,
    /// What the agent said of itself when it was last connected.
    pub agent: Option<Agent>,
    /// Counts connections from 1; another number means that streams were lost.
    pub connection: u64,
}

impl LinkView {
    /// Calls can be made.
    pub fn is_up(&self) -> bool {
        matches!(self.link, Link::Connected | Link::Suspect)
    }

    /// Its agent could not be started: more than waiting is needed.
    pub fn has_no_agent(&self) -> bool {
        let cause = self.cause.as_deref();
        !self.is_up() && cause.is_some_and(|cause| cause.starts_with("bootstrap_failed"))
    }
}

/// One run of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// Session.
    pub session: SessionId,
    /// Ordinal, from 1.
    pub run: u32,
}

/// How a program's stdin is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinMode {
    /// Never at its end, outlives the keeper.
    Held,
    /// Can be closed.
    Closable,
}

/// A run to start. The environment reaches the program and nothing else.
#[derive(Clone, PartialEq, Eq)]
pub struct SpawnCall {
    /// Which run.
    pub key: RunKey,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Working directory; absolute, or beginning with `~`.
    pub cwd: String,
    /// Additions to the filtered login environment.
    pub env: BTreeMap<String, String>,
    /// Its stdin.
    pub stdin: StdinMode,
}

impl fmt::Debug for SpawnCall {
    /// Without the values of the environment (R12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnCall")
            .field("key", &self.key)
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("stdin", &self.stdin)
            .finish()
    }
}

/// A payload for a program's stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverCall {
    /// Which run.
    pub key: RunKey,
    /// Id that the keeper remembers.
    pub delivery: DeliveryId,
    /// The bytes; end with a newline.
    pub payload: Bytes,
    /// The payload must be one line.
    pub single_line: bool,
}

/// A stop ladder, or the end of survivors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopCall {
    /// Which run.
    pub key: RunKey,
    /// Climbed in order.
    pub rungs: Vec<Rung>,
    /// End only the survivors of an ended run, by identity.
    pub survivors: bool,
    /// The run's program as it was reported: it is ended when the run's folder is gone.
    pub process: Option<Identity>,
}

/// One step of a stop ladder, and how long it waits for the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rung {
    /// What is done.
    pub action: RungAction,
    /// How long is waited before the next.
    pub wait: Duration,
}

/// What a step of a stop ladder does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RungAction {
    /// The adapter's polite end, as a delivery.
    EndLine {
        /// Its id.
        delivery: DeliveryId,
        /// Its bytes.
        payload: Bytes,
    },
    /// End of stdin.
    CloseStdin,
    /// A signal to the tree.
    Signal(i32),
}

/// What a stop found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The run had ended before.
    pub already_ended: bool,
    /// Survivors that were signalled.
    pub survivors: Vec<Identity>,
}

/// A process with the marker of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which process.
    pub identity: Identity,
    /// Run of its marker.
    pub run: u32,
    /// Program name, as the kernel has it.
    pub name: String,
}
