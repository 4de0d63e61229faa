//! The end of the program and its record.

use std::{io, os::unix::process::ExitStatusExt as _, process::Child, time::Duration};

use muster_proto::keeper::event;
use muster_runtime::failpoint::hit;
use rustix::{
    fs::OFlags,
    io::Errno,
    process::{WaitOptions, WaitStatus},
};
use wait4::{ResUse, ResourceUsage, Wait4 as _};

use super::{Keeper, clock::wall_us};
use crate::{
    proc::Held,
    run_dir::{EXIT, ExitRecord, JournalRecord, STDERR, is_full},
};

const STDERR_TAIL_BYTES: u64 = 8 * 1024;
const SURVIVORS_MAX: usize = 256;
/// After signals to the whole tree its members end one after the other: so long they are
/// not called survivors.
const DYING: Duration = Duration::from_millis(300);
const DYING_LOOK: Duration = Duration::from_millis(10);
/// Pause between two tries to record the end.
const RETRY: Duration = Duration::from_secs(1);
/// Tries, when what fails is not the space: then the folder is gone or damaged, and nobody
/// will read the record.
const TRIES_MAX: u32 = 30;

/// The program, as this keeper knows it.
#[derive(Debug)]
pub(super) enum Program {
    /// Our child; the pidfd tells its end.
    Child(Child, Held),
    /// Adopted: its code is not for us to learn.
    Adopted(Held),
    /// Ended.
    Gone,
}

/// How the program ended, as its parent learns it.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    code: Option<i32>,
    signal: Option<i32>,
    usage: Option<ResourceUsage>,
}

impl End {
    fn of(status: WaitStatus) -> Self {
        Self {
            code: status.exit_status(),
            signal: status.terminating_signal(),
            usage: None,
        }
    }
}

impl From<ResUse> for End {
    fn from(used: ResUse) -> Self {
        Self {
            code: used.status.code(),
            signal: used.status.signal(),
            usage: Some(used.rusage),
        }
    }
}

/// The end, and how far its record is.
#[derive(Debug)]
pub(super) struct Ending {
    record: ExitRecord,
    survivors_until: Duration,
    try_at: Duration,
    tries: u32,
    /// `exit.json` is on disk, or will never be.
    pub(super) settled: bool,
}

impl Keeper {
    /// Waits for children that ended: the program, and orphans that came to this subreaper.
    pub(super) fn reap(&mut self, now: Duration) {
        self.check_program(now);
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let is_program = pid.as_raw_nonzero().get() == self.process.pid;
                    if is_program && matches!(self.program, Program::Child(..)) {
                        // It ended just after it was asked: only its rusage is missed.
                        self.program_ended(Some(End::of(status)), now);
                    }
                }
                Err(Errno::INTR) => {}
                // No children, or none that ended.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Notices the program's end.
    pub(super) fn check_program(&mut self, now: Duration) {
        match &mut self.program {
            Program::Gone => {}
            Program::Child(child, _) => match child.try_wait4() {
                Ok(None) => {}
                Ok(Some(used)) => self.program_ended(Some(used.into()), now),
                // Somebody else waited for it: it has ended, how is not known.
                Err(_) => self.program_ended(None, now),
            },
            Program::Adopted(held) => {
                if held.has_ended().unwrap_or(false) {
                    self.program_ended(None, now);
                }
            }
        }
    }

