//! Bytes cut into lines, each a JSON object that says where it stands and where to go on.

use std::{fmt::Write as _, io::Write as _};

/// Longest line that is printed as one JSON object; a longer one comes in pieces.
const LINE_BYTES: usize = 1024 * 1024;

/// Cuts the bytes of one run into lines. Holds at most one piece.
#[derive(Debug, Default)]
pub(super) struct Lines {
    run: u32,
    rest: Vec<u8>,
    /// Offset of the first byte of `rest`.
    offset: u64,
}

impl Lines {
    /// Takes bytes that follow the last ones; whole lines and pieces go to `printed`.
    pub(super) fn take(&mut self, run: u32, offset: u64, bytes: &[u8], printed: &mut Vec<u8>) {
        self.run = run;
        let mut at = offset;
        let mut left = bytes;
        while !left.is_empty() {
            if self.rest.is_empty() {
                self.offset = at;
            }
            let room = left.len().min(LINE_BYTES - self.rest.len());
            let newline = memchr::memchr(b'\n', &left[..room]);
            let (piece, next) = left.split_at(newline.unwrap_or(room));
            self.rest.extend_from_slice(piece);
            at += piece.len() as u64;
            left = next;
            if newline.is_some() {
                left = &left[1..];
                at += 1;
                self.print(self.rest.len(), at, "", printed);
            } else if self.rest.len() == LINE_BYTES {
                // A character is not cut in two: what has come of it goes with the next piece.
                let size = whole(&self.rest);
                let next = self.offset + size as u64;
                self.print(size, next, "continues", printed);
            }
        }
    }

    /// The last line may lack its newline.
    pub(super) fn end(&mut self, printed: &mut Vec<u8>) {
        if !self.rest.is_empty() {
            let next = self.offset + self.rest.len() as u64;
            self.print(self.rest.len(), next, "torn", printed);
        }
    }

    /// Prints the first `size` bytes that are held; `next` is where one goes on.
    fn print(&mut self, size: usize, next: u64, mark: &str, printed: &mut Vec<u8>) {
        let (line, left) = self.rest.split_at(size);
        // Checked at once: a line is UTF-8 as a rule, and then nothing is copied.
        let (text, lossy) = match std::str::from_utf8(line) {
            Ok(text) => (text.into(), false),
            Err(_) => (String::from_utf8_lossy(line), true),
        };
        let mut head = String::new();
        let (run, offset) = (self.run, self.offset);
        let _ = write!(
            head,
            r#"{{"run":{run},"offset":"{offset}","next":"{next}","line":"#
        );
        printed.extend_from_slice(head.as_bytes());
        // Writing into memory, and a text: neither fails.
        let _ = serde_json::to_writer(&mut *printed, &text);
        for mark in [mark, if lossy { "lossy" } else { "" }] {
            if !mark.is_empty() {
                let _ = write!(printed, r#","{mark}":true"#);
            }
        }
        printed.extend_from_slice(b"}\n");
        let left = left.to_vec();
        self.offset = next;
        self.rest.clear();
        self.rest.extend_from_slice(&left);
    }
}

/// How many of the bytes form whole characters, but for at most three at the end.
fn whole(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let lead = bytes[from..].iter().rposition(|byte| byte & 0xc0 != 0x80);
    let Some(lead) = lead.map(|at| from + at) else {
        return bytes.len();
    };
    let needed = match bytes[lead] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if bytes.len() - lead < needed {
        lead
    } else {
        bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut printed = Vec::new();
        let mut offset = 0;
        for chunk in chunks {
            lines.take(1, offset, chunk, &mut printed);
            offset += chunk.len() as u64;
        }
        lines.end(&mut printed);
        let text = String::from_utf8(printed).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_have_their_offsets_however_the_bytes_come() {
        let whole = cut(&[b"one\n\ntwo\nto"]);
        assert_eq!(
            whole,
            [
                r#"{"run":1,"offset":"0","next":"4","line":"one"}"#,
                r#"{"run":1,"offset":"4","next":"5","line":""}"#,
                r#"{"run":1,"offset":"5","next":"9","line":"two"}"#,
                r#"{"run":1,"offset":"9","next":"11","line":"to","torn":true}"#,
            ]
        );
        let bytes = b"one\n\ntwo\nto";
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(cut(&single), whole);
    }

    #[test]
    fn a_giant_line_comes_in_pieces_that_join_to_it() {
        // The euro sign has three bytes: the bound falls into one.
        let giant = "€".repeat(LINE_BYTES);
        let text = format!("{giant}\nend\n");
        for size in [1 << 18, 1000, text.len()] {
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let printed = cut(&chunks);
            let mut joined = String::new();
            let mut next = 0;
            for line in &printed {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["offset"], next.to_string());
                assert_eq!(line.get("lossy"), None);
                next = line["next"].as_str().unwrap().parse().unwrap();
                joined.push_str(line["line"].as_str().unwrap());
                if line.get("continues").is_none() {
                    joined.push('\n');
                }
            }
            assert_eq!(next, text.len() as u64);
            assert!(joined == text, "{} pieces", printed.len());
        }
    }

    #[test]
    fn what_is_no_text_is_marked() {
        assert_eq!(
            cut(&[b"caf\xe9\n"]),
            ["{\"run\":1,\"offset\":\"0\",\"next\":\"5\",\"line\":\"caf\u{fffd}\",\"lossy\":true}"]
        );
    }
}
