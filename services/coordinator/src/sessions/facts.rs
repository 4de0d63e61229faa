//! What the answers of a host say to a fold.

use muster_domain::{
    DeliveryId, Fault, Reason,
    delivery::Answer,
    session::{Failure, RunReport, fold::Fact},
};

use crate::hosts::{api::TailEvent, reports::Report};

/// A start was answered.
pub(super) fn of_spawn(run: u32, answer: Result<RunReport, Fault>) -> Fact {
    match answer {
        Ok(report) => Fact::Report(Box::new(report)),
        Err(fault) if refuses_start(fault.reason()) => Fact::SpawnRefused {
            run,
            failure: failure(&fault),
        },
        Err(_) => Fact::RunUnknown { run },
    }
}

/// Nothing was started, and the same start would be refused again.
fn refuses_start(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::CwdMissing
            | Reason::ProgramNotFound
            | Reason::NotExecutable
            | Reason::SpawnFailed
            | Reason::SessionAlive
            | Reason::DiskFull
            | Reason::Invalid
            | Reason::MissingField
            | Reason::InvalidPath
            | Reason::TooLarge
    )
}

/// A question about a run was answered.
pub(super) fn of_run(run: u32, answer: Result<RunReport, Fault>) -> Fact {
    match answer {
        Ok(report) => Fact::Report(Box::new(report)),
        Err(fault) if fault.reason() == Reason::RunNotFound => Fact::Absent { run },
        Err(_) => Fact::RunUnknown { run },
    }
}

/// A delivery, or a question about it, was answered.
pub(super) fn of_delivery(
    run: u32,
    delivery: DeliveryId,
    answer: Result<Answer, Fault>,
) -> Vec<Fact> {
    let fault = match answer {
        Ok(answer) => return vec![Fact::Answer { delivery, answer }],
        Err(fault) => fault,
    };
    match fault.reason() {
        Reason::NotALine | Reason::MessageTooLarge => vec![Fact::DeliveryRefused {
            delivery,
            failure: failure(&fault),
        }],
        Reason::DeliveryLimit => vec![Fact::Answer {
            delivery,
            answer: Answer::Retry,
        }],
        Reason::RunNotFound => vec![Fact::DeliveryUnknown { delivery }, Fact::Absent { run }],
        _ => vec![Fact::DeliveryUnknown { delivery }],
    }
}

/// What a host reported by itself.
pub(super) fn of_report(report: Report) -> Fact {
    match report {
        Report::Run(report) => Fact::Report(report),
        Report::Delivery {
            delivery, answer, ..
        } => Fact::Answer { delivery, answer },
        Report::Relist => Fact::Relist,
    }
}

/// What a tail of `run` said; `None`: nothing that a fold has to know.
pub(super) fn of_tail(run: u32, event: TailEvent) -> Option<Fact> {
    Some(match event {
        TailEvent::Data {
            offset,
            bytes,
            next,
            ..
        } => Fact::Bytes {
            run,
            offset,
            bytes: bytes.into(),
            next,
        },
        TailEvent::Truncated { .. } => Fact::Truncated { run },
        TailEvent::Replaced => Fact::Replaced { run },
        // Chunks framing sends every byte; a line by reference would be one that is missing.
        TailEvent::LongLine { offset: from, .. } | TailEvent::Gap { from, .. } => {
            Fact::Gap { run, from }
        }
        TailEvent::End { late_bytes, .. } => Fact::TailEnd { run, late_bytes },
        TailEvent::Opened { .. } | TailEvent::Removed | TailEvent::Progress { .. } => return None,
    })
}

fn failure(fault: &Fault) -> Failure {
    let tail = fault.metadata().get("stderr_tail");
    let text = match tail.filter(|tail| !tail.is_empty()) {
        Some(tail) => format!("{}: {tail}", fault.message()),
        None => fault.message().to_owned(),
    };
    Failure {
        reason: fault.reason().as_str().to_owned(),
        text: text.replace('\0', "\u{2400}"),
    }
}
