//! Between the agent's contract and the words of [`super::api`]. Both directions are total,
//! except where an agent says something that has no meaning.

use std::time::Duration;

use muster_domain::{
    Fault, SessionId, Timestamp,
    delivery::Answer,
    session::{Exit, Failure, Identity, LostReason, Process, RunReport},
};
use muster_proto::agent as pb;

use super::api::{
    FileInfo, FileKind, Found, Framing, ReadChunk, RunKey, Rung, RungAction, StdinMode, TailEvent,
};

pub(super) fn run_ref(key: RunKey) -> pb::RunRef {
    pb::RunRef {
        session_id: key.session.to_string(),
        run: key.run,
    }
}

pub(super) fn run_key(run: Option<&pb::RunRef>) -> Option<RunKey> {
    let run = run?;
    let session: SessionId = run.session_id.parse().ok()?;
    (run.run > 0).then_some(RunKey {
        session,
        run: run.run,
    })
}

/// An answer of the agent that lacks what its contract promises.
pub(super) fn broken(what: &str) -> Fault {
    Fault::internal(format!("the agent's answer lacks {what}"))
}

pub(super) fn report(facts: pb::RunFacts) -> Result<(RunKey, RunReport), Fault> {
    let key = run_key(facts.run.as_ref()).ok_or_else(|| broken("a run"))?;
    let stderr_and_stop = facts.stop_requested;
    let report = RunReport {
        run: key.run,
        process: process(facts.state(), facts.lost_reason()),
        identity: facts.process.map(identity),
        keeper: facts.keeper.map(identity),
        stdin_closed: facts.stdin_closed,
        stream_size: facts.stream_size,
        exit: facts.exit.map(|record| exit(record, stderr_and_stop)),
        cwd_exists: facts.cwd_exists,
        started_at: facts.started_at.map(timestamp),
        failure: (!facts.start_failure_reason.is_empty()).then_some(Failure {
            reason: facts.start_failure_reason,
            text: facts.start_failure,
        }),
    };
    Ok((key, report))
}

fn process(state: pb::RunState, lost: pb::LostReason) -> Option<Process> {
    match state {
        pb::RunState::NeverStarted => None,
        pb::RunState::Starting => Some(Process::Starting),
        pb::RunState::Alive => Some(Process::Alive),
        pb::RunState::Exited => Some(Process::Exited),
        pb::RunState::Lost => Some(Process::Lost(match lost {
            pb::LostReason::Boot => LostReason::Boot,
            pb::LostReason::Keeper | pb::LostReason::Unspecified => LostReason::Keeper,
        })),
        // A state that this version does not know is no evidence of anything (R5).
        pb::RunState::Unspecified => Some(Process::Unknown),
    }
}

fn exit(record: pb::ExitRecord, stop_requested: bool) -> Exit {
    Exit {
        code: record.code.filter(|_| !record.unknown),
        signal: record.signal.filter(|_| !record.unknown),
        at: record.at.map_or(Timestamp::from_micros(0), timestamp),
        stream_size: record.stream_size,
        stderr_size: record.stderr_size,
        stdin_unread: record.stdin_unread_bytes,
        survivors: record.survivors.into_iter().map(identity).collect(),
        stop_requested: record.stop_requested || stop_requested,
        stderr_tail: String::from_utf8_lossy(&record.stderr_tail).into_owned(),
    }
}

pub(super) fn identity(identity: pb::ProcessIdentity) -> Identity {
    Identity {
        boot: identity.boot_id,
        pid: identity.pid,
        ticks: identity.start_ticks,
    }
}

pub(super) fn timestamp(at: prost_types::Timestamp) -> Timestamp {
    Timestamp::from_micros(
        at.seconds
            .saturating_mul(1_000_000)
            .saturating_add(i64::from(at.nanos) / 1_000),
    )
}

pub(super) fn duration(span: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(span).ok()
}

pub(super) fn answer(outcome: &pb::DeliveryOutcome) -> Result<Answer, Fault> {
    Ok(match outcome.kind() {
        pb::OutcomeKind::Delivered => Answer::Delivered {
            before: outcome.stream_size_before,
            after: outcome.stream_size_after,
        },
        pb::OutcomeKind::Retry => Answer::Retry,
        pb::OutcomeKind::InFlight => Answer::InFlight,
        pb::OutcomeKind::Busy => Answer::Busy,
        pb::OutcomeKind::StdinClosed => Answer::StdinClosed,
        pb::OutcomeKind::NoKeeper => Answer::NoKeeper,
        pb::OutcomeKind::Exited => Answer::Exited {
            written: outcome.bytes_written,
        },
        pb::OutcomeKind::DiskFull => Answer::DiskFull,
        pb::OutcomeKind::Unknown => Answer::Unseen,
        pb::OutcomeKind::Unspecified => return Err(broken("an outcome")),
    })
}

