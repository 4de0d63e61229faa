//! Reading `journal.jsonl`, with bounded memory and whatever a crash left in it.

use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, Read as _},
};

use muster_proto::keeper as wire;
use rustix::fs::OFlags;

use super::{EndKind, JOURNAL, JournalRecord, RunDir};

/// A longer line was not written by us.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// What one pass over a journal met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalRead {
    /// Complete lines.
    pub lines: u64,
    /// Lines that are no record, the unterminated one at the end included.
    pub damaged: u64,
    /// The last line has no newline: its writer died.
    pub torn_end: bool,
}

/// Calls `visit` with each record and the offset of its line, in order. A journal that does
/// not exist has no records. Damaged lines are counted and passed over.
///
/// # Errors
/// Any failure to read.
pub fn read_journal(
    dir: &RunDir,
    mut visit: impl FnMut(u64, JournalRecord),
) -> io::Result<JournalRead> {
    let file = match dir.open_file(JOURNAL, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(JournalRead::default()),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::new(file);
    let mut seen = JournalRead::default();
    let mut offset = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(seen);
        }
        let complete = line.last() == Some(&b'\n');
        match serde_json::from_slice(&line) {
            Ok(record) if complete => visit(offset, record),
            _ => seen.damaged += 1,
        }
        seen.lines += u64::from(complete);
        seen.torn_end = !complete;
        offset += read as u64;
    }
}

/// What the journal says about one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It began and has no end: being written by the living keeper, or torn by the death of
    /// an earlier one; then some, all or none of its bytes are in the pipe.
    Started {
        /// Length of the payload.
        bytes: u64,
        /// Size of the stream before the first byte.
        stream_before: u64,
    },
    /// It ended.
    Ended {
        /// How.
        outcome: EndKind,
        /// Bytes of the payload in the pipe.
        written: u64,
        /// Size of the stream before the first byte.
        stream_before: u64,
        /// Size of the stream after the last byte.
        stream_after: u64,
    },
}

impl Delivery {
    /// The delivery that a record is about.
    pub fn of(record: JournalRecord) -> Option<(String, Self)> {
        match record {
            JournalRecord::Start {
                id,
                bytes,
                stream_before,
                ..
            } => Some((
                id,
                Self::Started {
                    bytes,
                    stream_before,
                },
            )),
            JournalRecord::End {
                id,
                outcome,
                written,
                stream_before,
                stream_after,
                ..
            } => Some((
                id,
                Self::Ended {
                    outcome,
                    written,
                    stream_before,
                    stream_after,
                },
            )),
            _ => None,
        }
    }

    /// Looks one delivery up; `None` when the journal has never seen it.
    ///
    /// # Errors
    /// Any failure to read.
    pub fn find(dir: &RunDir, delivery_id: &str) -> io::Result<Option<Self>> {
        let mut found = None;
        read_journal(dir, |_, record| {
            if let Some((id, delivery)) = Self::of(record)
                && id == delivery_id
            {
                found = Some(delivery);
            }
        })?;
        Ok(found)
    }

    /// The deliveries that began and never ended: at most one, unless keepers died often.
    ///
    /// # Errors
    /// Any failure to read.
    pub fn open_ones(dir: &RunDir) -> io::Result<Vec<String>> {
        let mut open: HashMap<String, u64> = HashMap::new();
        read_journal(dir, |offset, record| match Self::of(record) {
            Some((id, Self::Started { .. })) => {
                open.insert(id, offset);
            }
            Some((id, Self::Ended { .. })) => {
                open.remove(&id);
            }
            None => {}
        })?;
        let mut open: Vec<_> = open.into_iter().collect();
        open.sort_by_key(|(_, offset)| *offset);
        Ok(open.into_iter().map(|(id, _)| id).collect())
    }

    /// The answer for whoever asks without a keeper: `run_ended` once nothing more can be
    /// written. A torn delivery is `InFlight` while the program lives and `Exited` with its
    /// whole length after: its bytes may all have been taken, so nobody may send it again
    /// on the strength of this answer.
    pub fn outcome(&self, delivery_id: &str, run_ended: bool) -> wire::Outcome {
        let id = delivery_id.to_owned();
        match *self {
            Self::Started {
                bytes,
                stream_before,
            } => wire::Outcome {
                delivery_id: id,
                kind: if run_ended {
                    wire::OutcomeKind::Exited
                } else {
                    wire::OutcomeKind::InFlight
                }
                .into(),
                stream_size_before: stream_before,
                bytes_written: if run_ended { bytes } else { 0 },
                already: run_ended,
                ..wire::Outcome::default()
            },
            Self::Ended {
                outcome,
                written,
                stream_before,
                stream_after,
            } => wire::Outcome {
                delivery_id: id,
                kind: wire::OutcomeKind::from(outcome).into(),
                stream_size_before: stream_before,
                stream_size_after: stream_after,
                bytes_written: written,
                busy_with: String::new(),
                already: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_is_counted_and_hides_nothing_before_it() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::open(temp.path()).unwrap();
        assert_eq!(
            read_journal(&dir, |_, _| ()).unwrap(),
            JournalRead::default()
        );
        let text = concat!(
            r#"{"t":"start","at_us":1,"id":"a","bytes":3,"stream_before":7,"later":true}"#,
            "\nnot a record\n",
            r#"{"t":"from_next_year","x":1}"#,
            "\n",
            r#"{"t":"end","at_us":2,"id":"a","outcome":"delivered","written":3,"#,
        );
        std::fs::write(temp.path().join(JOURNAL), text).unwrap();
        let mut records = Vec::new();
        let seen = read_journal(&dir, |offset, record| records.push((offset, record))).unwrap();
        assert_eq!(
            seen,
            JournalRead {
                lines: 3,
                damaged: 2,
                torn_end: true
            }
        );
        assert_eq!(records.len(), 2);
        assert_eq!(records[1].1, JournalRecord::Other);
        assert_eq!(Delivery::open_ones(&dir).unwrap(), ["a"]);
        let torn = Delivery::find(&dir, "a").unwrap().unwrap();
        let outcome = torn.outcome("a", true);
        assert_eq!(outcome.kind(), wire::OutcomeKind::Exited);
        assert_eq!(outcome.bytes_written, 3);
        assert_eq!(Delivery::find(&dir, "b").unwrap(), None);
    }
}
