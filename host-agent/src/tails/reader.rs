//! The tail's logic without files, tasks or time: one `step` makes at most one read of a
//! quantum and says what came of it.
//!
//! Every read begins with the bytes that are known to stand before its position. If they
//! differ, the file is another one, however its size and name look: so no line is ever made
//! of two files. What a step returns is final; nothing is sent twice and nothing is skipped,
//! unless the content itself was destroyed before it could be read.

mod opened;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, io, time::Duration};

use muster_proto::agent::{
    Cursor, End, Gap, Opened, Removed, Replaced, Truncated, follow_response::Event,
};

use super::mark::Identity;
use opened::{Look, OpenFile};

/// An open file as a tail sees it.
pub(crate) trait TailFile {
    /// Who it is; fixed when it was opened.
    fn identity(&self) -> Identity;
    /// Its length now.
    fn size(&self) -> io::Result<u64>;
    /// Fills `buf` from `offset`; less than its length only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
}

/// A name that files come and go under.
pub(crate) trait TailName {
    type File: TailFile;
    /// Opens what the name points to; `None` when it points to nothing.
    fn open(&self) -> io::Result<Option<Self::File>>;
    /// Who the name points to, without opening it.
    fn identity(&self) -> io::Result<Option<Identity>>;
}

/// Where to begin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Start {
    Beginning,
    End,
    LastBytes(u64),
    Cursor(Cursor),
}

/// How bytes become frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Lines,
    Chunks,
}

/// Sizes of a reader; limits in production, small in tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// At most this much is read in a step, and sent in a frame.
    pub(crate) quantum: usize,
    /// Longer lines are reported, not sent.
    pub(crate) max_line: u64,
    /// How long a file that lost its name must not grow before it is left.
    pub(crate) leave_after: Duration,
    /// How often the bytes before the position are looked at without a reason.
    pub(crate) verify_every: Duration,
}

/// Where reading ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Never.
    None,
    /// At this offset, because the caller wants only what was there.
    Now(u64),
    /// At this offset, because the writer is gone: an unterminated rest is torn.
    Sealed(u64),
}

/// What a step did.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Something to send.
    Event(Event),
    /// A quantum was read and nothing is to be sent yet: step again.
    Again,
    /// Nothing to do until something happens to the file or its name.
    Idle,
    /// Everything was sent; there is no further step.
    Done,
}

/// Follows one name.
#[derive(Debug)]
pub(crate) struct Reader<N: TailName> {
    name: N,
    framing: Framing,
    sizes: Sizes,
    start: Option<Start>,
    open: Option<OpenFile<N::File>>,
    /// The last position in a file that lost its name: it may come back.
    left: Option<Cursor>,
    limit: Limit,
    events: VecDeque<Event>,
    /// Since when the name has not pointed to the open file while that did not grow.
    nameless_since: Option<Duration>,
    leaving: bool,
    verified_at: Duration,
    name_is_sure: bool,
    done: bool,
}

impl<N: TailName> Reader<N> {
    pub(crate) fn new(name: N, framing: Framing, start: Start, sizes: Sizes) -> Self {
        Self {
            name,
            framing,
            sizes,
            start: Some(start),
            open: None,
            left: None,
            limit: Limit::None,
            events: VecDeque::new(),
            nameless_since: None,
            leaving: false,
            verified_at: Duration::ZERO,
            name_is_sure: false,
            done: false,
        }
    }

    /// Opens the file if the name has one. A start relative to the end of a file that does
    /// not exist yet means its beginning.
    pub(crate) fn open_first(&mut self) -> io::Result<bool> {
        if self.open.is_none() {
            self.reopen()?;
        }
        if self.open.is_none() && matches!(self.start, Some(Start::End | Start::LastBytes(_))) {
            self.start = Some(Start::Beginning);
        }
        Ok(self.open.is_some())
    }

