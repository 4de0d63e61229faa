//! One open file: where it is read, and what its bytes become.

use std::io;

use bytes::{Bytes, BytesMut};
use muster_domain::limits::{GUARD_BYTES, HEAD_BYTES};
use muster_proto::agent::{Cursor, Data, GapReason, Generation, LongLine, follow_response::Event};

use super::super::mark::{Head, Place, generation, short_hash};
use super::{Framing, Sizes, TailFile};

/// What one look at the file showed.
#[derive(Debug, PartialEq)]
pub(super) enum Look {
    Frame(Event),
    /// Bytes were read; nothing to send yet.
    Read,
    /// It is shorter than what was read.
    Shrunk(u64),
    /// What stands before the position is not what was read.
    Other,
    /// Nothing more to read up to the end.
    End,
}

/// A line above one quantum whose newline is known: sent in pieces.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    end: u64,
    torn: bool,
}

#[derive(Debug)]
pub(super) struct OpenFile<F> {
    pub(super) file: F,
    /// Its length when it was looked at last.
    pub(super) size: u64,
    head: Head,
    /// Everything before it was sent; in lines mode the start of a line.
    sent: Place,
    /// Everything before it was read. Behind `sent` stands a line without a newline so far.
    read: Place,
    pieces: Option<Pieces>,
    /// The start was inside of a line: bytes are dropped up to the next newline.
    skipping: bool,
}

impl<F: TailFile> OpenFile<F> {
    /// At the beginning of `file`.
    pub(super) fn begin(file: F) -> io::Result<Self> {
        let size = file.size()?;
        Ok(Self {
            file,
            size,
            head: Head::of(&[]),
            sent: Place::start(),
            read: Place::start(),
            pieces: None,
            skipping: false,
        })
    }

