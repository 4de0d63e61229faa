//! One tail as a stream: reads when it is polled, waits for a hint otherwise.
//!
//! The gRPC server polls a response only while its HTTP/2 stream has room, so the stream needs
//! no task and no queue: an idle tail is this future, and a reader that stops stops the reading.
//! Bytes that gather while a frame waits come in one frame afterwards.
//!
//! A live tail reads on the runtime's own thread: at most 64 KiB that were just written, hence
//! in the page cache, are copied faster than a thread could be woken for them. A tail that
//! catches up may have to wait for a disk, and one on a network file system always may: those
//! read on the blocking pool.

#[cfg(test)]
mod tests;

use std::{io, sync::Arc, time::Duration};

use async_stream::try_stream;
use futures_util::Stream;
use muster_domain::{Fault, Reason, limits};
use muster_proto::agent::{FollowResponse, Progress, follow_response::Event};
use muster_runtime::{Clock, Tasks};
use tokio::sync::Semaphore;

use super::{
    mark::Identity,
    reader::{Framing, Reader, Sizes, Start, Step},
    source::{RootedFile, RootedName},
    watcher::{Watch, Watcher, Woken, is_silent},
};
use crate::files::fault_of_io;

/// How often a watched file is looked at without a hint.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// How often one that cannot be watched is.
const POLL: Duration = Duration::from_millis(250);
const PROGRESS: Duration = Duration::from_secs(5);
/// Catch-up reads at once: live tails find a free disk and a free thread.
const CATCH_UP_READS: usize = 2;

const SIZES: Sizes = Sizes {
    quantum: limits::FRAME_BYTES,
    max_line: limits::LINE_BYTES,
    leave_after: Duration::from_secs(1),
    verify_every: SAFETY_POLL,
};

/// What all tails of the agent share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Tails {
    pub(super) watcher: Watcher,
    clock: Clock,
    tasks: Tasks,
    catch_up: Arc<Semaphore>,
}

/// What is wanted of one tail.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) name: RootedName,
    pub(crate) framing: Framing,
    pub(crate) start: Start,
    /// Wait for a file that is not there yet.
    pub(crate) await_creation: bool,
    /// End at what is there now.
    pub(crate) no_follow: bool,
    /// For the output of a run: when it ended.
    pub(crate) ending: Option<Ending>,
}

/// Asks whether the writer has ended: `Some` of the size at which its output ends, or of
/// nothing when all that is there counts.
pub(crate) struct Ending(pub(crate) Box<dyn Fn() -> io::Result<Option<Option<u64>>> + Send + Sync>);

impl std::fmt::Debug for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ending")
    }
}

impl Tails {
    /// Starts the task that hands inotify events on.
    pub(crate) fn new(clock: Clock, tasks: &Tasks) -> Self {
        let watcher = Watcher::new();
        tasks.spawn("inotify", watcher.clone().run(tasks.token()));
        Self {
            watcher,
            clock,
            tasks: tasks.clone(),
            catch_up: Arc::new(Semaphore::new(CATCH_UP_READS)),
        }
    }

    /// The events of one tail. Ends after `end`, with `MOVED` when the agent goes down, or with
    /// a fault. Dropping it at any point is safe: the client resumes from its last cursor.
    ///
    /// # Errors
    /// `NOT_FOUND` when the file is missing and not awaited; whatever forbids the path.
    pub(crate) fn follow(
        &self,
        wanted: Wanted,
    ) -> Result<impl Stream<Item = Result<FollowResponse, Fault>> + Send + use<>, Fault> {
        let path = wanted.name.path.clone();
        let name = wanted.name.clone();
        let mut reader = Reader::new(wanted.name, wanted.framing, wanted.start, SIZES);
        let fault = |error| fault_of_io(error, &path);
        let exists = reader.open_first().map_err(fault)?;
        if !exists && !wanted.await_creation {
            let why = format!("`{path}` does not exist");
            return Err(Fault::new(Reason::NotFound, why));
        }
        let ended = match &wanted.ending {
            Some(Ending(ended)) => ended().map_err(fault)?,
            None => None,
        };
        match ended {
            Some(size) => reader.seal(size).map_err(fault)?,
            None if wanted.no_follow => reader.end_at_current_size().map_err(fault)?,
            None => {}
        }
        let tail = Tail {
            hints: Hints::new(self.watcher.clone(), name),
            shared: self.clone(),
            ending: wanted.ending,
            next_progress: self.clock.boottime() + PROGRESS,
            end_seen: false,
            name_is_sure: false,
            name_looked_at: Duration::ZERO,
            path,
        };
        Ok(tail.events(reader))
    }
}

