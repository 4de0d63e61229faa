//! Writing `journal.jsonl`: one line per record, durable when the call returns.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::run_dir::{
    Delivery, JOURNAL, JournalRead, JournalRecord, Reserve, RunDir, is_full, read_journal,
};

/// Records that could not be written even with the reserve; more are not kept.
const BACKLOG_MAX: usize = 64;
/// One record, read back.
const LINE_BYTES: usize = 64 * 1024;

/// The writer. Ids are remembered as hashes with the place of their latest record: 16 bytes
/// per delivery, so that a long session stays within the keeper's 4 MB.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    length: u64,
    reserve: Reserve,
    index: HashMap<u64, u64>,
    backlog: Vec<JournalRecord>,
}

impl Journal {
    /// Opens the journal and passes each record that is in it already to `visit`. A torn
    /// last line is closed by a newline: it stays as it is, and spoils nothing after it.
    pub(super) fn open(
        dir: &RunDir,
        reserve: Reserve,
        mut visit: impl FnMut(&JournalRecord),
    ) -> io::Result<(Self, JournalRead)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND;
        let mut file = dir.open_file(JOURNAL, flags)?;
        let mut index = HashMap::new();
        let read = read_journal(dir, |offset, record| {
            visit(&record);
            if let Some((id, _)) = Delivery::of(record) {
                index.insert(hash(&id), offset);
            }
        })?;
        if read.torn_end {
            file.write_all(b"\n")?;
        }
        let length = file.metadata()?.len();
        let journal = Self {
            file,
            length,
            reserve,
            index,
            backlog: Vec::new(),
        };
        Ok((journal, read))
    }

    /// Appends a record whose absence would forbid what it announces. Never uses the
    /// reserve.
    ///
    /// # Errors
    /// The file system's; then nothing of the record is in the journal.
    pub(super) fn append(&mut self, record: &JournalRecord) -> io::Result<()> {
        self.flush_backlog()?;
        self.write(record)
    }

    /// Appends a record of what has happened already: from the reserve if need be; kept in
    /// memory until the next try if even that is used up.
    pub(super) fn append_fact(&mut self, record: JournalRecord) {
        let written = self.flush_backlog().and_then(|()| self.write(&record));
        let Err(error) = written else { return };
        let again = is_full(&error) && self.reserve.free();
        if again && self.flush_backlog().is_ok() && self.write(&record).is_ok() {
            return;
        }
        if self.backlog.len() < BACKLOG_MAX {
            self.backlog.push(record);
        }
    }

    /// Tries again what could not be written; true when nothing is left.
    pub(super) fn settle(&mut self) -> bool {
        self.flush_backlog().is_ok()
    }

    /// Records wait for space.
    pub(super) fn is_behind(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Frees the reserve for another file of the run; true the first time.
    pub(super) fn free_reserve(&mut self) -> bool {
        self.reserve.free()
    }

    fn flush_backlog(&mut self) -> io::Result<()> {
        while let Some(record) = self.backlog.first().cloned() {
            self.write(&record)?;
            self.backlog.remove(0);
        }
        Ok(())
    }

    fn write(&mut self, record: &JournalRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record).map_err(io::Error::other)?;
        line.push(b'\n');
        let written = self
            .file
            .write_all(&line)
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Half a line would glue itself to the next one.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        if let Some((id, _)) = Delivery::of(record.clone()) {
            self.index.insert(hash(&id), self.length);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// What the journal says about a delivery.
    ///
    /// # Errors
    /// Any failure to read: then it may or may not be known.
    pub(super) fn find(&self, dir: &RunDir, id: &str) -> io::Result<Option<Delivery>> {
        let waiting = self.backlog.iter().rev().cloned();
        let mut waiting = waiting.filter_map(Delivery::of);
        if let Some((_, delivery)) = waiting.find(|(other, _)| other == id) {
            return Ok(Some(delivery));
        }
        let Some(offset) = self.index.get(&hash(id)) else {
            return Ok(None);
        };
        let mut line = vec![0; LINE_BYTES];
        let read = self.file.read_at(&mut line, *offset)?;
        line.truncate(read);
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        match serde_json::from_slice(line).ok().and_then(Delivery::of) {
            Some((other, delivery)) if other == id => Ok(Some(delivery)),
            // Two ids with one hash, or a line that does not read back: look properly.
            _ => Delivery::find(dir, id),
        }
    }
}

fn hash(id: &str) -> u64 {
    let digest = Sha256::digest(id.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::EndKind;

    fn start(id: &str) -> JournalRecord {
        JournalRecord::Start {
            at_us: 1,
            id: id.into(),
            bytes: 5,
            digest: String::new(),
            stream_before: 9,
        }
    }

    fn end(id: &str) -> JournalRecord {
        JournalRecord::End {
            at_us: 2,
            id: id.into(),
            outcome: EndKind::Delivered,
            written: 5,
            stream_before: 9,
            stream_after: 11,
        }
    }

    #[test]
    fn the_latest_record_of_an_id_answers_also_after_a_reopen_behind_a_torn_line() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::open(temp.path()).unwrap();
        let (mut journal, _) = Journal::open(&dir, Reserve::none(), |_| ()).unwrap();
        journal.append(&start("a")).unwrap();
        journal.append_fact(end("a"));
        journal.append(&start("b")).unwrap();
        assert!(matches!(
            journal.find(&dir, "a").unwrap(),
            Some(Delivery::Ended {
                stream_after: 11,
                ..
            })
        ));
        drop(journal);
        let path = temp.path().join(JOURNAL);
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(b"{\"t\":\"end\",\"id\":\"b").unwrap();
        let mut seen = 0;
        let (mut journal, read) = Journal::open(&dir, Reserve::none(), |_| seen += 1).unwrap();
        assert!(read.torn_end);
        assert_eq!(seen, 3);
        assert!(matches!(
            journal.find(&dir, "b").unwrap(),
            Some(Delivery::Started { .. })
        ));
        journal.append(&start("c")).unwrap();
        assert!(journal.find(&dir, "c").unwrap().is_some());
        assert_eq!(journal.find(&dir, "d").unwrap(), None);
        assert_eq!(read_journal(&dir, |_, _| ()).unwrap().damaged, 1);
    }
}
