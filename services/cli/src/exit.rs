//! How a command ends: one table from faults to exit codes.

use std::{collections::BTreeMap, process::ExitCode};

use muster_client::{Fault, Kind, Reason, Unsettled};
use serde_json::{Value, json};

use crate::out;

/// The operation failed.
pub(crate) const FAILED: u8 = 1;
/// Wrong usage, or a request that can never work.
pub(crate) const USAGE: u8 = 2;
/// Not found.
pub(crate) const NOT_FOUND: u8 = 3;
/// Refused: conflict, occupied, precondition.
pub(crate) const REFUSED: u8 = 4;
/// The coordinator is not reachable.
pub(crate) const NO_COORDINATOR: u8 = 5;
/// The host is not reachable.
pub(crate) const NO_HOST: u8 = 6;
/// `run`: Muster itself failed.
pub(crate) const RUN_FAILED: u8 = 125;
/// `run`: the program cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `run`: there is no such program.
pub(crate) const NO_PROGRAM: u8 = 127;
/// `run`: its standard output was closed (128 + SIGPIPE).
pub(crate) const NOBODY_READS: u8 = 141;
/// Interrupted.
pub(crate) const INTERRUPTED: u8 = 130;

/// A command that did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
    hint: Option<String>,
    quiet: bool,
    /// Apart, since failures are passed on by value.
    details: Box<Details>,
}

#[derive(Debug, Default)]
struct Details {
    /// Stable name, for programs.
    reason: String,
    /// How the command is typed.
    usage: Option<String>,
    metadata: BTreeMap<String, String>,
}

impl Failure {
    /// The operation failed.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::with_code(FAILED, text)
    }

    /// Wrong usage.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::with_code(USAGE, text)
    }

    /// Ends with this code.
    pub(crate) fn with_code(code: u8, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            hint: None,
            quiet: false,
            details: Box::new(Details {
                reason: reason(code).to_owned(),
                ..Details::default()
            }),
        }
    }

    /// Nobody reads what is printed: not worth a word.
    pub(crate) fn nobody_reads() -> Self {
        Self {
            quiet: true,
            ..Self::with_code(0, String::new())
        }
    }

    /// A more precise name than that of the exit code.
    pub(crate) fn reason(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.details.reason);
        self
    }

    /// Adds how the command is typed.
    pub(crate) fn usage_line(mut self, usage: Option<String>) -> Self {
        self.details.usage = usage;
        self
    }

    /// Adds a value for programs.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.details
            .metadata
            .insert(key.to_owned(), value.to_string());
        self
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure with `code` unless the command was wrongly used or refused to print.
    pub(crate) fn in_run(mut self) -> Self {
        if self.quiet {
            // As a program that is ended by SIGPIPE.
            self.code = NOBODY_READS;
            "nobody reads the output; the session goes on".clone_into(&mut self.text);
            return self;
        }
        if self.code != INTERRUPTED {
            self.code = RUN_FAILED;
        }
        self
    }

    /// Says what went wrong on standard error, as it was asked for, and gives the code.
    pub(crate) fn report(&self) -> ExitCode {
        match (self.quiet, self.text.as_str()) {
            (false, _) if out::is_json() => out::aloud(&self.document().to_string()),
            (false, _) => out::aloud(self.words().trim_end()),
            (true, "") => {}
            (true, text) => out::aloud(text),
        }
        ExitCode::from(self.code)
    }

    /// For people: what, what to do about it, how it is typed.
    pub(crate) fn words(&self) -> String {
        let mut words = format!("error: {}\n", self.text);
        for (name, line) in [("hint", &self.hint), ("usage", &self.details.usage)] {
            if let Some(line) = line {
                words.push_str(&format!("{name}: {line}\n"));
            }
        }
        words
    }

    /// For programs: every field is always there.
    fn document(&self) -> Value {
        json!({ "error": {
            "reason": self.details.reason,
            "message": self.text,
            "hint": self.hint.as_deref().unwrap_or_default(),
            "usage": self.details.usage.as_deref().unwrap_or_default(),
            "exit_code": self.code,
            "metadata": self.details.metadata,
        } })
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let candidates = fault.metadata().contains_key("candidates");
        let own = fault.hint().filter(|_| !candidates).map(str::to_owned);
        let hint = own.or_else(|| default_hint(&fault));
        let mut failure =
            Self::with_code(code(&fault), fault.message()).reason(fault.reason().as_str());
        failure.hint = hint;
        failure.details.metadata = fault.metadata().clone();
        failure
    }
}

