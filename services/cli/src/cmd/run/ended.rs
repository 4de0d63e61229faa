//! How `muster run` ends: with the program's own code.

use std::process::ExitCode;

use muster_client::api::{Session, SessionStatus};

use crate::exit::{self, Failure};

/// The session's start failed.
pub(super) fn start_failure(session: &Session) -> Failure {
    let text = if session.failure_text.is_empty() {
        &session.failure_reason
    } else {
        &session.failure_text
    };
    let program = session.argv.first().map_or("", String::as_str);
    let failure = match session.failure_reason.as_str() {
        "PROGRAM_NOT_FOUND" => Failure::with_code(exit::NO_PROGRAM, text).hint(format!(
            "`{program}` is looked up in the PATH of the login shell; an absolute path always works"
        )),
        "NOT_EXECUTABLE" => Failure::with_code(exit::NOT_EXECUTABLE, text).hint(format!(
            "a program is a file that may be executed; `chmod +x {program}` makes a script one"
        )),
        "CWD_MISSING" => Failure::with_code(exit::RUN_FAILED, text)
            .hint("`--cwd DIR` names a folder of that host"),
        _ => Failure::with_code(exit::RUN_FAILED, text).hint(format!(
            "`muster session show {}` has the details",
            session.id
        )),
    };
    failure
        .reason(&session.failure_reason)
        .with("session", &session.id)
}

/// The code of an ended session.
pub(super) fn code(session: &Session) -> Result<ExitCode, Failure> {
    if let Some(code) = session.exit_code {
        // Exit codes have eight bits on the hosts that we run on.
        return Ok(ExitCode::from(
            u8::try_from(code & 0xff).unwrap_or(exit::FAILED),
        ));
    }
    if let Some(signal) = session.exit_signal {
        return Ok(ExitCode::from(
            u8::try_from(128 + signal).unwrap_or(exit::RUN_FAILED),
        ));
    }
    if session.status() == SessionStatus::Failed && !session.failure_reason.is_empty() {
        return Err(start_failure(session));
    }
    let why = match session.lost_reason.as_str() {
        "" => "nobody saw how the program ended".to_owned(),
        "boot" => "the host was started anew; the program is gone".to_owned(),
        reason => format!("nobody saw how the program ended (lost: {reason})"),
    };
    Err(Failure::with_code(exit::RUN_FAILED, why)
        .reason("LOST")
        .with("session", &session.id)
        .hint(format!(
            "`muster session explain {}` says what is known",
            session.id
        )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_run_is_not_a_success() {
        let session = Session {
            lost_reason: "keeper".to_owned(),
            ..Session::default()
        };
        assert!(code(&session).is_err());
        let session = Session {
            exit_code: Some(0),
            ..Session::default()
        };
        assert!(code(&session).is_ok());
    }
}