    /// Ends the tail at what is there now.
    pub(crate) fn end_at_current_size(&mut self) -> io::Result<()> {
        let size = self.size()?;
        self.limit = Limit::Now(size);
        Ok(())
    }

    /// The writer is gone: the tail ends at `size`, or with `None` at what is there now.
    pub(crate) fn seal(&mut self, size: Option<u64>) -> io::Result<()> {
        // It may have come and got its last byte since the last look.
        self.open_first()?;
        let now = self.size()?;
        self.limit = Limit::Sealed(size.unwrap_or(now).min(now));
        Ok(())
    }

    /// Whether it is known where the tail ends.
    pub(crate) fn has_limit(&self) -> bool {
        self.limit != Limit::None
    }

    /// Length of the open file; 0 without one.
    pub(crate) fn size(&self) -> io::Result<u64> {
        self.open.as_ref().map_or(Ok(0), |open| open.file.size())
    }

    /// How far the reader is behind the size it saw last.
    pub(crate) fn lag(&self) -> u64 {
        self.open.as_ref().map_or(0, OpenFile::lag)
    }

    /// Whether the file lost its name and is about to be left: look again soon.
    pub(crate) fn is_leaving(&self) -> bool {
        self.nameless_since.is_some()
    }

    /// The open file.
    pub(crate) fn file(&self) -> Option<&N::File> {
        self.open.as_ref().map(|open| &open.file)
    }

    /// Where a client that saw everything so far resumes.
    pub(crate) fn cursor(&self) -> Cursor {
        if let Some(open) = &self.open {
            return open.cursor();
        }
        match (&self.left, &self.start) {
            (Some(left), _) => left.clone(),
            (None, Some(Start::Cursor(cursor))) => cursor.clone(),
            (None, _) => Cursor::default(),
        }
    }

    /// Whether the caller knows that the name still leads to the open file: the next step that
    /// comes to the file's end does not look then.
    pub(crate) fn trust_name(&mut self, is_sure: bool) {
        self.name_is_sure = is_sure;
    }