impl From<Unsettled> for Failure {
    fn from(unsettled: Unsettled) -> Self {
        match unsettled {
            Unsettled::Refused(fault) => fault.into(),
            Unsettled::NotAccepted(fault) if fault.reason() == Reason::StoreUnavailable => {
                let text = format!("not accepted: {fault}");
                Self::with_code(NO_COORDINATOR, text)
                    .reason(fault.reason().as_str())
                    .hint("the disk of the data folder may be full; its log says why")
            }
            other => Fault::from(other).into(),
        }
    }
}

/// The name of a failure that has no fault behind it.
fn reason(code: u8) -> &'static str {
    match code {
        USAGE => "USAGE",
        NOT_FOUND => "NOT_FOUND",
        REFUSED => "REFUSED",
        NO_COORDINATOR => "COORDINATOR_UNREACHABLE",
        NO_HOST => "HOST_UNREACHABLE",
        RUN_FAILED => "RUN_FAILED",
        NOT_EXECUTABLE => "NOT_EXECUTABLE",
        NO_PROGRAM => "PROGRAM_NOT_FOUND",
        INTERRUPTED => "INTERRUPTED",
        _ => "FAILED",
    }
}

fn code(fault: &Fault) -> u8 {
    match (fault.reason(), fault.kind()) {
        (Reason::HostUnreachable, _) => NO_HOST,
        (Reason::CoordinatorUnreachable, _) | (_, Kind::Unavailable) => NO_COORDINATOR,
        (_, Kind::Invalid) => USAGE,
        (_, Kind::NotFound) => NOT_FOUND,
        (
            _,
            Kind::AlreadyExists
            | Kind::Conflict
            | Kind::Stale
            | Kind::Denied
            | Kind::Unauthenticated
            | Kind::Exhausted,
        ) => REFUSED,
        (_, Kind::Compacted | Kind::Unsupported | Kind::Deadline | Kind::Internal) => FAILED,
    }
}

fn default_hint(fault: &Fault) -> Option<String> {
    if let Some(candidates) = fault.metadata().get("candidates") {
        return Some(format!("one of {}", candidates.replace(',', ", ")));
    }
    let hint = match fault.reason() {
        Reason::CoordinatorUnreachable => "`muster up --detach` starts the coordinator",
        Reason::HostUnreachable => "`muster status` shows the hosts and why one is not reached",
        Reason::SessionNotFound | Reason::AmbiguousId | Reason::InvalidId => {
            "`muster session ls` lists the sessions"
        }
        Reason::TaskNotFound => "`muster task ls` lists the tasks",
        Reason::AlreadyWritten => {
            "only what still waits can be taken back; `muster queue` shows it"
        }
        Reason::MessageNotFound => "`muster queue` shows what waits, `muster send` told the id",
        Reason::RunNotFound => "`muster session show` tells which run is the latest",
        Reason::BadCursor => {
            "a cursor is in a run, at or before its end; `--from start` and `--from end` always work"
        }
        Reason::HostNotFound => "`muster status` lists the hosts",
        _ => return None,
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_the_documented_codes() {
        let table = [
            (Reason::MultilineText, USAGE),
            (Reason::SessionNotFound, NOT_FOUND),
            (Reason::RunEnded, REFUSED),
            (Reason::KeyReused, REFUSED),
            (Reason::SlotOccupied, REFUSED),
            (Reason::CoordinatorUnreachable, NO_COORDINATOR),
            (Reason::HostUnreachable, NO_HOST),
            (Reason::Internal, FAILED),
            (Reason::WaitTimeout, FAILED),
        ];
        for (reason, expected) in table {
            assert_eq!(code(&Fault::new(reason, "x")), expected, "{reason:?}");
        }
    }

    #[test]
    fn run_keeps_125_for_itself() {
        let failure = Failure::from(Fault::new(Reason::CwdMissing, "x")).in_run();
        assert_eq!(failure.code, RUN_FAILED);
        assert_eq!(
            Failure::with_code(INTERRUPTED, "x").in_run().code,
            INTERRUPTED
        );
    }

    #[test]
    fn failures_are_one_document_for_programs_and_lines_for_people() {
        let fault = Fault::new(Reason::RunEnded, "the run has ended").with("run", 2);
        let failure = Failure::from(fault).hint("resume it");
        assert_eq!(
            failure.document(),
            json!({"error": {
                "reason": "RUN_ENDED", "message": "the run has ended", "hint": "resume it",
                "usage": "", "exit_code": 4, "metadata": {"run": "2"}
            }})
        );
        assert_eq!(
            failure.words(),
            "error: the run has ended\nhint: resume it\n"
        );
        let plain = Failure::usage("no").document();
        assert_eq!(plain["error"]["reason"], "USAGE");
        assert_eq!(plain["error"]["hint"], "");
    }
}
