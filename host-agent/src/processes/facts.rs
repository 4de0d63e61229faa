//! What a run's folder and the kernel say about the run. Read anew every time.

use std::io;

use muster_domain::Timestamp;
use muster_proto::{
    agent::{
        self, LivingSurvivors, LostReason, ProcessIdentity, RunFacts, RunRef, RunState, StdinMode,
    },
    convert::time::{duration, timestamp},
};
use serde::{Deserialize, Serialize};

use crate::{
    proc::{self, Identity},
    run_dir::{
        ExitLook, ExitRecord, JournalRecord, LockState, Meta, ProcRecord, RunDir, RunKey, STDERR,
        STREAM, StdinKind, read_journal,
    },
};

/// Keepers that may die over a journalled end before nobody records it any more.
const HEIRS_MAX: u32 = 3;
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
    /// Keepers that took the run over after its program's end, which is journalled.
    heirs: Option<u32>,
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
    match dir.look_at_exit()? {
        ExitLook::Recorded(exit) => {
            ended(&mut facts, *exit, boot_id)?;
            return Ok(facts);
        }
        ExitLook::Damaged => facts.exit_damaged = true,
        ExitLook::Missing => {}
    }
    facts.stream_size = dir.size(STREAM)?.unwrap_or(0);
    facts.stderr_size = dir.size(STDERR)?.unwrap_or(0);
    match process {
        Some(record) => started(dir, &mut facts, &record, boot_id)?,
        None => unrecorded(dir, &mut facts, key, boot_id)?,
    }
    // The keeper may have recorded the end after the look for it: the record wins.
    if facts.state() != RunState::Alive
        && let ExitLook::Recorded(exit) = dir.look_at_exit()?
    {
        facts.exit_damaged = false;
        ended(&mut facts, *exit, boot_id)?;
    }
    Ok(facts)
}

/// What is known of a run whose folder is not there: whether a process of it lives, by its
/// marker, or as the one that was told earlier. `None`: none does. Blocking.
///
/// # Errors
/// Any failure to look: it says nothing about the run.
pub(super) fn without_folder(
    key: RunKey,
    boot_id: &str,
    told: Option<&ProcessIdentity>,
) -> io::Result<Option<RunFacts>> {
    let process = match told {
        Some(told) if told.boot_id == boot_id && of(told).is_alive()? => Some(of(told)),
        _ => {
            let session = key.session.hyphenated().to_string();
            let marked = proc::find_marked(&session, Some(key.run))?;
            marked.first().map(|found| found.identity)
        }
    };
    Ok(process.map(|process| RunFacts {
        run: Some(run_ref(key)),
        state: RunState::Alive.into(),
        process: Some(identity(boot_id, process)),
        // Nobody can say where it was.
        cwd_exists: true,
        folder_missing: true,
        ..RunFacts::default()
    }))
}

/// A run whose folder is gone and whose processes are too, after what was known of it.
pub(super) fn lost_with_folder(known: RunFacts) -> RunFacts {
    let mut facts = RunFacts {
        keeper: None,
        exit: None,
        folder_missing: true,
        ..known
    };
    facts.set_state(RunState::Lost);
    facts.set_lost_reason(LostReason::Folder);
    facts
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
    // A journalled end is recorded by the next keeper; until then the run is not over. Where there was a record, nobody
    // writes another one.
    let heirs = journal.heirs.filter(|_| !facts.exit_damaged);
    let unrecorded = heirs.is_some_and(|heirs| heirs < HEIRS_MAX);
    if kept || unrecorded || record.process.is_alive()? {
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
        // What a start leaves behind is gone: somebody emptied the folder.
        facts.folder_missing = dir.meta()?.is_none() && dir.lock_state()? == LockState::Missing;
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
        JournalRecord::Adopted { keeper, .. } => {
            journal.adopted_by = Some(keeper);
            journal.heirs = journal.heirs.map(|heirs| heirs.saturating_add(1));
        }
        JournalRecord::ProgramEnded { .. } => journal.heirs = Some(0),
        _ => {}
    })?;
    Ok(journal)
}

fn ended(facts: &mut RunFacts, exit: ExitRecord, boot_id: &str) -> io::Result<()> {
    facts.set_state(RunState::Exited);
    facts.set_lost_reason(LostReason::Unspecified);
    facts.keeper = None;
    facts.stream_size = exit.stream_size;
    facts.stderr_size = exit.stderr_size;
    facts.stop_requested = exit.stop_requested;
    facts.stdin_closed = true;
    let mut living = Vec::new();
    for survivor in &exit.survivors {
        // Those of another boot are gone, whoever has their numbers now.
        if exit.boot_id == boot_id && survivor.is_alive()? {
            living.push(identity(boot_id, *survivor));
        }
    }
    facts.survivors = Some(LivingSurvivors { processes: living });
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
    Ok(())
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

/// The identity in a message; its boot is the caller's to check.
pub(super) fn of(identity: &ProcessIdentity) -> Identity {
    Identity {
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
