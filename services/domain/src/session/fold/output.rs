//! The run's output: bytes become `output` messages (S22).
//!
//! Where messages are cut, and what their ids and texts are, depends on the bytes alone, not
//! on the pieces in which they come. So a crash between two commits produces the same again.

use super::{Fold, types::Action};
use crate::{
    MessageId, SessionId, Timestamp,
    feed::Preview,
    id::At,
    limits,
    message::{Body, Kind, Message},
    session::{Damage, Observed, Source},
};

/// Among messages with the same place, output is the last: what was said to the program
/// before its first byte stands above it.
const INDEX: u32 = u32::MAX;
/// Stands for a NUL character, which not every database stores.
const NUL: &str = "\u{2400}";
/// Stands for bytes that are no UTF-8.
const DAMAGED: &str = "\u{fffd}";

/// The output message that grows.
#[derive(Debug)]
pub(super) struct Growing {
    message: Message,
}

impl Growing {
    /// As the store has it; the text stays there.
    pub(super) fn stored(mut message: Message) -> Self {
        if let Body::Text(text) = &mut message.body {
            text.clear();
        }
        Self { message }
    }

    fn room(&self) -> usize {
        let room = limits::OUTPUT_MESSAGE_BYTES.saturating_sub(self.message.bytes);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    fn is_text(&self) -> bool {
        matches!(self.message.body, Body::Text(_))
    }
}

impl Fold {
    pub(super) fn on_bytes(
        &mut self,
        run: u32,
        offset: u64,
        bytes: &[u8],
        next: Vec<u8>,
        now: Timestamp,
    ) {
        if !self.concerns(run) {
            return;
        }
        let consumed = self.state.run.file_consumed();
        if offset > consumed && !self.gap {
            return self.attach_again(now);
        }
        if offset > consumed || (self.gap && offset < consumed) {
            self.jump(offset, now);
        }
        let consumed = self.state.run.file_consumed();
        let end = offset + bytes.len() as u64;
        // What follows the exit record's size is no output of the program.
        let exit = self.state.run.exit.as_ref();
        let end = exit.map_or(end, |exit| end.min(exit.stream_size));
        if end <= consumed {
            return;
        }
        // Both fit, as they are distances within `bytes`.
        let range = (consumed - offset) as usize..(end - offset) as usize;
        self.gap = false;
        self.calls.tail_works();
        self.feed(&bytes[range], false, now);
        self.state.run.consumed = self.state.run.base + end;
        self.state.run.cursor = next;
        self.state.last_activity = self.state.last_activity.max(now);
        if self.stalled_told {
            self.stalled_told = false;
            self.announce(now);
        }
        self.pending.touch(now);
    }

    /// Bytes are lost: what follows, from this place of the file, is a message of its own. In
    /// a file that began anew the place lies before what was consumed: all that is in it is
    /// output that nobody has read, and gets offsets of its own.
    fn jump(&mut self, offset: u64, now: Timestamp) {
        self.end_output(now);
        self.count_damaged_line();
        let run = &mut self.state.run;
        match offset.checked_sub(run.file_consumed()) {
            Some(lost) => run.consumed += lost,
            None => run.base = run.consumed - offset,
        }
        self.announce(now);
    }

    pub(super) fn on_gap(&mut self, run: u32, now: Timestamp) {
        if self.concerns(run) {
            self.gap = true;
            self.damage(Damage::Gap, now);
        }
    }

    pub(super) fn on_truncated(&mut self, run: u32, now: Timestamp) {
        if self.concerns(run) {
            self.gap = true;
            self.damage(Damage::Truncated, now);
        }
    }

    pub(super) fn on_replaced(&mut self, run: u32, now: Timestamp) {
        if self.concerns(run) {
            self.gap = true;
            self.damage(Damage::Replaced, now);
        }
    }

    /// Nothing more can be read, unless the file comes back.
    pub(super) fn on_removed(&mut self, run: u32, now: Timestamp) {
        if self.concerns(run) {
            self.gap = true;
            self.damage(Damage::Removed, now);
            if self.has_ended() {
                self.tail_ended = true;
                self.detach();
            }
        }
    }

