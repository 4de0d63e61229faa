//! The one table between [`Fault`] and [`Status`].
//!
//! Every error of our servers carries a `google.rpc.ErrorInfo` with the fault's reason in
//! domain `muster`; clients branch on that, never on text. A status without one was not
//! made by a Muster server: it is a failure of the link, or of the library's own.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error as _,
};

use muster_domain::{
    Fault, Reason,
    fault::Kind,
    limits::{ERROR_METADATA_BYTES, ERROR_RETRY_AFTER, ERROR_TEXT_BYTES},
};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Domain of all our reasons in `ErrorInfo`.
pub const DOMAIN: &str = "muster";

/// Key under which an internal fault carries the reference into the log.
pub const REFERENCE: &str = "reference";

/// Key under which a fault keeps the reason of a peer that is newer than this version.
pub const UNKNOWN_REASON: &str = "unknown_reason";

/// Bytes that an entry costs besides its texts.
const ENTRY_BYTES: usize = 16;

const STDERR_TAIL: &str = "stderr_tail";

/// What a generated client's call gives, for those who pass it on without looking.
pub type Called<T> = Result<tonic::Response<T>, Status>;

/// The status code of a reason.
pub fn code(reason: Reason) -> Code {
    match (reason, reason.kind()) {
        (Reason::VersionMismatch, _) => Code::Aborted,
        (Reason::Cancelled, _) => Code::Cancelled,
        (_, Kind::Invalid) => Code::InvalidArgument,
        (_, Kind::NotFound) => Code::NotFound,
        (_, Kind::AlreadyExists) => Code::AlreadyExists,
        (_, Kind::Conflict | Kind::Stale) => Code::FailedPrecondition,
        (_, Kind::Denied) => Code::PermissionDenied,
        (_, Kind::Unauthenticated) => Code::Unauthenticated,
        (_, Kind::Exhausted) => Code::ResourceExhausted,
        (_, Kind::Unavailable) => Code::Unavailable,
        (_, Kind::Compacted) => Code::OutOfRange,
        (_, Kind::Unsupported) => Code::Unimplemented,
        (_, Kind::Deadline) => Code::DeadlineExceeded,
        (_, Kind::Internal) => Code::Internal,
    }
}

/// What a defect is called on the wire and in the log, so that the two can be brought
/// together: from the cause alone, the same every time. `None` for other faults.
pub fn reference(fault: &Fault) -> Option<String> {
    if fault.reason() != Reason::Internal {
        return None;
    }
    if let Some(reference) = fault.metadata().get(REFERENCE) {
        return Some(reference.clone());
    }
    // FNV-1a: it must not change between builds, and guards nothing.
    let hash = fault
        .cause()
        .unwrap_or(fault.message())
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    Some(format!("{hash:016x}"))
}

/// The status that tells this fault. Of an internal fault only the [`reference()`] goes out.
/// Texts are cut to their limits.
pub fn into_status(fault: &Fault) -> Status {
    let reason = fault.reason();
    if let Some(reference) = reference(fault) {
        let metadata = [(REFERENCE.to_owned(), cut(&reference, ERROR_TEXT_BYTES))];
        let details = ErrorDetails::with_error_info(reason.as_str(), DOMAIN, metadata);
        return Status::with_error_details(Code::Internal, "internal error", details);
    }
    let mut details =
        ErrorDetails::with_error_info(reason.as_str(), DOMAIN, bounded(fault.metadata()));
    if let Some(hint) = fault.hint() {
        details.set_localized_message("en", cut(hint, ERROR_TEXT_BYTES));
    }
    if matches!(reason.kind(), Kind::Exhausted | Kind::Unavailable) {
        details.set_retry_info(Some(ERROR_RETRY_AFTER));
    }
    Status::with_error_details(
        code(reason),
        cut(fault.message(), ERROR_TEXT_BYTES),
        details,
    )
}

/// The status of a message above a size limit; `text` names the sizes.
pub fn too_large(text: &str) -> Status {
    into_status(&Fault::new(Reason::TooLarge, text))
}

/// The fault that a status from any peer tells. Failures of the link get `UNAVAILABLE`.
pub fn from_status(status: &Status) -> Fault {
    from_peer(status, Reason::Unavailable)
}

