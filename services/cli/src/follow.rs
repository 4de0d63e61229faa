//! Output of a run as it comes: bytes for people, lines for programs.

use std::time::Duration;

use futures_util::{Stream, StreamExt as _, pin_mut};
use muster_client::{Fault, TailEvent};
use serde_json::{Value, json};

use crate::{exit::Failure, out};

/// How long a cut tail tries to go on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Longest line that is printed as one JSON object; a longer one comes in pieces.
const LINE_BYTES: usize = 1024 * 1024;

/// Where the output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    /// Bytes to standard output.
    Stdout,
    /// Bytes to standard error.
    Stderr,
    /// JSON lines to standard output.
    Json,
}

impl Sink {
    fn stream(self) -> out::Stream {
        match self {
            Self::Stdout | Self::Json => out::Stream::Stdout,
            Self::Stderr => out::Stream::Stderr,
        }
    }
}

/// Prints a tail to its real end. A gap is said, and is no end. Cancel safe in that a piece is
/// printed whole or not at all.
pub(crate) async fn print(
    tail: impl Stream<Item = Result<TailEvent, Fault>>,
    sink: Sink,
) -> Result<(), Failure> {
    pin_mut!(tail);
    let mut lines = Lines::default();
    while let Some(event) = tail.next().await {
        let mut printed = Vec::new();
        let mut ended = false;
        match event? {
            TailEvent::Data { offset, bytes, .. } => match sink {
                Sink::Stdout | Sink::Stderr => printed.extend_from_slice(&bytes),
                Sink::Json => lines.take(offset, &bytes, |line| push(&mut printed, line)),
            },
            TailEvent::Gap { from, to, reason } => {
                lines.end(|line| push(&mut printed, line));
                match sink {
                    Sink::Json => push(
                        &mut printed,
                        &json!({
                            "event": "gap", "from": from.to_string(), "to": to.to_string(), "reason": reason
                        }),
                    ),
                    Sink::Stdout | Sink::Stderr => {
                        out::note(&format!(
                            "bytes {from} to {to} of the output cannot be had ({reason})"
                        ));
                    }
                }
            }
            TailEvent::Reconnecting { cause } => out::note(&format!("cut, trying again: {cause}")),
            TailEvent::Progress { .. } => {}
            TailEvent::End { .. } => {
                lines.end(|line| push(&mut printed, line));
                ended = true;
            }
        }
        if !printed.is_empty() {
            out::streamed(sink.stream(), printed).await?;
        }
        if ended {
            return Ok(());
        }
    }
    Err(Failure::failed("the output ended before its end"))
}

fn push(printed: &mut Vec<u8>, line: &Value) {
    printed.extend_from_slice(line.to_string().as_bytes());
    printed.push(b'\n');
}

/// Cuts bytes into lines with their offsets.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
    offset: u64,
}

impl Lines {
    fn take(&mut self, offset: u64, bytes: &[u8], mut emit: impl FnMut(&Value)) {
        let mut at = offset;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.is_empty() {
                self.offset = at;
            }
            at += piece.len() as u64;
            let (line, complete) = match piece.strip_suffix(b"\n") {
                Some(line) => (line, true),
                None => (piece, false),
            };
            self.rest.extend_from_slice(line);
            if complete {
                emit(&self.object(None));
            } else if self.rest.len() >= LINE_BYTES {
                emit(&self.object(Some("continues")));
            }
        }
    }

    /// The last line may lack its newline.
    fn end(&mut self, mut emit: impl FnMut(&Value)) {
        if !self.rest.is_empty() {
            emit(&self.object(Some("torn")));
        }
    }

    fn object(&mut self, mark: Option<&str>) -> Value {
        let bytes = std::mem::take(&mut self.rest);
        let mut object =
            json!({ "offset": self.offset.to_string(), "line": String::from_utf8_lossy(&bytes) });
        if let Some(mark) = mark {
            object[mark] = Value::Bool(true);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut printed = Vec::new();
        let mut offset = 0;
        for chunk in chunks {
            lines.take(offset, chunk, |line| printed.push(line.to_string()));
            offset += chunk.len() as u64;
        }
        lines.end(|line| printed.push(line.to_string()));
        printed
    }

    #[test]
    fn lines_have_their_offsets_however_the_bytes_come() {
        let whole = cut(&[b"one\n\ntwo\nto"]);
        assert_eq!(
            whole,
            [
                r#"{"line":"one","offset":"0"}"#,
                r#"{"line":"","offset":"4"}"#,
                r#"{"line":"two","offset":"5"}"#,
                r#"{"line":"to","offset":"9","torn":true}"#,
            ]
        );
        let bytes = b"one\n\ntwo\nto";
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(cut(&single), whole);
    }

    #[test]
    fn a_giant_line_comes_in_pieces() {
        let giant = vec![b'x'; LINE_BYTES + 5];
        let printed = cut(&[&giant, b"\n"]);
        assert_eq!(printed.len(), 2);
        assert!(printed[0].contains(r#""continues":true"#));
        assert!(
            printed[1].contains(&format!(r#""offset":"{}""#, LINE_BYTES + 5))
                || printed[1].contains(r#""line":"""#)
        );
    }
}
