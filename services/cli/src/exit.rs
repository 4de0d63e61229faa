//! How a command ends: one table from faults to exit codes.

use std::process::ExitCode;

use muster_client::{Fault, Kind, Reason, Unsettled};

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
        }
    }

    /// Nobody reads what is printed: not worth a word.
    pub(crate) fn nobody_reads() -> Self {
        Self {
            code: 0,
            text: String::new(),
            hint: None,
            quiet: true,
        }
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

    /// Says what went wrong on standard error and gives the code.
    pub(crate) fn report(&self) -> ExitCode {
        match (self.quiet, self.text.as_str()) {
            (false, text) => out::complain(text, self.hint.as_deref()),
            (true, "") => {}
            (true, text) => out::note(text),
        }
        ExitCode::from(self.code)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let candidates = fault.metadata().contains_key("candidates");
        let own = fault.hint().filter(|_| !candidates).map(str::to_owned);
        let hint = own.or_else(|| default_hint(&fault));
        Self {
            code: code(&fault),
            text: fault.message().to_owned(),
            hint,
            quiet: false,
        }
    }
}

impl From<Unsettled> for Failure {
    fn from(unsettled: Unsettled) -> Self {
        match unsettled {
            Unsettled::Refused(fault) => fault.into(),
            Unsettled::NotAccepted(fault) if fault.reason() == Reason::StoreUnavailable => {
                let text = format!("not accepted: {fault}");
                Self::with_code(NO_COORDINATOR, text)
                    .hint("the disk of the data folder may be full; its log says why")
            }
            other => Fault::from(other).into(),
        }
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
}
