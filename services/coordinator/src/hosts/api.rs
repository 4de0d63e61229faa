//! What session actors and use cases ask of hosts, in the domain's words.
//!
//! Every call has a deadline. While the link is not up a call waits for it, up to that
//! deadline; then it fails with `HOST_UNREACHABLE` and the cause. "Not found" comes only
//! from the agent that looked. Every call is cancel safe: dropping it withdraws interest,
//! never an effect that the agent has begun.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use muster_domain::{
    DeliveryId, Fault, HostId, SessionId, Timestamp,
    delivery::Answer,
    host::Agent,
    page,
    session::{Identity, Link, RunReport},
};
use tokio::sync::watch;

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

    /// One run.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `HOST_UNREACHABLE`.
    async fn get_run(&self, run: RunKey, deadline: Duration) -> Result<RunReport, Fault>;

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

/// Which output of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunFile {
    /// What the program prints.
    Stdout,
    /// Its complaints.
    Stderr,
}

/// A file of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileRef {
    /// By path.
    Path(String),
    /// An output of a run.
    Run(RunKey, RunFile),
}

/// How a tail cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Complete lines, many in one frame.
    Lines,
    /// Whatever is there; partial lines too.
    Chunks,
}

/// Where a tail begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The first byte.
    Beginning,
    /// What comes from now on.
    End,
    /// This many bytes before the end.
    LastBytes(u64),
    /// A resume point that a tail gave ([`TailEvent::Data`]'s `next`).
    Cursor(Vec<u8>),
    /// This byte of an output of a run (append-only, so the number is enough; R1). Beyond
    /// the end: `BAD_CURSOR`.
    Offset(u64),
}

/// A file to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowCall {
    /// Which file.
    pub file: FileRef,
    /// How it is cut.
    pub framing: Framing,
    /// Where it begins.
    pub start: Start,
    /// Go on until the run's end; otherwise end at what is there now.
    pub follow: bool,
    /// Bytes after the run's end too.
    pub late_bytes: bool,
}

/// Events of a tail, pulled one by one.
pub type TailStream = Pin<Box<dyn Stream<Item = Result<TailEvent, Fault>> + Send>>;

/// One event of a tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailEvent {
    /// The file is open.
    Opened {
        /// Its size.
        size: u64,
    },
    /// Bytes.
    Data {
        /// Offset of the first.
        offset: u64,
        /// At most 256 KiB.
        bytes: Bytes,
        /// Where to resume after them; opaque.
        next: Vec<u8>,
        /// Offset of `next`; stays at a line's start until its newline is there.
        next_offset: u64,
        /// The last line goes on in the next frame.
        line_continues: bool,
        /// The last line has no newline and never will.
        torn: bool,
    },
    /// A line that is too long to be sent; read it by range.
    LongLine {
        /// Offset of its first byte.
        offset: u64,
        /// Its bytes, with the newline unless torn.
        length: u64,
        /// Where to resume after it; opaque.
        next: Vec<u8>,
        /// Offset of `next`.
        next_offset: u64,
        /// It has no newline and never will.
        torn: bool,
    },
    /// The file shrank; reading goes on at its beginning.
    Truncated {
        /// Its size.
        size: u64,
    },
    /// The name is another file now.
    Replaced,
    /// Bytes from here on cannot be had any more.
    Gap {
        /// First byte.
        from: u64,
        /// Closed name: `FILE_GONE`, `GUARD_MISMATCH`, `SHORTER`, `UNSPECIFIED`.
        reason: &'static str,
    },
    /// The name is gone; the tail waits for it.
    Removed,
    /// How far the tail is; every 5 s and at the first end of file.
    Progress {
        /// Offset reached.
        offset: u64,
        /// Size of the file.
        size: u64,
        /// Everything was sent.
        at_eof: bool,
    },
    /// Everything up to the run's end was sent (or, without `follow`, what was there).
    End {
        /// Offset of the end.
        offset: u64,
        /// Bytes after it.
        late_bytes: u64,
    },
}

/// A byte range to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCall {
    /// Which file.
    pub file: FileRef,
    /// First byte; negative = from the end.
    pub offset: i64,
    /// Bytes; `None` = to the end.
    pub length: Option<u64>,
}

/// Pieces of a file, pulled one by one.
pub type ReadStream = Pin<Box<dyn Stream<Item = Result<ReadChunk, Fault>> + Send>>;

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadChunk {
    /// Offset in the file.
    pub offset: u64,
    /// At most 256 KiB.
    pub data: Bytes,
    /// Size of the file when it was opened; in the first piece.
    pub file_size: Option<u64>,
}

/// What a name in a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Something that this version does not know.
    Unknown,
    /// Regular file.
    File,
    /// Folder.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Device.
    Device,
}

/// One name of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Name; invalid bytes replaced.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Last change of its content.
    pub modified_at: Option<Timestamp>,
    /// Permission bits.
    pub mode: u32,
    /// Where a link points to; empty for others.
    pub link_target: String,
}

/// A file, described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub info: FileInfo,
    /// Path with links resolved.
    pub resolved: String,
}
