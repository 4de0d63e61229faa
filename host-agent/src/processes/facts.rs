//! What a run's folder and the kernel say about the run. Read anew every time.

use std::io;

use muster_domain::Timestamp;
use muster_proto::{
    agent::{self, LostReason, ProcessIdentity, RunFacts, RunRef, RunState, StdinMode},
    convert::time::{duration, timestamp},
};
use serde::{Deserialize, Serialize};

use crate::{
    proc::{self, Identity},
    run_dir::{
        ExitRecord, JournalRecord, LockState, Meta, ProcRecord, RunDir, RunKey, STDERR, STREAM,
        StdinKind, read_journal,
    },
};

/// How a start failed; written by the agent, read by whoever asks about the run.
pub(super) const START_FAILURE: &str = "start_failure.json";

/// The record of a failed start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StartFailure {
    pub(super) reason: String,
    pub(super) text: String,
}

/// What the journal of a run that has not ended adds.
#[derive(Debug, Default)]
struct Journalled {
    stdin_closed: bool,
    stop_requested: bool,
    adopted_by: Option<Identity>,
}

/// Reads everything that is known of a run. Blocking.
///
/// # Errors
/// Any failure to read: it says nothing about the run.
pub(super) fn read(dir: &RunDir, key: RunKey, boot_id: &str) -> io::Result<RunFacts> {
    let meta = dir.meta()?.unwrap_or_default();
    let mut facts = RunFacts {
        run: Some(run_ref(key)),
        stdin_mode: stdin_mode(meta.stdin).into(),
        cwd_exists: cwd_exists(&meta),
        cwd: meta.cwd,
        argv: meta.argv,
        ..RunFacts::default()
    };
    let process = dir.proc()?;
    if let Some(record) = &process {
        facts.process = Some(identity(&record.boot_id, record.process));
        facts.started_at = (record.started_at_us > 0)
            .then(|| timestamp(Timestamp::from_micros(record.started_at_us)));
    }
    if let Some(exit) = dir.exit()? {
        ended(&mut facts, exit);
        return Ok(facts);
    }
    facts.stream_size = dir.size(STREAM)?.unwrap_or(0);
    facts.stderr_size = dir.size(STDERR)?.unwrap_or(0);
    match process {
        Some(record) => started(dir, &mut facts, &record, boot_id)?,
        None => unrecorded(dir, &mut facts, key, boot_id)?,
    }
    // The keeper may have recorded the end after the look for it: the record wins.
    if facts.state() != RunState::Alive
        && let Some(exit) = dir.exit()?
    {
        ended(&mut facts, exit);
    }
    Ok(facts)
}

/// The keeper has recorded who runs, and no end.
fn started(
    dir: &RunDir,
    facts: &mut RunFacts,
    record: &ProcRecord,
    boot_id: &str,
) -> io::Result<()> {
    let journal = journalled(dir)?;
    facts.stdin_closed = journal.stdin_closed;
    facts.stop_requested = journal.stop_requested;
    facts.adopted = journal.adopted_by.is_some();
    if record.boot_id != boot_id {
        facts.set_state(RunState::Lost);
        facts.set_lost_reason(LostReason::Boot);
        return Ok(());
    }
    // A held lock is looked for first: a keeper that ends after this look has written the end.
    let kept = dir.lock_state()? == LockState::Held;
    if kept {
        let keeper = journal.adopted_by.unwrap_or(record.keeper);
        facts.keeper = Some(identity(boot_id, keeper));
    }
    if kept || record.process.is_alive()? {
        facts.set_state(RunState::Alive);
    } else {
        facts.set_state(RunState::Lost);
        facts.set_lost_reason(LostReason::Keeper);
    }
    Ok(())
}

/// Nobody has recorded who runs: nothing was started, or its keeper is about to record it, or
/// died before it could.
fn unrecorded(dir: &RunDir, facts: &mut RunFacts, key: RunKey, boot_id: &str) -> io::Result<()> {
    if dir.lock_state()? == LockState::Held {
        facts.set_state(RunState::Starting);
        return Ok(());
    }
    if let Some(record) = dir.proc()? {
        return started(dir, facts, &record, boot_id);
    }
    let session = key.session.hyphenated().to_string();
    if let Some(found) = proc::find_marked(&session, Some(key.run))?.first() {
        facts.process = Some(identity(boot_id, found.identity));
        facts.set_state(RunState::Alive);
        return Ok(());
    }
    facts.set_state(RunState::NeverStarted);
    if let Some(failure) = dir.read::<StartFailure>(START_FAILURE)? {
        facts.start_failure = failure.text;
        facts.start_failure_reason = failure.reason;
    }
    Ok(())
}

fn journalled(dir: &RunDir) -> io::Result<Journalled> {
    let mut journal = Journalled::default();
    read_journal(dir, |_, record| match record {
        JournalRecord::StdinClosed { .. } => journal.stdin_closed = true,
        JournalRecord::Stop { requested, .. } => journal.stop_requested |= requested,
        JournalRecord::Adopted { keeper, .. } => journal.adopted_by = Some(keeper),
        _ => {}
    })?;
    Ok(journal)
}

fn ended(facts: &mut RunFacts, exit: ExitRecord) {
    facts.set_state(RunState::Exited);
    facts.set_lost_reason(LostReason::Unspecified);
    facts.keeper = None;
    facts.stream_size = exit.stream_size;
    facts.stderr_size = exit.stderr_size;
    facts.stop_requested = exit.stop_requested;
    facts.stdin_closed = true;
    let survivors = exit.survivors.iter();
    facts.exit = Some(agent::ExitRecord {
        code: exit.code,
        signal: exit.signal,
        unknown: exit.unknown,
        at: Some(timestamp(Timestamp::from_micros(exit.at_us))),
        stream_size: exit.stream_size,
        stderr_size: exit.stderr_size,
        stdin_unread_bytes: exit.stdin_unread_bytes,
        survivors: survivors
            .map(|&survivor| identity(&exit.boot_id, survivor))
            .collect(),
        stop_requested: exit.stop_requested,
        user_time: Some(duration(std::time::Duration::from_micros(exit.user_us))),
        system_time: Some(duration(std::time::Duration::from_micros(exit.system_us))),
        max_rss_bytes: exit.max_rss_bytes,
        stderr_tail: exit.stderr_tail.into_bytes().into(),
    });
}

/// Whether the working directory still exists. One that cannot be looked at counts as there:
/// only its absence is absence.
fn cwd_exists(meta: &Meta) -> bool {
    if meta.cwd.is_empty() {
        return true;
    }
    is_there(&meta.cwd)
}

pub(super) fn is_there(cwd: &str) -> bool {
    match std::fs::metadata(cwd) {
        Ok(metadata) => metadata.is_dir(),
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    }
}

pub(super) fn run_ref(key: RunKey) -> RunRef {
    RunRef {
        session_id: key.session.hyphenated().to_string(),
        run: key.run,
    }
}

pub(super) fn identity(boot_id: &str, identity: Identity) -> ProcessIdentity {
    ProcessIdentity {
        boot_id: boot_id.to_owned(),
        pid: identity.pid,
        start_ticks: identity.start_ticks,
    }
}

fn stdin_mode(kind: StdinKind) -> StdinMode {
    match kind {
        StdinKind::Held => StdinMode::Held,
        StdinKind::Closable => StdinMode::Closable,
    }
}
