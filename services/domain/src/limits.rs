//! Every bound of the system, in one place. The docs quote these.

use std::time::Duration;

/// One KiB.
pub const KIB: u64 = 1024;
/// One MiB.
pub const MIB: u64 = 1024 * KIB;

/// Longest text of a message, in bytes (S3).
pub const MESSAGE_TEXT_BYTES: usize = 1024 * 1024;
/// Longest client key, in bytes (S14).
pub const CLIENT_KEY_BYTES: usize = 128;
/// Messages of people that may wait in one session (S14).
pub const WAITING_HUMAN_MESSAGES: usize = 1_000;
/// Messages of agents that may wait in one session (S14).
pub const WAITING_AGENT_MESSAGES: usize = 256;
/// Longest title, in characters, that is made from a message (S1).
pub const DERIVED_TITLE_CHARS: usize = 60;
/// Longest title of a task, in characters.
pub const TASK_TITLE_CHARS: usize = 500;
/// Longest text of a task, in bytes.
pub const TASK_TEXT_BYTES: usize = 256 * 1024;
/// Sessions that a task remembers; the oldest are forgotten first.
pub const TASK_SESSIONS: usize = 100;
/// Longest category or project name, in bytes.
pub const NAME_BYTES: usize = 128;
/// Bytes of program arguments and environment together.
pub const ARGV_BYTES: usize = 512 * 1024;
/// Longest working directory, in bytes.
pub const PATH_BYTES: usize = 4_096;

/// Bytes of one `output` message (S22).
pub const OUTPUT_MESSAGE_BYTES: u64 = 64 * KIB;
/// `output` messages of a run whose text is stored; later ones are references (S22).
pub const OUTPUT_MESSAGES_STORED: u32 = 16;
/// Longest line that a tail sends in pieces; longer ones come by reference.
pub const LINE_BYTES: u64 = MIB;
/// Longest line that is parsed at all; above it the line is opaque.
pub const SCANNED_LINE_BYTES: u64 = 256 * MIB;
/// Longest string that a scanned line keeps; longer ones become references.
pub const SCANNED_STRING_BYTES: usize = 64 * 1024;
/// Nesting of a scanned line; a deeper one counts as damaged.
pub const SCANNED_DEPTH: usize = 128;
/// Values of a scanned line; one with more is opaque.
pub const SCANNED_VALUES: usize = 65_536;
/// Text that a scanned line keeps in all; beyond it strings become references.
pub const SCANNED_KEPT_BYTES: usize = 4 * 1024 * 1024;
/// stderr kept in the row of a run (S29).
pub const STDERR_TAIL_BYTES: usize = 8 * 1024;

/// Frame of a byte stream, in bytes.
pub const FRAME_BYTES: usize = 64 * 1024;
/// Largest frame of a byte stream, in bytes.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a file's head that identify it.
pub const HEAD_BYTES: usize = 4_096;
/// Bytes before a cursor that guard it (R1).
pub const GUARD_BYTES: usize = 256;
/// A tail that is this far behind yields to live ones.
pub const CATCH_UP_BYTES: u64 = 4 * MIB;
/// Names that a folder listing sorts.
pub const LISTED_NAMES: usize = 200_000;
/// Bytes that Files.Head answers at most.
pub const FILE_HEAD_BYTES: u32 = 1024 * 1024;
/// Largest file that Files.Write takes.
pub const FILE_WRITE_BYTES: u64 = 256 * MIB;
/// Data of one Pipes.Write.
pub const PIPE_WRITE_BYTES: usize = 1024 * 1024;
/// Longest deadline of one Pipes.Write.
pub const PIPE_WRITE_DEADLINE: Duration = Duration::from_secs(30);

/// Largest frame of the keeper protocol.
pub const KEEPER_FRAME_BYTES: usize = 1024 * 1024;
/// Payloads above this go to the keeper as a spool file.
pub const KEEPER_INLINE_BYTES: usize = 256 * 1024;
/// Connections that a keeper serves at once.
pub const KEEPER_CONNECTIONS: usize = 16;
/// Largest payload of one delivery.
pub const DELIVERY_BYTES: usize = MESSAGE_TEXT_BYTES + 64 * 1024;
/// Unread bytes of a program's stdin whose messages are looked for: the largest pipe that
/// users can make.
pub const UNREAD_BYTES: u64 = MIB;
/// How long one Deliver call waits.
pub const DELIVER_WAIT: Duration = Duration::from_secs(2);
/// Deliver calls of one host at once.
pub const DELIVERIES_AT_ONCE: usize = 32;

/// Largest gRPC message that is sent; decoders stand 64 KiB above.
pub const GRPC_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// Decoding limit of gRPC messages.
pub const GRPC_DECODE_BYTES: usize = GRPC_MESSAGE_BYTES + 64 * 1024;
/// Bytes of an error's text, and of its hint, on the wire; longer ones are cut. A header
/// list above 16 KiB would lose the whole answer, and texts count up to fourfold there.
pub const ERROR_TEXT_BYTES: usize = 1024;
/// Bytes of all of an error's values for programs on the wire; longer ones are cut.
pub const ERROR_METADATA_BYTES: usize = 4 * 1024;
/// When a caller may try again after a bound was reached or something was unavailable.
pub const ERROR_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Streams that a server's HTTP/2 settings allow on one connection.
pub const SERVER_STREAMS: u32 = 272;
/// Server streams that a server admits at once on one connection.
pub const ADMITTED_STREAMS: usize = 256;
/// Rows of a page where the caller names none.
pub const PAGE_DEFAULT: u32 = 100;
/// Rows of a page at most.
pub const PAGE_MAX: u32 = 1_000;
/// Names of a folder page where the caller names none.
pub const FILE_PAGE_DEFAULT: u32 = 1_000;
/// Names of a folder page at most.
pub const FILE_PAGE_MAX: u32 = 5_000;

