//! Between the agent's contract and the words of [`super::api`]. Both directions are total,
//! except where an agent says something that has no meaning.

use muster_domain::{
    Fault,
    delivery::Answer,
    session::{Identity, RunReport},
};
use muster_proto::{
    agent as pb,
    convert::{delivery, run, tail, time},
};

use super::api::{
    FileInfo, FileKind, Found, Framing, ReadChunk, RunKey, Rung, RungAction, StdinMode, TailEvent,
};

pub(super) fn run_ref(key: RunKey) -> pb::RunRef {
    run::run_ref(key.session, key.run)
}

/// An answer of the agent that is not what its contract promises: nothing is concluded.
pub(super) fn broken(why: impl std::fmt::Display) -> Fault {
    Fault::internal(format!("the agent's answer makes no sense: {why}"))
}

pub(super) fn report(facts: Option<pb::RunFacts>) -> Result<RunReport, Fault> {
    let facts = facts.ok_or_else(|| broken("no run"))?;
    let (_, report) = run::report(facts).map_err(broken)?;
    Ok(report)
}

pub(super) fn answer(outcome: Option<&pb::DeliveryOutcome>) -> Result<Answer, Fault> {
    let (_, answer) = delivery::answer(outcome).map_err(broken)?;
    Ok(answer)
}

pub(super) fn identities(found: Vec<pb::ProcessIdentity>) -> Result<Vec<Identity>, Fault> {
    let all = found.into_iter().map(TryInto::try_into);
    all.collect::<Result<_, Fault>>().map_err(broken)
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
        wait: Some(time::duration(rung.wait)),
    }
}

pub(super) fn found(found: pb::FoundProcess) -> Option<Found> {
    Some(Found {
        identity: found.identity?.try_into().ok()?,
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
        modified_at: time::from_timestamp_opt("modified_at", info.modified_at.as_ref())
            .unwrap_or_default(),
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
            next: data
                .next
                .as_ref()
                .map(tail::cursor_bytes)
                .unwrap_or_default(),
            bytes: data.bytes,
            line_continues: data.line_continues,
            torn: data.torn,
        },
        Event::LongLine(line) => TailEvent::LongLine {
            offset: line.offset,
            length: line.length,
            next_offset: line.next.as_ref().map_or(0, |next| next.offset),
            next: line
                .next
                .as_ref()
                .map(tail::cursor_bytes)
                .unwrap_or_default(),
            torn: line.torn,
        },
        Event::Truncated(truncated) => TailEvent::Truncated {
            size: truncated.size,
        },
        Event::Replaced(_) => TailEvent::Replaced,
        Event::Gap(gap) => TailEvent::Gap {
            from: gap.from,
            reason: tail::gap_reason(&gap),
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