struct Tail {
    shared: Tails,
    hints: Hints,
    ending: Option<Ending>,
    next_progress: Duration,
    /// The end of the file was reported since it was opened.
    end_seen: bool,
    /// The name led to the open file when it was looked at, and nothing speaks against it.
    name_is_sure: bool,
    name_looked_at: Duration,
    path: String,
}

impl Tail {
    fn events(
        mut self,
        mut reader: Reader<RootedName>,
    ) -> impl Stream<Item = Result<FollowResponse, Fault>> + Send {
        let token = self.shared.tasks.token();
        try_stream! {
            loop {
                if token.is_cancelled() {
                    Err(moved())?;
                }
                self.seal(&mut reader)?;
                let step;
                (reader, step) = self.step(reader).await?;
                match step {
                    Step::Event(event) => {
                        self.end_seen &= !matches!(event, Event::Opened(_));
                        yield FollowResponse { event: Some(event) };
                        if reader.lag() == 0 {
                            sent().await;
                        }
                    }
                    Step::Again => {}
                    Step::Done => return,
                    Step::Idle => {
                        if self.hints.aim(&reader) {
                            self.name_is_sure = false;
                            continue;
                        }
                        self.name_was_looked_at();
                        if !self.end_seen {
                            self.end_seen = true;
                            yield self.progress(&reader, true)?;
                        }
                        tokio::select! {
                            () = token.cancelled() => {}
                            () = self.wait(&reader) => {}
                        }
                    }
                }
                if self.shared.clock.boottime() >= self.next_progress {
                    let at_end = reader.lag() == 0;
                    yield self.progress(&reader, at_end)?;
                }
            }
        }
    }

    /// One step of the reader, where its read belongs.
    async fn step(
        &mut self,
        mut reader: Reader<RootedName>,
    ) -> Result<(Reader<RootedName>, Step), Fault> {
        let now = self.shared.clock.boottime();
        if self.hints.woken.take_renamed()
            || !self.hints.is_complete()
            || now >= self.name_looked_at + SAFETY_POLL
        {
            self.name_is_sure = false;
        }
        reader.trust_name(self.name_is_sure);
        let behind = reader.lag() > limits::CATCH_UP_BYTES;
        if !behind && !self.hints.is_slow() {
            let step = reader.step(now).map_err(|error| self.fault(error))?;
            return Ok((reader, step));
        }
        let _turn = match behind {
            true => self.shared.catch_up.acquire().await.ok(),
            false => None,
        };
        let read = self.shared.tasks.spawn_blocking("tail read", move || {
            let step = reader.step(now);
            (reader, step)
        });
        let (reader, step) = read.await.map_err(Fault::internal)?;
        Ok((reader, step.map_err(|error| self.fault(error))?))
    }

    fn name_was_looked_at(&mut self) {
        if !self.name_is_sure {
            self.name_is_sure = true;
            self.name_looked_at = self.shared.clock.boottime();
        }
    }

