//! How a keeper comes to its program: by starting it, or by adopting it.

use std::{
    fs::File,
    io,
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    time::Duration,
};

use muster_proto::keeper::{RunSpec, SpawnFailure, SpawnFailureReason as Reason};
use muster_runtime::failpoint::hit;
use rustix::fs::OFlags;

use super::{
    Keeper,
    clock::{monotonic, wall_us},
    ending::Program,
    journal::Journal,
    program::{self, refusal},
    stdin::Stdin,
};
use crate::{
    proc::{Held, Identity, Marker, boot_id, find_marked, stat},
    run_dir::{
        Delivery, EXIT, ExitRecord, JournalRecord, PROC, ProcRecord, RESERVE, Reserve, RunDir,
        SOCKET, STDERR, STREAM, StdinKind, is_full, stdin_kind,
    },
};

/// Somebody may look at the lock at the very moment; a keeper that lives holds it longer.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

type Result<T> = std::result::Result<T, SpawnFailure>;

/// What every keeper needs before it looks at a program.
struct Ground {
    dir: RunDir,
    lock: File,
    boot: String,
    own: Identity,
}

/// What the journal of an earlier keeper says.
#[derive(Default)]
struct Past {
    spawning: bool,
    stopping: bool,
    stop_requested: bool,
    stdin_closed: bool,
    ended: Option<ExitRecord>,
}