    /// Back to the beginning, after the content changed.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        self.size = self.file.size()?;
        self.sent = Place::start();
        self.read = Place::start();
        self.pieces = None;
        self.skipping = false;
        self.head = Head::of(&[]);
        Ok(())
    }

    pub(super) fn generation(&self) -> Generation {
        generation(self.file.identity(), &self.head)
    }

    pub(super) fn cursor(&self) -> Cursor {
        self.sent.cursor(self.file.identity(), &self.head)
    }

    pub(super) fn lag(&self) -> u64 {
        self.size.saturating_sub(self.read.offset())
    }

    /// Goes to a cursor, or stays at the beginning and says why. A cursor inside of a line
    /// continues at the next line when `skip` is set.
    pub(super) fn resume(
        &mut self,
        cursor: &Cursor,
        framing: Framing,
        skip: bool,
    ) -> io::Result<Result<(), GapReason>> {
        if cursor.offset == 0 {
            return Ok(Ok(()));
        }
        let known = cursor.generation.clone().unwrap_or_default();
        if !self.file.identity().is_named_by(&known) {
            return Ok(Err(GapReason::FileGone));
        }
        if self.size < cursor.offset {
            return Ok(Err(GapReason::Shorter));
        }
        let head = self.bytes_at(0, known.head_bytes.min(HEAD_BYTES as u32) as usize)?;
        if head.len() != known.head_bytes as usize || short_hash(&head)[..] != known.head_hash[..] {
            return Ok(Err(GapReason::GuardMismatch));
        }
        let place = self.place_at(cursor.offset)?;
        match place {
            Some(place) if short_hash(place.before())[..] == cursor.guard[..] => {
                self.go(place, framing, skip);
                self.hash_head()?;
                Ok(Ok(()))
            }
            _ => Ok(Err(GapReason::GuardMismatch)),
        }
    }

    /// Goes to `bytes` before the end, in lines mode to the next line start from there.
    pub(super) fn seek_before_end(&mut self, bytes: u64, framing: Framing) -> io::Result<()> {
        let offset = self.size.saturating_sub(bytes);
        if let Some(place) = self.place_at(offset)? {
            self.go(place, framing, true);
            self.hash_head()?;
        }
        Ok(())
    }

    fn go(&mut self, place: Place, framing: Framing, skip: bool) {
        let mid_line = place.before().last().is_some_and(|byte| *byte != b'\n');
        self.skipping = skip && mid_line && framing == Framing::Lines;
        self.read = place.clone();
        self.sent = place;
    }

    fn place_at(&self, offset: u64) -> io::Result<Option<Place>> {
        let wanted = offset.min(GUARD_BYTES as u64);
        let before = self.bytes_at(offset - wanted, wanted as usize)?;
        Ok((before.len() as u64 == wanted).then(|| Place::at(offset, &before)))
    }

    fn bytes_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut buf = vec![0; len];
        let read = self.file.read_at(offset, &mut buf)?;
        buf.truncate(read);
        Ok(buf)
    }

    /// Only what was read is hashed: what stands behind may change before it is.
    fn hash_head(&mut self) -> io::Result<()> {
        let known = self.sent.offset().min(HEAD_BYTES as u64);
        let head = self.bytes_at(0, known as usize)?;
        self.head = Head::of(&head);
        Ok(())
    }

    /// A short head is hashed again whenever the read part has doubled.
    fn grow_head(&mut self) -> io::Result<()> {
        let len = u64::from(self.head.len);
        let position = self.sent.offset();
        if len < HEAD_BYTES as u64 && position >= (2 * len).clamp(1, HEAD_BYTES as u64) {
            self.hash_head()?;
        }
        Ok(())
    }

    /// Whether the bytes before the position are still those that were read. A shorter file
    /// counts as unchanged here: the next look reports it by its size.
    pub(super) fn is_unchanged(&self) -> io::Result<bool> {
        let place = self.place_at(self.read.offset())?;
        Ok(place.is_none_or(|place| place.before() == self.read.before()))
    }

    /// One look: at most one read of a quantum. `end` is where the tail's part of the file
    /// ends, and whether an unterminated rest there is final.
    pub(super) fn look(
        &mut self,
        framing: Framing,
        sizes: &Sizes,
        end: (Option<u64>, bool),
    ) -> io::Result<Look> {
        self.size = self.file.size()?;
        let known = self.pieces.map_or(self.read.offset(), |pieces| pieces.end);
        if self.size < known {
            return Ok(Look::Shrunk(self.size));
        }
        let limit = end.0.map_or(self.size, |end| end.min(self.size));
        let until = self.pieces.map_or(limit, |pieces| pieces.end);
        if self.read.offset() >= until {
            return self.at_limit(framing, sizes, limit, end.1);
        }
        let wanted = (until - self.read.offset()).min(sizes.quantum as u64) as usize;
        let Some(data) = self.read_guarded(wanted)? else {
            return Ok(Look::Other);
        };
        if data.is_empty() {
            // It shrank in between; the next look says so.
            return Ok(Look::Read);
        }
        let last = self.read.offset() + data.len() as u64 >= until;
        let look = match (framing, self.pieces) {
            (Framing::Lines, Some(pieces)) => self.piece(data, pieces),
            (Framing::Lines, None) if self.skipping => self.skip(&data),
            (Framing::Lines, None) => self.lines(&data, sizes),
            (Framing::Chunks, _) => self.chunk(data, last, end.1),
        };
        self.grow_head()?;
        Ok(look)
    }

    /// The next bytes, or `None` when those before them are not what was read.
    fn read_guarded(&self, wanted: usize) -> io::Result<Option<Bytes>> {
        let before = self.read.before();
        let mut buf = BytesMut::zeroed(before.len() + wanted);
        let from = self.read.offset() - before.len() as u64;
        let read = self.file.read_at(from, &mut buf)?;
        buf.truncate(read);
        if read < before.len() {
            return Ok(Some(Bytes::new()));
        }
        let same = buf[..before.len()] == *before;
        Ok(same.then(|| buf.freeze().slice(before.len()..)))
    }

    /// Complete lines at once; else the search for the newline goes on.
    fn lines(&mut self, data: &Bytes, sizes: &Sizes) -> Look {
        if self.read.offset() == self.sent.offset() {
            return match memchr::memrchr(b'\n', data) {
                Some(at) => self.frame(data.slice(..=at), false, false),
                None => self.searched(data),
            };
        }
        let Some(at) = memchr::memchr(b'\n', data) else {
            return self.searched(data);
        };
        let end = self.read.after(&data[..=at]);
        let length = end.offset() - self.sent.offset();
        if length > sizes.max_line {
            return self.long_line(end, false);
        }
        if length > sizes.quantum as u64 {
            self.pieces = Some(Pieces {
                end: end.offset(),
                torn: false,
            });
        }
        // Read again from the line's start, now that its end is known.
        self.read = self.sent.clone();
        Look::Read
    }

    fn searched(&mut self, data: &[u8]) -> Look {
        self.read.advance(data);
        Look::Read
    }

    fn long_line(&mut self, end: Place, torn: bool) -> Look {
        let offset = self.sent.offset();
        self.read = end.clone();
        self.sent = end;
        Look::Frame(Event::LongLine(LongLine {
            offset,
            length: self.sent.offset() - offset,
            next: Some(self.cursor()),
            torn,
        }))
    }

    fn skip(&mut self, data: &[u8]) -> Look {
        let newline = memchr::memchr(b'\n', data);
        self.read
            .advance(&data[..newline.map_or(data.len(), |at| at + 1)]);
        self.sent = self.read.clone();
        self.skipping = newline.is_none();
        Look::Read
    }

    fn piece(&mut self, data: Bytes, pieces: Pieces) -> Look {
        let end = self.read.offset() + data.len() as u64;
        if end < pieces.end {
            let offset = self.read.offset();
            self.read.advance(&data);
            return Look::Frame(Event::Data(Data {
                offset,
                bytes: data,
                next: Some(self.cursor()),
                line_continues: true,
                torn: false,
            }));
        }
        if !pieces.torn && data.last() != Some(&b'\n') {
            return Look::Other;
        }
        self.pieces = None;
        self.frame(data, false, pieces.torn)
    }

    fn chunk(&mut self, data: Bytes, last: bool, rest_is_torn: bool) -> Look {
        let whole = memchr::memrchr(b'\n', &data).map(|at| at + 1);
        let data = match whole {
            Some(len) if !last => data.slice(..len),
            _ => data,
        };
        let partial = data.last() != Some(&b'\n');
        let torn = partial && last && rest_is_torn;
        self.frame(data, partial && !torn, torn)
    }

    /// Sends `data`, which begins at the read position.
    fn frame(&mut self, data: Bytes, line_continues: bool, torn: bool) -> Look {
        let offset = self.read.offset();
        self.read.advance(&data);
        self.sent = self.read.clone();
        Look::Frame(Event::Data(Data {
            offset,
            bytes: data,
            next: Some(self.cursor()),
            line_continues,
            torn,
        }))
    }

    /// Everything up to the limit was read. What is left of a line is torn when nobody can
    /// end it any more.
    fn at_limit(
        &mut self,
        framing: Framing,
        sizes: &Sizes,
        limit: u64,
        rest_is_torn: bool,
    ) -> io::Result<Look> {
        let rest = limit.saturating_sub(self.sent.offset());
        if !rest_is_torn || framing == Framing::Chunks || rest == 0 {
            return Ok(Look::End);
        }
        if rest > sizes.max_line {
            let end = self.place_at(limit)?;
            return Ok(end.map_or(Look::Read, |end| self.long_line(end, true)));
        }
        self.pieces = Some(Pieces {
            end: limit,
            torn: true,
        });
        self.read = self.sent.clone();
        Ok(Look::Read)
    }
}
