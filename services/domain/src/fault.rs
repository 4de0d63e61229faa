//! The closed error taxonomy. Transport-free; `proto` has the one table to gRPC status.

use std::{collections::BTreeMap, fmt};

/// Coarse class of a fault: what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request can never succeed as it stands.
    Invalid,
    /// The thing does not exist.
    NotFound,
    /// It exists already.
    AlreadyExists,
    /// The state of the thing does not allow it.
    Conflict,
    /// The caller's view is too old.
    Stale,
    /// The caller may not.
    Denied,
    /// The caller did not say who it is.
    Unauthenticated,
    /// A bound was reached; later may succeed.
    Exhausted,
    /// Something that is needed cannot be reached; later may succeed.
    Unavailable,
    /// The history that was asked for is gone.
    Compacted,
    /// This version does not offer it.
    Unsupported,
    /// The caller's deadline came first.
    Deadline,
    /// A defect of ours; details stand in the log under the reference.
    Internal,
}

macro_rules! reasons {
    ($($name:ident $text:literal $kind:ident),* $(,)?) => {
        /// Why, by a name that programs branch on. Append-only.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The class.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }

            /// The reason with this name.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

reasons! {
    Invalid "INVALID" Invalid,
    MissingField "MISSING_FIELD" Invalid,
    InvalidId "INVALID_ID" Invalid,
    InvalidTitle "INVALID_TITLE" Invalid,
    InvalidPhase "INVALID_PHASE" Invalid,
    InvalidPath "INVALID_PATH" Invalid,
    UnknownField "UNKNOWN_FIELD" Invalid,
    BadPageToken "BAD_PAGE_TOKEN" Invalid,
    BadCursor "BAD_CURSOR" Invalid,
    MultilineText "MULTILINE_TEXT" Invalid,
    NotALine "NOT_A_LINE" Invalid,
    MessageTooLarge "MESSAGE_TOO_LARGE" Invalid,
    FileTooLarge "FILE_TOO_LARGE" Invalid,
    ChecksumMismatch "CHECKSUM_MISMATCH" Invalid,
    CwdRequired "CWD_REQUIRED" Invalid,
    CwdMissing "CWD_MISSING" Conflict,
    ProgramNotFound "PROGRAM_NOT_FOUND" Conflict,
    NotExecutable "NOT_EXECUTABLE" Conflict,
    SpawnFailed "SPAWN_FAILED" Conflict,
    SessionNotFound "SESSION_NOT_FOUND" NotFound,
    TaskNotFound "TASK_NOT_FOUND" NotFound,
    MessageNotFound "MESSAGE_NOT_FOUND" NotFound,
    InteractionNotFound "INTERACTION_NOT_FOUND" NotFound,
    HostNotFound "HOST_NOT_FOUND" NotFound,
    RunNotFound "RUN_NOT_FOUND" NotFound,
    NotFound "NOT_FOUND" NotFound,
    AmbiguousId "AMBIGUOUS_ID" Invalid,
    KeyReused "KEY_REUSED" AlreadyExists,
    VersionMismatch "VERSION_MISMATCH" Conflict,
    SlotOccupied "SLOT_OCCUPIED" Conflict,
    RunEnded "RUN_ENDED" Conflict,
    SessionAlive "SESSION_ALIVE" Conflict,
    AlreadyWritten "ALREADY_WRITTEN" Conflict,
    AlreadyAnswered "ALREADY_ANSWERED" Conflict,
    StdinClosed "STDIN_CLOSED" Conflict,
    StdinHeld "STDIN_HELD" Conflict,
    NoKeeper "NO_KEEPER" Conflict,
    NoReader "NO_READER" Conflict,
    NotAFifo "NOT_A_FIFO" Conflict,
    NotAFile "NOT_A_FILE" Conflict,
    NotADirectory "NOT_A_DIRECTORY" Conflict,
    EpochStale "EPOCH_STALE" Stale,
    OutsideRoots "OUTSIDE_ROOTS" Denied,
    HiddenPath "HIDDEN_PATH" Denied,
    ProtectedPath "PROTECTED_PATH" Denied,
    PermissionDenied "PERMISSION_DENIED" Denied,
    Unauthenticated "UNAUTHENTICATED" Unauthenticated,
    QueueFull "QUEUE_FULL" Exhausted,
    DeliveryLimit "DELIVERY_LIMIT" Exhausted,
    StreamLimit "STREAM_LIMIT" Exhausted,
    SubscriptionLimit "SUBSCRIPTION_LIMIT" Exhausted,
    TooManyNames "TOO_MANY_NAMES" Exhausted,
    TooLarge "TOO_LARGE" Exhausted,
    DiskFull "DISK_FULL" Exhausted,
    HostUnreachable "HOST_UNREACHABLE" Unavailable,
    Moved "MOVED" Unavailable,
    NotReady "NOT_READY" Unavailable,
    ShuttingDown "SHUTTING_DOWN" Unavailable,
    StoreUnavailable "STORE_UNAVAILABLE" Unavailable,
    CoordinatorUnreachable "COORDINATOR_UNREACHABLE" Unavailable,
    Incompatible "INCOMPATIBLE" Unsupported,
    Unsupported "UNSUPPORTED" Unsupported,
    RevisionCompacted "REVISION_COMPACTED" Compacted,
    PipeDeadline "PIPE_DEADLINE" Deadline,
    WaitTimeout "WAIT_TIMEOUT" Deadline,
    Cancelled "CANCELLED" Deadline,
    // For what a newer peer names and this version does not know: by class alone.
    AlreadyExists "ALREADY_EXISTS" AlreadyExists,
    Conflict "CONFLICT" Conflict,
    Exhausted "EXHAUSTED" Exhausted,
    Unavailable "UNAVAILABLE" Unavailable,
    Deadline "DEADLINE" Deadline,
    Internal "INTERNAL" Internal,
}

/// What went wrong, for a program (`reason`, `metadata`) and for a person (`message`, `hint`).
///
/// The internal cause is for the log alone: it never reaches the wire, and `Display` does
/// not show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    reason: Reason,
    message: String,
    hint: Option<String>,
    metadata: BTreeMap<String, String>,
    internal: Option<String>,
}

impl Fault {
    /// A fault with its text for people: what and why, no final period.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            hint: None,
            metadata: BTreeMap::new(),
            internal: None,
        }
    }

    /// A defect of ours. `cause` goes to the log only.
    pub fn internal(cause: impl fmt::Display) -> Self {
        Self::new(Reason::Internal, "internal error").with_internal(cause)
    }

    /// A required field is missing.
    pub fn missing(field: &'static str) -> Self {
        Self::new(Reason::MissingField, format!("`{field}` is required")).with("field", field)
    }

    /// A field has a value that it cannot have.
    pub fn invalid(field: &'static str, why: impl fmt::Display) -> Self {
        Self::new(Reason::Invalid, format!("`{field}`: {why}")).with("field", field)
    }

    /// This version does not offer it.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(Reason::Unsupported, format!("{what} is not supported"))
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a value for programs.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.metadata.insert(key.to_owned(), value.to_string());
        self
    }

    /// Adds the cause for the log.
    #[must_use]
    pub fn with_internal(mut self, cause: impl fmt::Display) -> Self {
        self.internal = Some(cause.to_string());
        self
    }

    /// Why, for programs.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The class of the reason.
    pub fn kind(&self) -> Kind {
        self.reason.kind()
    }

    /// Text for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Values for programs.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The cause, for the log.
    pub fn cause(&self) -> Option<&str> {
        self.internal.as_deref()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_found_by_its_name() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
        }
        assert_eq!(Reason::parse("NO_SUCH_REASON"), None);
    }

    #[test]
    fn the_internal_cause_is_not_shown() {
        let fault = Fault::internal("secret path");
        assert_eq!(fault.to_string(), "internal error");
        assert_eq!(fault.cause(), Some("secret path"));
    }
}