    /// Makes at most one read. `now` is the boottime.
    pub(crate) fn step(&mut self, now: Duration) -> io::Result<Step> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Step::Event(event));
        }
        if self.done {
            return Ok(Step::Done);
        }
        let end = self.end();
        let Some(open) = &mut self.open else {
            return self.step_without_file();
        };
        match open.look(self.framing, &self.sizes, end)? {
            Look::Frame(event) => {
                self.nameless_since = None;
                Ok(Step::Event(event))
            }
            Look::Read => {
                self.nameless_since = None;
                Ok(Step::Again)
            }
            Look::Shrunk(size) => self.truncated(size),
            Look::Other => self.rewritten(),
            Look::End => self.at_end(now),
        }
    }

    /// Where the open file ends for this tail; the flag says that its rest is torn.
    fn end(&self) -> (Option<u64>, bool) {
        match self.limit {
            Limit::Sealed(size) => (Some(size), true),
            Limit::Now(size) => (Some(size), self.leaving),
            Limit::None => (None, self.leaving),
        }
    }

    fn step_without_file(&mut self) -> io::Result<Step> {
        if self.limit != Limit::None {
            self.done = true;
            return Ok(Step::Event(Event::End(End {
                cursor: Some(self.cursor()),
                late_bytes: 0,
            })));
        }
        self.reopen()?;
        Ok(self.events.pop_front().map_or(Step::Idle, Step::Event))
    }

    /// Opens what the name points to and queues `opened`, with a `gap` where the wanted
    /// position cannot be had.
    fn reopen(&mut self) -> io::Result<()> {
        let Some(file) = self.name.open()? else {
            return Ok(());
        };
        let mut open = OpenFile::begin(file)?;
        let mut gap = None;
        match (self.start.take(), self.left.take()) {
            (Some(Start::Cursor(cursor)), _) => {
                if let Err(reason) = open.resume(&cursor, self.framing, true)? {
                    gap = Some(Gap {
                        from: cursor.offset,
                        reason: reason.into(),
                    });
                }
            }
            (Some(Start::End), _) => open.seek_before_end(0, self.framing)?,
            (Some(Start::LastBytes(bytes)), _) => open.seek_before_end(bytes, self.framing)?,
            (Some(Start::Beginning), _) | (None, None) => {}
            // Not the same file: it begins at 0, as the `removed` before it says.
            (None, Some(left)) => {
                let _ = open.resume(&left, self.framing, false)?;
            }
        }
        self.events.push_back(Event::Opened(Opened {
            generation: Some(open.generation()),
            size: open.size,
        }));
        self.events.extend(gap.map(Event::Gap));
        self.open = Some(open);
        self.nameless_since = None;
        self.leaving = false;
        Ok(())
    }

    fn truncated(&mut self, size: u64) -> io::Result<Step> {
        let Some(open) = &mut self.open else {
            return Ok(Step::Again);
        };
        open.restart()?;
        self.shorten_limit(size);
        Ok(Step::Event(Event::Truncated(Truncated { size })))
    }

    /// The same file with other bytes before the position.
    fn rewritten(&mut self) -> io::Result<Step> {
        let Some(open) = &mut self.open else {
            return Ok(Step::Again);
        };
        open.restart()?;
        let (generation, size) = (open.generation(), open.size);
        self.shorten_limit(size);
        self.events.push_back(Event::Opened(Opened {
            generation: Some(generation.clone()),
            size,
        }));
        Ok(Step::Event(Event::Replaced(Replaced {
            generation: Some(generation),
        })))
    }

    fn shorten_limit(&mut self, size: u64) {
        self.limit = match self.limit {
            Limit::None => Limit::None,
            Limit::Now(limit) => Limit::Now(limit.min(size)),
            Limit::Sealed(limit) => Limit::Sealed(limit.min(size)),
        };
    }

    fn at_end(&mut self, now: Duration) -> io::Result<Step> {
        let Some(open) = &mut self.open else {
            return Ok(Step::Idle);
        };
        if self.limit != Limit::None {
            self.done = true;
            let (limit, _) = self.end();
            let open = self.open.as_ref();
            let size = open.map_or(Ok(0), |open| open.file.size())?;
            return Ok(Step::Event(Event::End(End {
                cursor: Some(self.cursor()),
                late_bytes: size.saturating_sub(limit.unwrap_or(size)),
            })));
        }
        if self.leaving {
            return self.leave();
        }
        if now.saturating_sub(self.verified_at) >= self.sizes.verify_every {
            self.verified_at = now;
            if !open.is_unchanged()? {
                return self.rewritten();
            }
        }
        if self.name_is_sure && self.nameless_since.is_none() {
            return Ok(Step::Idle);
        }
        let identity = open.file.identity();
        let named = self.name.identity()?;
        let same = named
            .is_some_and(|named| (named.device, named.inode) == (identity.device, identity.inode));
        if same {
            self.nameless_since = None;
            return Ok(Step::Idle);
        }
        let since = *self.nameless_since.get_or_insert(now);
        if now.saturating_sub(since) < self.sizes.leave_after {
            return Ok(Step::Idle);
        }
        // A writer that still had it would have written by now. Its unterminated rest is sent
        // as torn, then the name's new file is opened.
        self.leaving = true;
        Ok(Step::Again)
    }

    fn leave(&mut self) -> io::Result<Step> {
        self.left = Some(self.cursor());
        self.leaving = false;
        self.nameless_since = None;
        // Held until the next file is open, so that its inode number is not used again.
        let held = self.open.take();
        self.reopen()?;
        drop(held);
        match &self.open {
            None => Ok(Step::Event(Event::Removed(Removed {}))),
            Some(open) => Ok(Step::Event(Event::Replaced(Replaced {
                generation: Some(open.generation()),
            }))),
        }
    }
}