/// The fault that a status from a host agent tells. Failures of the link get
/// `HOST_UNREACHABLE`.
pub fn from_agent(status: &Status) -> Fault {
    from_peer(status, Reason::HostUnreachable)
}

/// The fault that a status from the coordinator tells. Failures of the link get
/// `COORDINATOR_UNREACHABLE`.
pub fn from_coordinator(status: &Status) -> Fault {
    from_peer(status, Reason::CoordinatorUnreachable)
}

/// Whether a Muster server answered this: it has our `ErrorInfo`. Everything else was made
/// on the way, and says nothing about what the server did.
pub fn is_answer(status: &Status) -> bool {
    status
        .get_details_error_info()
        .is_some_and(|info| info.domain == DOMAIN)
}

fn from_peer(status: &Status, unreachable: Reason) -> Fault {
    let details = status.get_error_details();
    let Some(info) = details.error_info().filter(|info| info.domain == DOMAIN) else {
        return without_info(status, unreachable);
    };
    let (reason, known) = match Reason::parse(&info.reason) {
        Some(reason) => (reason, true),
        None => (by_code(status.code()), false),
    };
    let mut fault = Fault::new(reason, status.message());
    for (key, value) in &info.metadata {
        fault = fault.with(key, value);
    }
    if !known {
        fault = fault.with(UNKNOWN_REASON, cut(&info.reason, ERROR_TEXT_BYTES));
    }
    if let Some(hint) = details.localized_message() {
        fault = fault.with_hint(hint.message.clone());
    }
    fault
}

fn without_info(status: &Status, unreachable: Reason) -> Fault {
    let text = cut(status.message(), ERROR_TEXT_BYTES);
    let cut_link = || Fault::new(unreachable, "the connection failed").with_internal(chain(status));
    match status.code() {
        // Only the library says this of its own accord: a message is above its size limit.
        Code::OutOfRange => Fault::new(Reason::TooLarge, text),
        Code::Cancelled if text.contains("Timeout expired") => {
            Fault::new(Reason::Deadline, "the call's deadline came first")
        }
        // What the library reads from a broken connection has its cause as source.
        Code::Internal if status.source().is_none() => Fault::internal(text),
        Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled => cut_link(),
        code => Fault::new(by_code(code), text),
    }
}

fn by_code(code: Code) -> Reason {
    match code {
        Code::InvalidArgument => Reason::Invalid,
        Code::NotFound => Reason::NotFound,
        Code::AlreadyExists => Reason::AlreadyExists,
        Code::FailedPrecondition => Reason::Conflict,
        Code::Aborted => Reason::VersionMismatch,
        Code::PermissionDenied => Reason::PermissionDenied,
        Code::Unauthenticated => Reason::Unauthenticated,
        Code::ResourceExhausted => Reason::Exhausted,
        Code::Unavailable => Reason::Unavailable,
        Code::OutOfRange => Reason::RevisionCompacted,
        Code::Unimplemented => Reason::Unsupported,
        Code::DeadlineExceeded => Reason::Deadline,
        Code::Cancelled => Reason::Cancelled,
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => Reason::Internal,
    }
}

/// As many whole entries as fit; the first that does not fit is cut.
fn bounded(metadata: &BTreeMap<String, String>) -> HashMap<String, String> {
    let mut left = ERROR_METADATA_BYTES;
    // The tail of stderr takes what the others leave.
    let (tail, others): (Vec<_>, Vec<_>) =
        metadata.iter().partition(|(key, _)| *key == STDERR_TAIL);
    let mut kept = HashMap::new();
    for (key, value) in others.into_iter().chain(tail) {
        let cost = key.len() + ENTRY_BYTES;
        if cost >= left {
            continue;
        }
        left -= cost;
        let value = if key == STDERR_TAIL {
            cut_front(value, left)
        } else {
            cut(value, left)
        };
        left -= value.len();
        kept.insert(key.clone(), value);
    }
    kept
}

fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

fn cut_front(text: &str, bytes: usize) -> String {
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    text[from..].to_owned()
}

