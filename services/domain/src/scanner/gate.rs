//! Keeps from the parser what it would have to hold: the parser collects every string whole,
//! so of a long one it is shown the beginning only.

use crate::limits;

/// Longest number that is looked at.
const NUMBER_BYTES: u32 = 1_024;

/// What happens to a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// The parser sees it.
    Feed,
    /// It is the inside of a long string.
    Drop,
    /// It cannot be in JSON here.
    Refuse,
}

/// Place of a string's raw bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The parser has only its beginning.
    pub(super) long: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    No,
    /// After a backslash.
    Begun,
    /// In `\uXXXX`: digits left, value so far.
    Unicode(u8, u32),
}

/// Follows strings byte by byte.
#[derive(Debug)]
pub(super) struct Gate {
    inside: bool,
    escape: Escape,
    /// The first half of a surrogate pair was seen; the string is not cut before the second.
    pair: bool,
    span: Span,
    /// Bytes of the token outside of strings.
    token: u32,
    begun: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            inside: false,
            escape: Escape::No,
            pair: false,
            span: Span::default(),
            token: 0,
            begun: false,
        }
    }
}

impl Gate {
    /// What to do with `byte` at `place`.
    pub(super) fn admit(&mut self, byte: u8, place: u64) -> Pass {
        if !self.inside {
            return self.outside(byte, place);
        }
        if byte < 0x20 {
            return Pass::Refuse;
        }
        if self.escape == Escape::No && byte == b'"' {
            self.inside = false;
            return Pass::Feed;
        }
        // Cut only between characters: the parser must never hold half an escape.
        let second_half = self.pair && byte == b'\\';
        let between = self.escape == Escape::No && !second_half;
        if between && self.span.length >= limits::SCANNED_STRING_BYTES as u64 {
            self.span.long = true;
        }
        self.span.length += 1;
        self.follow(byte);
        if self.span.long {
            Pass::Drop
        } else {
            Pass::Feed
        }
    }

    /// Place of the string that ended last.
    pub(super) fn span(&self) -> Span {
        self.span
    }

    /// Something that is no space was seen.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    fn outside(&mut self, byte: u8, place: u64) -> Pass {
        self.begun |= !byte.is_ascii_whitespace();
        if byte == b'"' {
            self.inside = true;
            self.escape = Escape::No;
            self.pair = false;
            self.span = Span {
                offset: place + 1,
                length: 0,
                long: false,
            };
        }
        let is_token = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        self.token = if is_token { self.token + 1 } else { 0 };
        if self.token > NUMBER_BYTES {
            return Pass::Refuse;
        }
        Pass::Feed
    }

    fn follow(&mut self, byte: u8) {
        self.escape = match self.escape {
            Escape::No if byte == b'\\' => Escape::Begun,
            Escape::No => {
                self.pair = false;
                Escape::No
            }
            Escape::Begun if byte == b'u' => Escape::Unicode(4, 0),
            Escape::Begun => {
                self.pair = false;
                Escape::No
            }
            Escape::Unicode(left, value) => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                let value = value * 16 + digit;
                if left > 1 {
                    Escape::Unicode(left - 1, value)
                } else {
                    self.pair = (0xD800..0xDC00).contains(&value);
                    Escape::No
                }
            }
        };
    }
}