pub(super) fn stdin_mode(mode: StdinMode) -> pb::StdinMode {
    match mode {
        StdinMode::Held => pb::StdinMode::Held,
        StdinMode::Closable => pb::StdinMode::Closable,
    }
}

pub(super) fn framing(framing: Framing) -> pb::Framing {
    match framing {
        Framing::Lines => pb::Framing::Lines,
        Framing::Chunks => pb::Framing::Chunks,
    }
}

pub(super) fn rung(rung: Rung) -> pb::Rung {
    let action = match rung.action {
        RungAction::EndLine { delivery, payload } => pb::rung::Action::EndLine(pb::EndLine {
            delivery_id: delivery.to_string(),
            payload,
        }),
        RungAction::CloseStdin => pb::rung::Action::CloseStdin(true),
        RungAction::Signal(signal) => pb::rung::Action::Signal(signal),
    };
    pb::Rung {
        action: Some(action),
        wait: duration(rung.wait),
    }
}

pub(super) fn found(found: pb::FoundProcess) -> Option<Found> {
    Some(Found {
        identity: identity(found.identity?),
        run: found.run,
        name: found.name,
    })
}

pub(super) fn file_info(info: pb::FileInfo) -> FileInfo {
    let kind = match info.kind() {
        pb::FileKind::Unspecified => FileKind::Unknown,
        pb::FileKind::File => FileKind::File,
        pb::FileKind::Directory => FileKind::Directory,
        pb::FileKind::Symlink => FileKind::Symlink,
        pb::FileKind::Fifo => FileKind::Fifo,
        pb::FileKind::Socket => FileKind::Socket,
        pb::FileKind::Device => FileKind::Device,
    };
    FileInfo {
        kind,
        name: info.name,
        size: info.size_bytes,
        modified_at: info.modified_at.map(timestamp),
        mode: info.mode,
        link_target: info.link_target,
    }
}

pub(super) fn read_chunk(chunk: pb::ReadResponse) -> ReadChunk {
    ReadChunk {
        offset: chunk.offset,
        data: chunk.data,
        file_size: chunk.file_size,
    }
}

/// `None`: an event that this version does not know.
pub(super) fn tail_event(event: pb::FollowResponse) -> Option<TailEvent> {
    use pb::follow_response::Event;
    Some(match event.event? {
        Event::Opened(opened) => TailEvent::Opened { size: opened.size },
        Event::Data(data) => TailEvent::Data {
            offset: data.offset,
            next_offset: data.next.as_ref().map_or(0, |next| next.offset),
            next: data.next.as_ref().map(encode_cursor).unwrap_or_default(),
            bytes: data.bytes,
            line_continues: data.line_continues,
            torn: data.torn,
        },
        Event::LongLine(line) => TailEvent::LongLine {
            offset: line.offset,
            length: line.length,
            next_offset: line.next.as_ref().map_or(0, |next| next.offset),
            next: line.next.as_ref().map(encode_cursor).unwrap_or_default(),
            torn: line.torn,
        },
        Event::Truncated(truncated) => TailEvent::Truncated {
            size: truncated.size,
        },
        Event::Replaced(_) => TailEvent::Replaced,
        Event::Gap(gap) => TailEvent::Gap {
            from: gap.from,
            reason: match gap.reason() {
                pb::GapReason::FileGone => "FILE_GONE",
                pb::GapReason::GuardMismatch => "GUARD_MISMATCH",
                pb::GapReason::Shorter => "SHORTER",
                pb::GapReason::Unspecified => "UNSPECIFIED",
            },
        },
        Event::Removed(_) => TailEvent::Removed,
        Event::Progress(progress) => TailEvent::Progress {
            offset: progress.cursor.map_or(0, |cursor| cursor.offset),
            size: progress.size,
            at_eof: progress.at_eof,
        },
        Event::End(end) => TailEvent::End {
            offset: end.cursor.map_or(0, |cursor| cursor.offset),
            late_bytes: end.late_bytes,
        },
    })
}

fn encode_cursor(cursor: &pb::Cursor) -> Vec<u8> {
    prost::Message::encode_to_vec(cursor)
}

pub(super) fn decode_cursor(bytes: &[u8]) -> Result<pb::Cursor, Fault> {
    prost::Message::decode(bytes).map_err(|error| {
        Fault::new(
            muster_domain::Reason::BadCursor,
            "the cursor is not one of this system",
        )
        .with_internal(error)
    })
}