fn chain(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = status.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What HTTP/2 peers take of a header list, less what the call's own headers need.
    const HEADER_BYTES: usize = 15 * 1024;

    fn wire_bytes(status: &Status) -> usize {
        let mut headers = tonic::codegen::http::HeaderMap::new();
        status.add_header(&mut headers).unwrap();
        headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 32)
            .sum()
    }

    fn over_the_wire(status: &Status) -> Status {
        let mut headers = tonic::codegen::http::HeaderMap::new();
        status.add_header(&mut headers).unwrap();
        Status::from_header_map(&headers).unwrap()
    }

    #[test]
    fn only_compaction_is_out_of_range() {
        for reason in Reason::ALL {
            assert_eq!(
                code(*reason) == Code::OutOfRange,
                *reason == Reason::RevisionCompacted
            );
            assert_ne!(code(*reason), Code::Ok);
        }
    }

    #[test]
    fn a_defect_sends_its_reference_alone() {
        let fault = Fault::internal("row 7 of /secret/path").with("path", "/secret/path");
        let status = into_status(&fault);
        assert!(!format!("{status:?}").contains("secret"), "{status:?}");
        let back = from_status(&over_the_wire(&status));
        assert_eq!(back.reason(), Reason::Internal);
        assert_eq!(back.metadata().get(REFERENCE), reference(&fault).as_ref());
        // Passed on by a coordinator, it stays findable in the log of the agent.
        assert_eq!(reference(&back), reference(&fault));
    }

    #[test]
    fn the_library_s_size_limit_is_no_compaction() {
        let fault = from_status(&Status::out_of_range("message length too large"));
        assert_eq!(fault.reason(), Reason::TooLarge);
    }

    #[test]
    fn h4_a_failed_link_says_which_end_is_missing() {
        let status = Status::unavailable("tcp connect error");
        assert!(!is_answer(&status));
        assert_eq!(from_agent(&status).reason(), Reason::HostUnreachable);
        assert_eq!(
            from_coordinator(&status).reason(),
            Reason::CoordinatorUnreachable
        );
        let cut = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert_eq!(from_agent(&cut).reason(), Reason::HostUnreachable);
    }

    #[test]
    fn a_newer_reason_is_kept_and_read_by_its_code() {
        let details = ErrorDetails::with_error_info("FROM_THE_FUTURE", DOMAIN, []);
        let status = Status::with_error_details(Code::FailedPrecondition, "no", details);
        let fault = from_status(&over_the_wire(&status));
        assert_eq!(fault.reason(), Reason::Conflict);
        assert_eq!(fault.metadata()[UNKNOWN_REASON], "FROM_THE_FUTURE");
    }

    #[test]
    fn the_end_of_stderr_is_what_stays() {
        let text = format!("{}the cause", "x".repeat(64 * 1024));
        let fault = Fault::new(Reason::SpawnFailed, "no").with(STDERR_TAIL, text);
        let back = from_status(&over_the_wire(&into_status(&fault)));
        assert!(back.metadata()[STDERR_TAIL].ends_with("the cause"));
    }

    proptest! {
        #[test]
        fn every_fault_comes_back_as_it_was(
            at in 0..Reason::ALL.len(),
            message in "[ -~äß€]{0,80}",
            hint in proptest::option::of(".{0,80}"),
            metadata in proptest::collection::btree_map("[a-z_]{1,12}", ".{0,40}", 0..6),
        ) {
            let reason = Reason::ALL[at];
            prop_assume!(reason != Reason::Internal);
            let mut fault = Fault::new(reason, message);
            if let Some(hint) = hint {
                fault = fault.with_hint(hint);
            }
            for (key, value) in metadata {
                fault = fault.with(&key, value);
            }
            prop_assert_eq!(from_status(&over_the_wire(&into_status(&fault))), fault);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn no_fault_is_too_long_for_the_header_list(
            message in "(a|€|\u{1}|%){0,9000}",
            hint in "(a|€){0,9000}",
            metadata in proptest::collection::btree_map("[a-z]{1,2000}", "(a|€){0,9000}", 0..12),
        ) {
            let mut fault = Fault::new(Reason::Unavailable, message).with_hint(hint);
            for (key, value) in metadata {
                fault = fault.with(&key, value);
            }
            let status = into_status(&fault);
            prop_assert!(wire_bytes(&status) <= HEADER_BYTES, "{}", wire_bytes(&status));
            prop_assert_eq!(from_status(&over_the_wire(&status)).reason(), Reason::Unavailable);
        }
    }
}