    /// The first damage is kept; all of it means that silence proves nothing (S28).
    pub(super) fn damage(&mut self, damage: Damage, now: Timestamp) {
        if self.state.run.damage.is_none() {
            let source = Source::File(self.state.run.consumed);
            let observed = Observed::new(damage, source, now, "s28_stream_damaged");
            self.state.run.damage = Some(observed);
            self.announce(now);
        }
    }

    /// Nothing more is appended to the growing message, and no character is begun.
    pub(super) fn end_output(&mut self, now: Timestamp) {
        self.feed(&[], true, now);
        self.complete(now);
    }

    /// Takes the bytes that follow those before. At the end a begun character counts as
    /// damaged.
    fn feed(&mut self, bytes: &[u8], at_end: bool, now: Timestamp) {
        let begun = std::mem::take(&mut self.state.run.partial);
        let mut place = self.state.run.consumed - begun.len() as u64;
        let joined;
        let bytes = if begun.is_empty() {
            bytes
        } else {
            joined = [&begun, bytes].concat();
            &joined
        };
        for piece in bytes.utf8_chunks() {
            self.valid(place, piece.valid(), now);
            place += piece.valid().len() as u64;
            let invalid = piece.invalid();
            if invalid.is_empty() {
                continue;
            }
            let last = std::ptr::eq(invalid.as_ptr_range().end, bytes.as_ptr_range().end);
            if last && !at_end && is_begun(invalid) {
                self.state.run.partial = invalid.to_vec();
                return;
            }
            self.count_damaged_line();
            self.unit(place, invalid.len(), DAMAGED, now);
            place += invalid.len() as u64;
        }
    }

    fn valid(&mut self, mut place: u64, text: &str, now: Timestamp) {
        if text.contains('\n') {
            self.state.run.line_damaged = false;
        }
        for (index, part) in text.split('\0').enumerate() {
            if index > 0 {
                self.unit(place, 1, NUL, now);
                place += 1;
            }
            self.verbatim(place, part, now);
            place += part.len() as u64;
        }
    }

    /// Appends text as it is, over as many messages as it takes.
    fn verbatim(&mut self, mut place: u64, mut text: &str, now: Timestamp) {
        while !text.is_empty() {
            let room = self.growing(place, now).room();
            let (fits, rest) = text.split_at(text.floor_char_boundary(room));
            if fits.is_empty() {
                self.complete(now);
                continue;
            }
            self.append(fits.len(), fits, now);
            place += fits.len() as u64;
            text = rest;
        }
    }

    /// Appends `shown` for `raw` bytes, whole.
    fn unit(&mut self, place: u64, raw: usize, shown: &str, now: Timestamp) {
        let growing = self.growing(place, now);
        let cost = if growing.is_text() { shown.len() } else { raw };
        if growing.room() < cost {
            self.complete(now);
            self.growing(place, now);
        }
        self.append(raw, shown, now);
    }

    /// The message that grows; at `place` a new one.
    fn growing(&mut self, place: u64, now: Timestamp) -> &mut Growing {
        if self.growing.is_none() {
            self.state.run.outputs += 1;
            self.state.messages += 1;
            let message = self.new_output(place, now);
            // Growth is shown of messages that are committed, and the first piece of one is to
            // be seen at once (F16). There are only a few such messages in a run (S22).
            if matches!(message.body, Body::Text(_)) {
                self.pending.boundary(now);
            } else {
                self.pending.touch(now);
            }
            self.pending.add(&message);
            self.growing = Some(Growing { message });
        }
        self.growing.as_mut().expect("it was just set")
    }

    fn new_output(&self, offset: u64, now: Timestamp) -> Message {
        let spec = &self.state.spec;
        let at = At {
            run: self.state.run.no,
            offset,
        };
        let body = if self.state.run.outputs <= limits::OUTPUT_MESSAGES_STORED {
            Body::Text(String::new())
        } else {
            Body::Reference {
                host: spec.host,
                run: at.run,
                offset: offset.saturating_sub(self.state.run.base),
                length: 0,
            }
        };
        Message {
            id: MessageId::derived(spec.id, at, INDEX),
            session: spec.id,
            turn: self.state.turn.as_ref().map(|turn| turn.id),
            kind: Kind::Output,
            at,
            index: INDEX,
            body,
            bytes: 0,
            complete: false,
            created_at: now,
            updated_at: now,
            sent: None,
        }
    }