/// Beat of a link (H4).
pub const BEAT: Duration = Duration::from_secs(2);
/// Silence after which a link is suspect.
pub const SUSPECT_AFTER: Duration = Duration::from_secs(5);
/// Silence after which a link is unreachable.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(20);
/// Longest wait between two attempts to reach a host.
pub const RECONNECT_CAP: Duration = Duration::from_secs(30);
/// Wait after a failed authentication.
pub const RECONNECT_AFTER_AUTH: Duration = Duration::from_secs(600);

/// Changesets of one group commit.
pub const COMMIT_GROUP: usize = 64;
/// How long a group commit waits for company.
pub const COMMIT_WAIT: Duration = Duration::from_millis(5);
/// Changesets that wait for the store's writer; more wait at their callers.
pub const COMMIT_QUEUE: usize = 256;
/// Rows and texts of one page that the store gives, in bytes, the first row excepted.
pub const STORE_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// Outbox rows that one prune removes.
pub const PRUNE_ROWS: u32 = 10_000;
/// How long a reader waits for one of the store's connections.
pub const STORE_READ_WAIT: Duration = Duration::from_secs(10);
/// Connections of the store that read.
pub const STORE_READERS: u32 = 4;
/// How long folded output may wait for its commit without a boundary (R2).
pub const FLUSH_AFTER: Duration = Duration::from_secs(1);
/// Shortest time between two publications of one growing message (F16).
pub const PREVIEW_EVERY: Duration = Duration::from_millis(100);
/// Outbox rows that are kept (F11).
pub const OUTBOX_ROWS: u64 = 1_000_000;
/// How long outbox rows are kept (F11).
pub const OUTBOX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Progress of an idle feed (F8).
pub const FEED_PROGRESS: Duration = Duration::from_secs(10);
/// Events that wait for one feed client before it gets a gap (F12).
pub const FEED_SEMANTIC: usize = 1_024;
/// Sessions that one feed client may have open.
pub const FEED_SESSIONS: usize = 256;

/// Start-up is over at the latest after this.
pub const READY_AFTER: Duration = Duration::from_secs(5);
/// Readiness of a local start (S8).
pub const START_DEADLINE: Duration = Duration::from_secs(60);
/// A client keeps trying an uncertain send for this long (F20).
pub const UNCERTAIN_SEND: Duration = Duration::from_secs(120);
/// How long a client waits for the answer to a call that names no other time.
pub const CLIENT_CALL: Duration = Duration::from_secs(30);
/// How long a client's attempt to connect may take.
pub const CLIENT_CONNECT: Duration = Duration::from_secs(5);
/// A client that tries again waits at most this long between two attempts.
pub const CLIENT_BACKOFF: Duration = Duration::from_secs(2);
/// How long one `WaitMessage` call waits; clients ask again.
pub const WAIT_MESSAGE: Duration = Duration::from_secs(600);
/// An interrupt without effect for this long is reported (S39).
pub const INTERRUPT_EFFECT: Duration = Duration::from_secs(5);
/// Silence after which an active turn is stalled (S32).
pub const STALLED_AFTER: Duration = Duration::from_secs(600);
/// Deepest session tree (S1).
pub const TREE_DEPTH: u32 = 16;
/// Text that waits in one session, in bytes, beside the counts of S14.
pub const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// Folded text that waits for its commit; above it the session's tail is not read.
pub const UNCOMMITTED_BYTES: usize = 1024 * 1024;
/// Messages that wait for their commit; above it the session's tail is not read.
pub const UNCOMMITTED_MESSAGES: usize = 1_024;
/// Final messages whose keys a session's actor remembers; older ones are looked up.
pub const REMEMBERED_MESSAGES: usize = 256;
/// Text of those messages, in bytes, beside their number.
pub const REMEMBERED_BYTES: usize = 4 * 1024 * 1024;
/// Resumes whose keys a session remembers.
pub const REMEMBERED_RESUMES: usize = 64;
/// First wait before a call to a host is made again; doubles.
pub const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Longest wait before a call to a host is made again.
pub const RETRY_CAP: Duration = Duration::from_secs(5);
/// A host that is connected and silent about a run for this long is asked.
pub const ASK_AFTER: Duration = Duration::from_secs(1);
/// Questions about a delivery of an ended run before it counts as unknown.
pub const DELIVERY_QUESTIONS: u32 = 10;
/// Stop ladder of a closable program: wait after the end of its stdin.
pub const STOP_CLOSE_WAIT: Duration = Duration::from_secs(2);
/// Stop ladder: wait after SIGINT.
pub const STOP_INT_WAIT: Duration = Duration::from_secs(3);
/// Stop ladder: wait after SIGTERM.
pub const STOP_TERM_WAIT: Duration = Duration::from_secs(5);
/// Stop ladder: wait after SIGKILL.
pub const STOP_KILL_WAIT: Duration = Duration::from_secs(5);