    /// Looks whether the writer has ended, before every read: what others append afterwards is
    /// not the writer's.
    fn seal(&self, reader: &mut Reader<RootedName>) -> Result<(), Fault> {
        let Some(Ending(ended)) = &self.ending else {
            return Ok(());
        };
        if reader.has_limit() {
            return Ok(());
        }
        if let Some(size) = ended().map_err(|error| self.fault(error))? {
            reader.seal(size).map_err(|error| self.fault(error))?;
        }
        Ok(())
    }

    fn progress(
        &mut self,
        reader: &Reader<RootedName>,
        at_eof: bool,
    ) -> Result<FollowResponse, Fault> {
        let now = self.shared.clock.boottime();
        self.next_progress = now + PROGRESS;
        let progress = Progress {
            cursor: Some(reader.cursor()),
            size: reader.size().map_err(|error| self.fault(error))?,
            at_eof,
            boottime: prost_types::Duration::try_from(now).ok(),
        };
        Ok(FollowResponse {
            event: Some(Event::Progress(progress)),
        })
    }

    async fn wait(&self, reader: &Reader<RootedName>) {
        let poll = if self.hints.is_complete() && !reader.is_leaving() {
            SAFETY_POLL
        } else {
            POLL
        };
        let until = (self.shared.clock.boottime() + poll)
            .min(self.next_progress)
            .min(self.name_looked_at + SAFETY_POLL);
        tokio::select! {
            () = self.hints.woken.notified() => {}
            () = self.shared.clock.sleep_until(until) => {}
        }
    }

    fn fault(&self, error: io::Error) -> Fault {
        fault_of_io(error, &self.path)
    }
}

/// The watches of one tail: the open file, and the folder that its name is in.
struct Hints {
    watcher: Watcher,
    name: RootedName,
    woken: Arc<Woken>,
    /// Which file is watched; watching is tried once per file.
    aimed_at: Option<Identity>,
    file: Option<Watch>,
    folder: Option<Watch>,
    /// The file system may make a read wait for a network.
    slow: bool,
}

impl Hints {
    fn new(watcher: Watcher, name: RootedName) -> Self {
        Self {
            watcher,
            name,
            woken: Arc::default(),
            aimed_at: None,
            file: None,
            folder: None,
            slow: false,
        }
    }

    /// Watches what the reader has open. True when that was new: something may have happened
    /// before the watch, so the reader has to look once more.
    fn aim(&mut self, reader: &Reader<RootedName>) -> bool {
        let Some(file) = reader.file() else {
            self.file = None;
            self.aimed_at = None;
            return self.aim_at_folder();
        };
        let identity = super::reader::TailFile::identity(file);
        if self.aimed_at == Some(identity) {
            return false;
        }
        self.aimed_at = Some(identity);
        self.folder = None;
        self.aim_at_folder();
        self.slow = is_silent(file.found.handle());
        self.file = watch_file(&self.watcher, file, &self.woken);
        true
    }

    fn aim_at_folder(&mut self) -> bool {
        if self.folder.is_some() {
            return false;
        }
        let Some(parent) = self.name.parent() else {
            return false;
        };
        self.folder = self.watcher.watch(parent.handle(), true, &self.woken);
        self.folder.is_some()
    }

    fn is_complete(&self) -> bool {
        self.folder.is_some() && (self.file.is_some() || self.aimed_at.is_none())
    }

    fn is_slow(&self) -> bool {
        self.slow
    }
}

/// Lets a frame leave before the end of the file and its name are looked at. The encoder, which
/// would wait for more to send, gives it on at the first pause; at the second the stream's task
/// makes room for the connection's, which writes it.
async fn sent() {
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
}

fn watch_file(watcher: &Watcher, file: &RootedFile, woken: &Arc<Woken>) -> Option<Watch> {
    watcher.watch(file.found.handle(), false, woken)
}

/// Every stream ends so when the agent goes down.
pub(crate) fn moved() -> Fault {
    Fault::new(Reason::Moved, "the agent goes down")
        .with_hint("resume from the last cursor at the agent that follows")
}