    /// Appends what fits to the growing message.
    fn append(&mut self, raw: usize, shown: &str, now: Timestamp) {
        let Some(Growing { message }) = &mut self.growing else {
            return;
        };
        message.updated_at = now;
        if let Body::Reference { length, .. } = &mut message.body {
            *length += raw as u64;
            message.bytes = *length;
            self.pending.change(message);
        } else {
            let from = message.bytes;
            message.bytes += shown.len() as u64;
            self.pending.grow(message, shown);
            self.growth.push(message.session, message.id, from, shown);
        }
    }

    /// The growing message grows no more.
    fn complete(&mut self, now: Timestamp) {
        if let Some(Growing { mut message }) = self.growing.take() {
            message.complete = true;
            message.updated_at = now;
            if matches!(message.body, Body::Text(_)) {
                self.pending.boundary(now);
            } else {
                self.pending.touch(now);
            }
            self.pending.change(&message);
        }
    }

    fn count_damaged_line(&mut self) {
        if !self.state.run.line_damaged {
            self.state.run.line_damaged = true;
            self.state.run.damaged_lines += 1;
        }
    }

    pub(super) fn on_tail_end(&mut self, run: u32, late_bytes: u64, now: Timestamp) {
        if self.state.run.no != run {
            return;
        }
        self.tail_ended = true;
        self.calls.detach();
        if late_bytes != self.state.run.late_bytes {
            self.state.run.late_bytes = late_bytes;
            self.announce(now);
        }
        if self.state.is_over() {
            return;
        }
        match &self.state.run.exit {
            // The record promises bytes that the file does not have.
            Some(exit) if self.state.run.file_consumed() < exit.stream_size => {
                self.damage(Damage::Gap, now);
            }
            // Its file has less than was read of it: it shrank before anybody could see it.
            Some(exit)
                if self.state.run.file_consumed() > exit.stream_size.saturating_add(late_bytes) =>
            {
                self.damage(Damage::Truncated, now);
            }
            Some(_) => {}
            None => self.on_relist(now),
        }
    }

    /// Follows the stream no more.
    pub(super) fn detach(&mut self) {
        if self.calls.is_attached() {
            self.calls.detach();
            let run = self.state.run.no;
            self.at_once(Action::Detach { run });
        }
    }
}

/// These bytes are the beginning of a character.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// The text of the growing message that is not in the store yet (F16).
#[derive(Debug, Default)]
pub(super) struct Growth {
    preview: Option<Preview>,
    /// The commit under way has this message's text up to here.
    taken: Option<(MessageId, u64)>,
    /// There is text that was not shown.
    fresh: bool,
    shown_at: Option<Timestamp>,
}

impl Growth {
    fn push(&mut self, session: SessionId, message: MessageId, from: u64, text: &str) {
        match &mut self.preview {
            Some(preview) if preview.message == message => preview.text.push_str(text),
            Some(_) | None => {
                self.preview = Some(Preview {
                    session,
                    message,
                    from,
                    text: text.to_owned(),
                });
            }
        }
        self.fresh = true;
    }

    /// A commit has everything up to now.
    pub(super) fn taken(&mut self) {
        let end = |preview: &Preview| (preview.message, preview.from + preview.text.len() as u64);
        self.taken = self.preview.as_ref().map(end);
    }

    /// That commit is in the store.
    pub(super) fn committed(&mut self) {
        let Some((message, end)) = self.taken.take() else {
            return;
        };
        if let Some(preview) = self
            .preview
            .as_mut()
            .filter(|preview| preview.message == message)
        {
            // It fits: it is a part of the text.
            preview.text.drain(..(end - preview.from) as usize);
            preview.from = end;
            if preview.text.is_empty() {
                self.preview = None;
                self.fresh = false;
            }
        }
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        let never = Timestamp(i64::MIN);
        let next = |at: Timestamp| at.plus(limits::PREVIEW_EVERY);
        self.fresh.then(|| self.shown_at.map_or(never, next))
    }

    pub(super) fn take(&mut self, now: Timestamp) -> Option<Preview> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        self.fresh = false;
        self.shown_at = Some(now);
        self.preview.clone()
    }

    pub(super) fn current(&self) -> Option<&Preview> {
        self.preview.as_ref()
    }
}
