//! Tables, and a model: random writers, rotations and readers over files in memory.

mod model;
mod table;

use std::{cell::RefCell, io, rc::Rc, time::Duration};

use super::*;

pub(super) const SIZES: Sizes = Sizes {
    quantum: 16,
    max_line: 48,
    leave_after: Duration::from_secs(1),
    verify_every: Duration::from_secs(1),
};

#[derive(Debug, Clone)]
pub(super) struct MemFile {
    identity: Identity,
    bytes: Rc<RefCell<Vec<u8>>>,
}

/// One name and the file under it.
#[derive(Debug, Clone, Default)]
pub(super) struct MemName {
    now: Rc<RefCell<Option<MemFile>>>,
    made: Rc<RefCell<u64>>,
}

impl MemName {
    pub(super) fn create(&self) -> MemFile {
        *self.made.borrow_mut() += 1;
        let made = *self.made.borrow();
        let file = MemFile {
            // Two inode numbers only: they are used again, as on a real disk.
            identity: Identity {
                device: 1,
                inode: made % 2,
                birth_ns: i64::try_from(made).unwrap(),
            },
            bytes: Rc::default(),
        };
        *self.now.borrow_mut() = Some(file.clone());
        file
    }

    pub(super) fn with(text: &[u8]) -> (Self, MemFile) {
        let name = Self::default();
        let file = name.create();
        file.append(text);
        (name, file)
    }

    pub(super) fn remove(&self) -> Option<MemFile> {
        self.now.borrow_mut().take()
    }

    pub(super) fn put(&self, file: MemFile) {
        *self.now.borrow_mut() = Some(file);
    }
}

impl MemFile {
    pub(super) fn append(&self, text: &[u8]) {
        self.bytes.borrow_mut().extend_from_slice(text);
    }

    pub(super) fn truncate(&self, len: usize) {
        self.bytes.borrow_mut().truncate(len);
    }

    pub(super) fn rewrite(&self, text: &[u8]) {
        *self.bytes.borrow_mut() = text.to_vec();
    }
}

impl TailFile for MemFile {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.borrow();
        let from = usize::try_from(offset).unwrap().min(bytes.len());
        let len = buf.len().min(bytes.len() - from);
        buf[..len].copy_from_slice(&bytes[from..from + len]);
        Ok(len)
    }
}

impl TailName for MemName {
    type File = MemFile;

    fn open(&self) -> io::Result<Option<MemFile>> {
        Ok(self.now.borrow().clone())
    }

    fn identity(&self) -> io::Result<Option<Identity>> {
        Ok(self.now.borrow().as_ref().map(|file| file.identity))
    }
}

pub(super) fn lines(name: &MemName, start: Start) -> Reader<MemName> {
    Reader::new(name.clone(), Framing::Lines, start, SIZES)
}

/// Steps until there is nothing to do at `seconds`, and shows the events in short.
pub(super) fn drain(reader: &mut Reader<MemName>, seconds: u64) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..100_000 {
        match reader.step(Duration::from_secs(seconds)).unwrap() {
            Step::Event(event) => seen.push(show(&event)),
            Step::Again => {}
            Step::Idle | Step::Done => return seen,
        }
    }
    panic!("the reader never rests: {seen:?}");
}

pub(super) fn show(event: &Event) -> String {
    match event {
        Event::Opened(opened) => format!("opened {}", opened.size),
        Event::Data(data) => format!(
            "{} {:?} next {}{}{}",
            data.offset,
            String::from_utf8_lossy(&data.bytes),
            data.next.as_ref().unwrap().offset,
            if data.line_continues {
                " continues"
            } else {
                ""
            },
            if data.torn { " torn" } else { "" },
        ),
        Event::LongLine(line) => format!(
            "long {}+{} next {}{}",
            line.offset,
            line.length,
            line.next.as_ref().unwrap().offset,
            if line.torn { " torn" } else { "" }
        ),
        Event::Truncated(truncated) => format!("truncated {}", truncated.size),
        Event::Replaced(_) => "replaced".to_owned(),
        Event::Gap(gap) => format!("gap {} {}", gap.from, gap.reason().as_str_name()),
        Event::Removed(_) => "removed".to_owned(),
        Event::Progress(_) => "progress".to_owned(),
        Event::End(end) => format!(
            "end {} late {}",
            end.cursor.as_ref().unwrap().offset,
            end.late_bytes
        ),
    }
}
