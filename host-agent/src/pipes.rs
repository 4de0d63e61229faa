//! Writes to named pipes below the roots: all bytes, or an exact count of those that went.
//!
//! The write end is never opened for reading as well: that would succeed with nobody there to
//! read, and the bytes would vanish with it.

use std::{
    collections::HashMap,
    fs::File,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use muster_domain::{Fault, Reason, limits};
use muster_runtime::Clock;
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use tokio::{net::unix::pipe, sync::Semaphore};

use crate::files::{Found, Roots, fault_of, fault_of_io, identity_of};

/// Writes at once; each holds up to 1 MiB.
const WRITES_AT_ONCE: usize = 16;

type Turn = Arc<tokio::sync::Mutex<()>>;

/// All pipe writes of the agent. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pipes {
    clock: Clock,
    slots: Arc<Semaphore>,
    /// Writers of one pipe take turns, so that their bytes do not mix.
    turns: Arc<Mutex<HashMap<(u64, u64), Turn>>>,
}

impl Pipes {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            slots: Arc::new(Semaphore::new(WRITES_AT_ONCE)),
            turns: Arc::default(),
        }
    }

    /// Finds the pipe of a client's path; nothing is opened yet.
    pub(crate) fn find(roots: &Roots, path: &str) -> Result<Found, Fault> {
        let found = roots.find(path)?;
        if found.file_type() != FileType::Fifo {
            let why = format!("`{path}` is no named pipe");
            return Err(Fault::new(Reason::NotAFifo, why));
        }
        roots.check_writable(&found.real, path)?;
        Ok(found)
    }

    /// Writes all of `data`. Dropping the future stops between two writes, at an unknown place:
    /// callers let it run to its deadline.
    ///
    /// # Errors
    /// `NO_READER`, `PIPE_DEADLINE`, both with `written_bytes`; `DELIVERY_LIMIT`.
    pub(crate) async fn write(
        &self,
        found: &Found,
        data: &[u8],
        deadline: Duration,
    ) -> Result<u64, Fault> {
        let Ok(_slot) = self.slots.try_acquire() else {
            let why = format!("at most {WRITES_AT_ONCE} pipes are written at once");
            return Err(Fault::new(Reason::DeliveryLimit, why));
        };
        let until = self.clock.boottime() + deadline.min(limits::PIPE_WRITE_DEADLINE);
        let identity = identity_of(&found.stat);
        let key = (identity.device, identity.inode);
        let turn = self.turn(key);
        let result = match self.clock.timeout_at(until, turn.lock()).await {
            Ok(_turn) => self.write_all(found, data, until).await,
            Err(_) => Err(unfinished(Reason::PipeDeadline, 0)),
        };
        drop(turn);
        self.forget(key);
        result
    }

    async fn write_all(&self, found: &Found, data: &[u8], until: Duration) -> Result<u64, Fault> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let pipe = match found.reopen(flags) {
            Ok(pipe) => pipe::Sender::from_file(File::from(pipe)).map_err(Fault::internal)?,
            Err(Errno::NXIO) => return Err(unfinished(Reason::NoReader, 0)),
            Err(errno) => return Err(fault_of(errno, &found.real.to_string_lossy())),
        };
        let mut written = 0;
        while written < data.len() {
            match self
                .clock
                .timeout_at(until, write_some(&pipe, &data[written..]))
                .await
            {
                Ok(Ok(count)) => written += count,
                Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Err(unfinished(Reason::NoReader, written));
                }
                Ok(Err(error)) => return Err(fault_of_io(error, &found.real.to_string_lossy())),
                Err(_) => return Err(unfinished(Reason::PipeDeadline, written)),
            }
        }
        Ok(written as u64)
    }

    fn turn(&self, key: (u64, u64)) -> Turn {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(key).or_default().clone()
    }

    fn forget(&self, key: (u64, u64)) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns
            .get(&key)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            turns.remove(&key);
        }
    }
}

async fn write_some(pipe: &pipe::Sender, data: &[u8]) -> io::Result<usize> {
    loop {
        pipe.writable().await?;
        match pipe.try_write(data) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

fn unfinished(reason: Reason, written: usize) -> Fault {
    let what = match reason {
        Reason::NoReader => "nobody reads from the pipe",
        _ => "the pipe was full until the deadline",
    };
    Fault::new(reason, format!("{what}; {written} bytes were written"))
        .with("written_bytes", written)
}