    /// Takes down what is true at this moment; the record is written after.
    pub(super) fn program_ended(&mut self, end: Option<End>, now: Duration) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let rusage = end.and_then(|end| end.usage);
        let record = ExitRecord {
            code: end.and_then(|end| end.code),
            signal: end.and_then(|end| end.signal),
            unknown: end.is_none(),
            at_us: wall_us(),
            stream_size: self.stream_size(),
            stderr_size: self.dir.size(STDERR).ok().flatten().unwrap_or_default(),
            stdin_unread_bytes: self.stdin.unread_bytes(),
            survivors: Vec::new(),
            stop_requested: self.stop_requested,
            user_us: rusage.map_or(0, |usage| micros(usage.utime)),
            system_us: rusage.map_or(0, |usage| micros(usage.stime)),
            max_rss_bytes: rusage.map_or(0, |usage| usage.maxrss),
            stderr_tail: self.stderr_tail().unwrap_or_default(),
            boot_id: self.boot.clone(),
        };
        // A keeper that adopted it has nothing to tell that the next one would not find.
        if !record.unknown {
            self.journal.append_fact(JournalRecord::ProgramEnded {
                record: Box::new(record.clone()),
            });
        }
        self.record_later(record, now);
    }

    /// Records this end when the rest of the tree is through.
    pub(super) fn record_later(&mut self, record: ExitRecord, now: Duration) {
        self.program = Program::Gone;
        let dying = if self.signalled {
            DYING
        } else {
            Duration::ZERO
        };
        self.ended = Some(Ending {
            record,
            survivors_until: now + dying,
            try_at: now,
            tries: 0,
            settled: false,
        });
        // What is in flight has ended with it.
        self.step_delivery(now);
    }

    fn stderr_tail(&self) -> io::Result<String> {
        use std::os::unix::fs::FileExt as _;
        let file = self.dir.open_file(STDERR, OFlags::RDONLY)?;
        let size = file.metadata()?.len();
        let length = size.min(STDERR_TAIL_BYTES);
        let mut tail = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut tail, size - length)?;
        Ok(String::from_utf8_lossy(&tail).into_owned())
    }

    /// Records the end once it is time.
    pub(super) fn step_ending(&mut self, now: Duration) {
        let Some(ending) = &self.ended else { return };
        // While a stop works on the rest of the tree the run is not over: its record tells
        // what the whole ladder came to.
        if ending.settled || now < ending.try_at || self.ladder.is_some() {
            return;
        }
        if now < ending.survivors_until && !self.tree_is_gone() {
            self.try_again_at(now + DYING_LOOK);
            return;
        }
        let mut survivors = self.living_members();
        survivors.truncate(SURVIVORS_MAX);
        // What the tree printed while it was being stopped is output of the run: readers were
        // given it as such, as the run had not ended.
        let printed = self.stopping.then(|| self.stream_size());
        let stderr = self
            .stopping
            .then(|| self.stderr_tail().unwrap_or_default());
        let stderr_size = self.dir.size(STDERR).ok().flatten();
        let Some(ending) = &mut self.ended else {
            return;
        };
        ending.record.survivors = survivors;
        if ending.tries == 0
            && let Some(printed) = printed
        {
            ending.record.stream_size = printed;
            ending.record.stderr_size = stderr_size.unwrap_or(ending.record.stderr_size);
            ending.record.stderr_tail = stderr.unwrap_or_default();
        }
        ending.tries += 1;
        hit("keeper.before_exit");
        let record = &ending.record;
        let mut written = self.dir.write(EXIT, record);
        if written.as_ref().is_err_and(is_full) && self.journal.free_reserve() {
            written = self.dir.write(EXIT, record);
        }
        match written {
            Ok(()) => {
                hit("keeper.after_exit");
                ending.settled = true;
                self.push_event(event::Event::ExitRecorded(true));
            }
            Err(error)
                if is_full(&error)
                    || (ending.tries < TRIES_MAX && error.kind() != io::ErrorKind::NotFound) =>
            {
                self.try_again_at(now + RETRY);
            }
            // The folder is gone: nobody will read the record.
            Err(_) => ending.settled = true,
        }
    }

    fn try_again_at(&mut self, time: Duration) {
        if let Some(ending) = &mut self.ended {
            ending.try_at = time;
        }
    }

    /// When the record needs attention.
    pub(super) fn ending_deadline(&self) -> Option<Duration> {
        let ending = self.ended.as_ref().filter(|ending| !ending.settled)?;
        if self.ladder.is_some() {
            return None;
        }
        Some(ending.try_at)
    }
}
