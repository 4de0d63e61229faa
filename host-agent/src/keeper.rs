//! The keeper: one small process per run. Parent and subreaper of the program, the only
//! writer of its stdin, the one that climbs the stop ladder and records the end. It outlives
//! the agent, has no async runtime, and stays out of the data path.
//!
//! One thread, one `poll` loop: every step looks at the state and at the time, does what is
//! due, and says when it wants to be asked again.

use std::{fs::File, os::unix::net::UnixListener, os::unix::net::UnixStream, time::Duration};

use muster_proto::keeper::{Reply, Status, StdinMode, reply::Answer};

use crate::{
    proc::{Identity, Marker},
    run_dir::{RunDir, StdinKind},
};

mod calls;
mod clock;
mod conn;
mod delivery;
mod ending;
pub mod frame;
mod journal;
mod ladder;
mod launcher;
mod main;
mod payload;
mod poll;
mod program;
mod start;
mod stdin;

pub use launcher::Launcher;
pub use main::{dispatch, keeper_main};
pub use payload::{INLINE_BYTES_MAX, PAYLOAD_BYTES_MAX};

use conn::Conn;
use delivery::{InFlight, Waiter};
use ending::{Ending, Program};
use journal::Journal;
use ladder::Ladder;
use stdin::Stdin;

/// The subcommand that both binaries dispatch before anything else.
const SUBCOMMAND: &str = "keeper";
/// The first of the two stages of a start.
const STAGE1: &str = "--stage1";
/// Takes over a living program instead of starting one.
const ADOPT: &str = "--adopt";

/// The state of one keeper.
#[derive(Debug)]
struct Keeper {
    dir: RunDir,
    /// Held for life: who holds it is the keeper of the run.
    _lock: File,
    boot: String,
    own: Identity,
    process: Identity,
    marker: Marker,
    /// The program is our child, and its orphans come to us.
    is_parent: bool,
    program: Program,
    /// The program's stdout, to see its size.
    stream: File,
    stdin_kind: StdinKind,
    stdin: Stdin,
    /// Closing waits for the end of a delivery.
    close_pending: bool,
    journal: Journal,
    /// A delivery that an earlier keeper began and never ended: half a line may be in the
    /// pipe, so nothing may follow it.
    torn: Option<String>,
    delivery: Option<InFlight>,
    waiters: Vec<Waiter>,
    ladder: Option<Ladder>,
    stopping: bool,
    stop_requested: bool,
    signalled: bool,
    ended: Option<Ending>,
    listener: UnixListener,
    children: UnixStream,
    conns: Vec<Conn>,
    next_conn: u64,
}

impl Keeper {
    fn stream_size(&self) -> u64 {
        self.stream.metadata().map_or(0, |meta| meta.len())
    }

    fn status(&self) -> Status {
        let in_flight = self.delivery.as_ref().map(|current| current.id.clone());
        Status {
            keeper: Some(self.own.into()),
            process: Some(self.process.into()),
            boot_id: self.boot.clone(),
            stdin_mode: StdinMode::from(self.stdin_kind).into(),
            alive: self.ended.is_none(),
            stdin_closed: !self.stdin.is_open() || self.close_pending,
            in_flight_delivery_id: in_flight.or_else(|| self.torn.clone()).unwrap_or_default(),
            stopping: self.stopping,
        }
    }

    fn reply(&mut self, conn: u64, seq: u64, answer: Answer) {
        let answer = Some(answer);
        if let Some(conn) = self.conns.iter_mut().find(|other| other.id == conn) {
            conn.send(&Reply { seq, answer });
        }
    }

    /// Everything that is due now.
    fn step(&mut self, now: Duration) {
        self.step_delivery(now);
        self.step_ladder(now);
        self.step_ending(now);
        if self.journal.is_behind() {
            self.journal.settle();
        }
        self.conns.retain(|conn| !conn.is_broken());
    }

    /// The run's end is recorded and nobody is left to be stopped.
    fn is_done(&self) -> bool {
        let settled = self.ended.as_ref().is_some_and(|ending| ending.settled);
        settled && self.ladder.is_none()
    }
}
