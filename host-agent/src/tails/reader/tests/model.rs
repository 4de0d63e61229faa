//! Random histories. What the writers did is known exactly, so what a reader may and must
//! have seen is too.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    /// Appends a whole line of about this length.
    Line(usize),
    /// Appends a line in two parts, with whatever comes between them.
    Begin(usize),
    Finish,
    /// The reader makes this many steps.
    Steps(u8),
    /// The reader reads everything that can be read now.
    Drain,
    /// The client goes away and resumes from its last cursor.
    Reconnect,
    Rename,
    Truncate,
    Rewrite(u8),
    Delete,
    Create,
    Wait,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0usize..12).prop_map(Op::Line),
        2 => (0usize..90).prop_map(Op::Line),
        2 => (0usize..90).prop_map(Op::Begin),
        2 => Just(Op::Finish),
        4 => (1u8..6).prop_map(Op::Steps),
        3 => Just(Op::Drain),
        1 => Just(Op::Reconnect),
        1 => Just(Op::Rename),
        1 => Just(Op::Truncate),
        1 => (0u8..5).prop_map(Op::Rewrite),
        1 => Just(Op::Delete),
        1 => Just(Op::Create),
        2 => Just(Op::Wait),
    ]
}

struct World {
    name: MemName,
    /// The file that the writer has open; it may have lost its name.
    writer: Option<MemFile>,
    next_line: u32,
    open_line: Option<String>,
    seconds: u64,
    /// Every line that was ever written completely.
    written: BTreeSet<String>,
    /// Lines that were destroyed before the reader had a chance.
    excused: BTreeSet<String>,
    seen: Vec<String>,
    partial: Vec<u8>,
    cursor: Cursor,
    reader: Reader<MemName>,
}

impl World {
    fn new() -> Self {
        let name = MemName::default();
        let writer = name.create();
        Self {
            reader: lines(&name, Start::Beginning),
            name,
            writer: Some(writer),
            next_line: 0,
            open_line: None,
            seconds: 1,
            written: BTreeSet::new(),
            excused: BTreeSet::new(),
            seen: Vec::new(),
            partial: Vec::new(),
            cursor: Cursor::default(),
        }
    }

    fn text(&mut self, len: usize) -> String {
        self.next_line += 1;
        format!("<{}{}>", self.next_line, "-".repeat(len))
    }

    /// Content is about to be destroyed: what was not read yet may be lost.
    fn excuse(&mut self) {
        self.open_line = None;
        let seen: BTreeSet<_> = self.seen.iter().cloned().collect();
        self.excused.extend(self.written.difference(&seen).cloned());
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Line(len) => {
                if self.open_line.is_none() {
                    let text = self.text(*len);
                    self.write_line(text);
                }
            }
            Op::Begin(len) => {
                if let (None, Some(file)) = (&self.open_line, self.writer.clone()) {
                    let text = self.text(*len);
                    let cut = text.len() / 2;
                    file.append(&text.as_bytes()[..cut]);
                    self.open_line = Some(text);
                }
            }
            Op::Finish => {
                if let (Some(text), Some(file)) = (self.open_line.take(), self.writer.clone()) {
                    file.append(&text.as_bytes()[text.len() / 2..]);
                    file.append(b"\n");
                    self.written.insert(text);
                }
            }
            Op::Steps(count) => {
                for _ in 0..*count {
                    self.step();
                }
            }
            Op::Drain => while self.step() {},
            Op::Reconnect => self.reconnect(),
            Op::Rename => self.change_file(true),
            Op::Create => {
                if self.writer.is_none() {
                    self.writer = Some(self.name.create());
                }
            }
            Op::Delete => self.change_file(false),
            Op::Truncate => {
                if let Some(file) = self.writer.clone() {
                    self.excuse();
                    file.truncate(0);
                }
            }
            Op::Rewrite(count) => {
                if let Some(file) = self.writer.clone() {
                    self.excuse();
                    file.truncate(0);
                    for _ in 0..*count {
                        let text = self.text(5);
                        self.write_line(text);
                    }
                }
            }
            Op::Wait => {
                while self.step() {}
                self.seconds += 1;
            }
        }
    }

    /// The writer lets the file go; a following reader reads it to its end all the same, as
    /// long as no second change comes before that.
    fn change_file(&mut self, create: bool) {
        self.settle();
        self.open_line = None;
        self.name.remove();
        self.writer = create.then(|| self.name.create());
    }

    /// The reader gets the time to leave a file that lost its name.
    fn settle(&mut self) {
        for _ in 0..3 {
            while self.step() {}
            self.seconds += 1;
        }
    }

    fn write_line(&mut self, text: String) {
        if let Some(file) = &self.writer {
            file.append(text.as_bytes());
            file.append(b"\n");
            self.written.insert(text);
        }
    }

    fn reconnect(&mut self) {
        self.partial.clear();
        let cursor = self.cursor.clone();
        self.reader = lines(&self.name, Start::Cursor(cursor));
    }

    fn step(&mut self) -> bool {
        match self.reader.step(Duration::from_secs(self.seconds)).unwrap() {
            Step::Event(event) => {
                self.take(event);
                true
            }
            Step::Again => true,
            Step::Idle | Step::Done => false,
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Data(data) => {
                self.partial.extend_from_slice(&data.bytes);
                self.cursor = data.next.unwrap();
                if data.line_continues {
                    return;
                }
                let text = String::from_utf8(std::mem::take(&mut self.partial)).unwrap();
                if data.torn {
                    assert!(!text.contains('\n'));
                    return;
                }
                assert!(text.ends_with('\n'), "{text:?}");
                self.seen.extend(text.lines().map(str::to_owned));
            }
            Event::LongLine(line) => {
                let file = self.reader.file().unwrap();
                let mut bytes = vec![0; usize::try_from(line.length).unwrap()];
                file.read_at(line.offset, &mut bytes).unwrap();
                assert_eq!(bytes.pop(), Some(b'\n').filter(|_| !line.torn));
                self.seen.push(String::from_utf8(bytes).unwrap());
                self.cursor = line.next.unwrap();
            }
            Event::Truncated(_) | Event::Replaced(_) | Event::Removed(_) | Event::Gap(_) => {
                self.partial.clear();
                self.cursor = Cursor::default();
            }
            _ => {}
        }
    }

    fn check(&mut self) {
        self.settle();
        let unique: BTreeSet<_> = self.seen.iter().cloned().collect();
        assert_eq!(unique.len(), self.seen.len(), "doubled: {:?}", self.seen);
        let invented: Vec<_> = unique.difference(&self.written).collect();
        assert!(invented.is_empty(), "never written: {invented:?}");
        let lost: Vec<_> = self
            .written
            .difference(&unique)
            .filter(|line| !self.excused.contains(*line))
            .collect();
        assert!(lost.is_empty(), "lost: {lost:?}, seen {:?}", self.seen);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_lost_doubled_or_made_of_two(ops in proptest::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        for op in &ops {
            world.apply(op);
        }
        world.check();
    }
}