impl Past {
    fn see(&mut self, record: &JournalRecord) {
        match record {
            JournalRecord::Spawning { .. } => self.spawning = true,
            JournalRecord::StdinClosed { .. } => self.stdin_closed = true,
            JournalRecord::ProgramEnded { record } => self.ended = Some((**record).clone()),
            JournalRecord::Stop { requested, .. } => {
                self.stopping = true;
                self.stop_requested |= requested;
            }
            _ => {}
        }
    }
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> SpawnFailure {
    let what = what.to_owned();
    move |error| {
        let full = is_full(&error);
        let reason = if full {
            Reason::DiskFull
        } else {
            Reason::SpawnFailed
        };
        refusal(reason, format!("{what}: {error}"))
    }
}

/// Goes into the run folder, so that every name is short, and takes its lock.
fn enter(path: &Path) -> Result<Ground> {
    std::env::set_current_dir(path).map_err(failed("enter the run folder"))?;
    let dir = RunDir::open(".").map_err(failed("open the run folder"))?;
    for _ in 0..LOCK_TRIES {
        if let Some(lock) = dir.try_lock().map_err(failed("take the run's lock"))? {
            let boot = boot_id().map_err(failed("read the boot id"))?;
            let own = Identity::own().map_err(failed("read the own identity"))?;
            return Ok(Ground {
                dir,
                lock,
                boot,
                own,
            });
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(refusal(Reason::Locked, "the run has a living keeper"))
}

/// Starts the program of a spec.
pub(super) fn start(spec: &RunSpec, children: UnixStream) -> Result<Keeper> {
    let ground = enter(Path::new(&spec.run_dir))?;
    let kind = stdin_kind(spec.stdin_mode());
    let kind = kind.ok_or_else(|| refusal(Reason::SpawnFailed, "a stdin mode is missing"))?;
    let marker = Marker {
        session: spec.session_id.clone(),
        run: spec.run,
    };
    let dir = &ground.dir;
    let reserve = Reserve::take(dir).map_err(failed("reserve space"))?;
    let mut past = Past::default();
    let opened = Journal::open(dir, reserve, |record| past.see(record));
    let (mut journal, _) = opened.map_err(failed("open the journal"))?;
    refuse_second_start(dir, &past, &marker)?;
    let listener = listen(dir)?;
    let ends = Stdin::create(dir, kind).map_err(failed("make the stdin FIFO"))?;
    let append = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let open = |name| {
        dir.open_file(name, append)
            .map_err(failed("open an output file"))
    };
    let stdio = program::Stdio {
        stdin: ends.program,
        stdout: open(STREAM)?,
        stderr: open(STDERR)?,
    };
    let spawning = JournalRecord::Spawning {
        at_us: wall_us(),
        keeper: ground.own,
    };
    journal
        .append(&spawning)
        .map_err(failed("write the journal"))?;
    dir.sync().map_err(failed("sync the run folder"))?;
    let child = program::spawn(spec, stdio).inspect_err(|_| clear(dir))?;
    hit("keeper.before_proc");
    let pid = i32::try_from(child.id()).unwrap_or_default();
    // It cannot be gone: a child that ended stays until it is waited for.
    let process = stat(pid).ok().flatten().map(|stat| stat.identity);
    let held = process.and_then(|process| Held::open(process).ok().flatten());
    let (Some(process), Some(held)) = (process, held) else {
        return Err(give_up(child, "hold the program by a pidfd"));
    };
    let record = ProcRecord {
        boot_id: ground.boot.clone(),
        keeper: ground.own,
        process,
        session_id: marker.session.clone(),
        run: marker.run,
        stdin: kind,
        started_at_us: wall_us(),
    };
    let mut written = dir.write(PROC, &record);
    if written.is_err() && journal.free_reserve() {
        written = dir.write(PROC, &record);
    }
    if let Err(error) = written {
        give_up(child, "");
        return Err(failed("write proc.json")(error));
    }
    hit("keeper.after_proc");
    let program = Program::Child(child, held);
    Keeper::assemble(
        ground,
        record,
        program,
        ends.keeper,
        journal,
        listener,
        children,
    )
}

/// A program that cannot be accounted for must not run.
fn give_up(mut child: std::process::Child, what: &str) -> SpawnFailure {
    let _ = child.kill();
    let _ = child.wait();
    refusal(Reason::SpawnFailed, what)
}

/// Takes away what serves a living keeper only. What cannot be removed does no harm.
pub(super) fn clear(dir: &RunDir) {
    let _ = dir.remove(SOCKET);
    let _ = dir.remove(RESERVE);
}

fn refuse_second_start(dir: &RunDir, past: &Past, marker: &Marker) -> Result<()> {
    let exists = |name| dir.exists(name).map_err(failed("look into the run folder"));
    let mut started = exists(PROC)? || exists(EXIT)?;
    if !started && past.spawning {
        // A keeper died between the spawn and its record: then a process carries the marker.
        let found = find_marked(&marker.session, Some(marker.run));
        started = !found
            .map_err(failed("look for processes of the run"))?
            .is_empty();
    }
    if started {
        return Err(refusal(Reason::StartedBefore, "the run was started before"));
    }
    Ok(())
}

fn listen(dir: &RunDir) -> Result<UnixListener> {
    dir.remove(SOCKET)
        .map_err(failed("remove the old socket"))?;
    let listener = UnixListener::bind(SOCKET).map_err(failed("listen"))?;
    listener.set_nonblocking(true).map_err(failed("listen"))?;
    Ok(listener)
}

/// Takes over the program of a run whose keeper died. A program that ended meanwhile is
/// recorded as ended: as the dead keeper journalled it, else code unknown.
pub(super) fn adopt(path: &Path, children: UnixStream) -> Result<Keeper> {
    let ground = enter(path)?;
    let dir = &ground.dir;
    if dir
        .exists(EXIT)
        .map_err(failed("look for the exit record"))?
    {
        return Err(refusal(Reason::StartedBefore, "the run has ended"));
    }
    let record = match dir.proc().map_err(failed("read proc.json"))? {
        Some(record) => record,
        None => unrecorded(&ground)?,
    };
    if record.boot_id != ground.boot {
        return Err(refusal(Reason::SpawnFailed, "the run is of another boot"));
    }
    let reserve = Reserve::take(dir).unwrap_or_else(|_| Reserve::none());
    let mut past = Past::default();
    let opened = Journal::open(dir, reserve, |record| past.see(record));
    let (mut journal, _) = opened.map_err(failed("open the journal"))?;
    let open = Delivery::open_ones(dir).map_err(failed("read the journal"))?;
    journal.append_fact(JournalRecord::Adopted {
        at_us: wall_us(),
        keeper: ground.own,
    });
    let stdin = match record.stdin {
        // The program has seen the end of its input when the first keeper died.
        StdinKind::Closable => {
            if !past.stdin_closed {
                journal.append_fact(JournalRecord::StdinClosed { at_us: wall_us() });
            }
            Stdin::closed(dir)
        }
        StdinKind::Held if open.is_empty() => {
            Stdin::reopen(dir).map_err(failed("open the stdin FIFO"))?
        }
        StdinKind::Held => Stdin::closed(dir),
    };
    let listener = listen(dir)?;
    let held = Held::open(record.process).map_err(failed("hold the program by a pidfd"))?;
    let program = held.map_or(Program::Gone, Program::Adopted);
    let mut keeper = Keeper::assemble(ground, record, program, stdin, journal, listener, children)?;
    keeper.is_parent = false;
    keeper.torn = open.into_iter().next_back();
    keeper.stopping = past.stopping;
    keeper.stop_requested = past.stop_requested;
    if matches!(keeper.program, Program::Gone) {
        match past.ended {
            Some(record) => keeper.record_later(record, monotonic()),
            None => keeper.program_ended(None, monotonic()),
        }
    }
    Ok(keeper)
}

/// The keeper died between the spawn and `proc.json`: the program is the oldest marked
/// process that leads its group.
fn unrecorded(ground: &Ground) -> Result<ProcRecord> {
    let nothing = || refusal(Reason::SpawnFailed, "the run was never started");
    let meta = ground.dir.meta().map_err(failed("read meta.json"))?;
    let meta = meta.ok_or_else(nothing)?;
    let found = find_marked(&meta.session_id, Some(meta.run));
    let found = found.map_err(failed("look for processes of the run"))?;
    let leads = |identity: &Identity| {
        let stat = stat(identity.pid).ok().flatten();
        stat.is_some_and(|stat| stat.group == identity.pid)
    };
    let mut found = found.into_iter().map(|found| found.identity);
    let process = found.find(leads).ok_or_else(nothing)?;
    let record = ProcRecord {
        boot_id: ground.boot.clone(),
        keeper: ground.own,
        process,
        session_id: meta.session_id,
        run: meta.run,
        stdin: meta.stdin,
        started_at_us: wall_us(),
    };
    ground
        .dir
        .write(PROC, &record)
        .map_err(failed("write proc.json"))?;
    Ok(record)
}

impl Keeper {
    fn assemble(
        ground: Ground,
        record: ProcRecord,
        program: Program,
        stdin: Stdin,
        journal: Journal,
        listener: UnixListener,
        children: UnixStream,
    ) -> Result<Self> {
        let stream = ground.dir.open_file(STREAM, OFlags::RDONLY);
        Ok(Self {
            stream: stream.map_err(failed("open the stream"))?,
            dir: ground.dir,
            _lock: ground.lock,
            boot: ground.boot,
            own: ground.own,
            process: record.process,
            marker: Marker {
                session: record.session_id,
                run: record.run,
            },
            is_parent: true,
            program,
            stdin_kind: record.stdin,
            stdin,
            close_pending: false,
            journal,
            torn: None,
            delivery: None,
            waiters: Vec::new(),
            ladder: None,
            stopping: false,
            stop_requested: false,
            signalled: false,
            ended: None,
            listener,
            children,
            conns: Vec::new(),
            next_conn: 0,
        })
    }
}
