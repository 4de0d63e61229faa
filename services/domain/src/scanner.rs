//! Scans one long line of JSON in pieces, with bounded memory (docs/adr/0002-long-lines.md).
//!
//! What is small is kept; a string that is long, or that comes when much is kept already,
//! becomes a reference to its place in the stream. So fields that stand behind a big text are
//! found, and the text is not held. Two documents on one line are both read; what is torn or
//! damaged is told, and never stops the caller (R11). The result depends on the bytes alone,
//! not on their pieces.

mod gate;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;

use actson::{JsonEvent, JsonParser, feeder::JsonFeeder, options::JsonParserOptionsBuilder};

use crate::limits;
use gate::{Gate, Pass};
use tree::Tree;

/// A value of a scanned document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it stands there.
    Number(String),
    /// A string, unescaped.
    Text(String),
    /// A string that is not kept: the place of its raw, escaped bytes, without the quotes.
    Reference {
        /// First byte in the stream.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// An array.
    Array(Vec<Node>),
    /// An object, in its order; names may repeat.
    Object(Vec<(String, Node)>),
}

impl Node {
    /// The member with this name; the last one where it repeats. `None` for what is no object.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let Self::Object(members) = self else {
            return None;
        };
        let found = members.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value)
    }

    /// The text of a string that was kept.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Reference { .. }
            | Self::Array(_)
            | Self::Object(_) => None,
        }
    }
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Every byte belongs to a whole document.
    Whole,
    /// The last document is not finished.
    Torn,
    /// From some byte on it is no JSON, or nested too deeply.
    Damaged,
    /// It is too long, or has too many values, to be looked at.
    Opaque,
}

/// A scanned line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scanned {
    /// The whole documents, in order; none of an opaque line.
    pub documents: Vec<Node>,
    /// How the line ended.
    pub ending: Ending,
    /// Its bytes.
    pub length: u64,
}

/// See the module.
pub struct Scanner {
    parser: JsonParser<OneByte>,
    gate: Gate,
    tree: Tree,
    start: u64,
    length: u64,
    failed: Option<Ending>,
}

impl Scanner {
    /// A scanner for the line whose first byte stands at `start` in its stream.
    pub fn new(start: u64) -> Self {
        let options = JsonParserOptionsBuilder::default()
            .with_streaming(true)
            // The parser counts the bottom of its stack.
            .with_max_depth(limits::SCANNED_DEPTH + 1)
            .build();
        Self {
            parser: JsonParser::new_with_options(OneByte::default(), options),
            gate: Gate::default(),
            tree: Tree::default(),
            start,
            length: 0,
            failed: None,
        }
    }

    /// Takes the next bytes of the line.
    pub fn push(&mut self, bytes: &[u8]) {
        let place = self.start + self.length;
        self.length += bytes.len() as u64;
        if self.length > limits::SCANNED_LINE_BYTES {
            self.fail(Ending::Opaque);
        }
        for (index, byte) in bytes.iter().enumerate() {
            if self.failed.is_some() {
                return;
            }
            match self.gate.admit(*byte, place + index as u64) {
                Pass::Feed => self.feed(*byte),
                Pass::Drop => {}
                Pass::Refuse => self.fail(Ending::Damaged),
            }
        }
    }

    /// The line is over.
    pub fn finish(mut self) -> Scanned {
        let mut ending = self.failed;
        if ending.is_none() {
            self.parser.feeder.done = true;
            ending = Some(self.drain_to_end());
        }
        let ending = ending.unwrap_or(Ending::Whole);
        let opaque = ending == Ending::Opaque;
        Scanned {
            documents: if opaque {
                Vec::new()
            } else {
                self.tree.documents
            },
            ending,
            length: self.length,
        }
    }

    fn fail(&mut self, ending: Ending) {
        // Opaque is the stronger word: the whole line is not looked at.
        if self.failed != Some(Ending::Opaque) {
            self.failed = Some(ending);
        }
    }

    fn feed(&mut self, byte: u8) {
        self.parser.feeder.byte = Some(byte);
        loop {
            match self.parser.next_event() {
                Ok(Some(JsonEvent::NeedMoreInput)) => return,
                Ok(Some(event)) => {
                    if let Err(ending) = self.take(event) {
                        return self.fail(ending);
                    }
                }
                Ok(None) => return,
                Err(_) => return self.fail(Ending::Damaged),
            }
        }
    }

    fn drain_to_end(&mut self) -> Ending {
        loop {
            match self.parser.next_event() {
                Ok(None | Some(JsonEvent::NeedMoreInput)) => return Ending::Whole,
                Ok(Some(event)) => {
                    if let Err(ending) = self.take(event) {
                        return ending;
                    }
                }
                // A line of nothing but spaces has no document, and is not torn.
                Err(_) if self.tree.is_between() && !self.gate.has_begun() => {
                    return Ending::Whole;
                }
                Err(_) => return Ending::Torn,
            }
        }
    }

    fn take(&mut self, event: JsonEvent) -> Result<(), Ending> {
        match event {
            JsonEvent::NeedMoreInput => Ok(()),
            JsonEvent::StartObject => self.tree.open_object(),
            JsonEvent::StartArray => self.tree.open_array(),
            JsonEvent::EndObject | JsonEvent::EndArray => self.tree.close(),
            JsonEvent::FieldName => self.tree.name(self.text().ok_or(Ending::Damaged)?),
            JsonEvent::ValueString => {
                let node = self.string();
                self.tree.value(node)
            }
            JsonEvent::ValueInt | JsonEvent::ValueFloat => {
                let number = self.parser.current_str().map_err(|_| Ending::Damaged)?;
                let node = Node::Number(number.to_owned());
                self.tree.value(node)
            }
            JsonEvent::ValueTrue => self.tree.value(Node::Bool(true)),
            JsonEvent::ValueFalse => self.tree.value(Node::Bool(false)),
            JsonEvent::ValueNull => self.tree.value(Node::Null),
        }
    }

    /// The string that just ended, when it is short and UTF-8.
    fn text(&self) -> Option<String> {
        if self.gate.span().long {
            return None;
        }
        self.parser.current_str().ok().map(str::to_owned)
    }

    fn string(&self) -> Node {
        let span = self.gate.span();
        let text = self.text().filter(|text| self.tree.has_room(text.len()));
        text.map_or(
            Node::Reference {
                offset: span.offset,
                length: span.length,
            },
            Node::Text,
        )
    }
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("length", &self.length)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// Gives the parser one byte at a time.
#[derive(Default)]
struct OneByte {
    byte: Option<u8>,
    done: bool,
}

impl JsonFeeder for OneByte {
    fn has_input(&self) -> bool {
        self.byte.is_some()
    }

    fn is_done(&self) -> bool {
        self.done && self.byte.is_none()
    }

    fn next_input(&mut self) -> Option<u8> {
        self.byte.take()
    }
}
