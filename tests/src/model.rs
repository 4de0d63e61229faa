//! The byte-exact model: what a program must have read, given what `send` said about each message.

/// What the sender was told about one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Accepted: the program reads it exactly once.
    Accepted,
    /// Refused: the program never reads it.
    NotAccepted,
    /// Neither: the program reads it at most once. Counted, since a system that never knows would pass every test.
    Unknown,
}

/// The messages of one session in the order in which they were sent. Texts differ from each other.
#[derive(Clone, Debug, Default)]
pub struct Model {
    sent: Vec<(String, Fate)>,
}

/// What the comparison counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: usize,
    pub not_accepted: usize,
    pub unknown: usize,
    /// Accepted messages that the program has not read. Zero unless the comparison allowed a shorter end.
    pub unread: usize,
}

impl Model {
    /// Notes a message after `send` has returned. The text has no newline: the program reads it as one line.
    pub fn sent(&mut self, text: &str, fate: Fate) {
        self.sent.push((text.to_owned(), fate));
    }

    /// How many messages were sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Whether nothing was sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether `received`, all bytes that the program has read, is each accepted message once, in order, and nothing
    /// else but messages of unknown fate at their place.
    ///
    /// # Errors
    /// Names the first difference.
    pub fn compare(&self, received: &[u8]) -> Result<Counts, String> {
        let counts = self.walk(received)?;
        match counts.unread {
            0 => Ok(counts),
            unread => Err(format!(
                "{unread} accepted message(s) were never read; {counts:?}"
            )),
        }
    }

    /// The same for a run that was cut short: a tail of the accepted messages may be unread, and the last line torn.
    ///
    /// # Errors
    /// Names the first difference.
    pub fn compare_prefix(&self, received: &[u8]) -> Result<Counts, String> {
        let whole = received
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        self.walk(&received[..whole])
    }

    fn walk(&self, received: &[u8]) -> Result<Counts, String> {
        let mut counts = Counts::default();
        let mut rest = received;
        for (at, (text, fate)) in self.sent.iter().enumerate() {
            let next = rest
                .strip_prefix(text.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"\n"));
            match fate {
                Fate::Accepted => counts.accepted += 1,
                Fate::NotAccepted => counts.not_accepted += 1,
                Fate::Unknown => counts.unknown += 1,
            }
            match (fate, next) {
                (Fate::Accepted | Fate::Unknown, Some(next)) => rest = next,
                (Fate::Accepted, None) if rest.is_empty() => counts.unread += 1,
                (Fate::Accepted, None) => return Err(self.difference(at, received, rest)),
                (Fate::NotAccepted, Some(_)) => {
                    return Err(format!(
                        "message {at} ({text:?}) was read although it was refused"
                    ));
                }
                (Fate::NotAccepted | Fate::Unknown, None) => {}
            }
        }
        if rest.is_empty() {
            return Ok(counts);
        }
        Err(self.difference(self.sent.len(), received, rest))
    }

    /// Says what stands where message `at` should: an earlier message again, a later one, or something never sent.
    fn difference(&self, at: usize, received: &[u8], rest: &[u8]) -> String {
        let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let offset = received.len() - rest.len();
        let found = match self.sent.iter().position(|(text, _)| *text == line) {
            Some(other) if other < at => format!("message {other} a second time"),
            Some(other) => format!("message {other} ({:?})", self.sent[other].1),
            None => "something that was never sent".to_owned(),
        };
        let expected = self
            .sent
            .get(at)
            .map_or("the end", |(text, _)| text.as_str());
        format!(
            "at byte {offset}: {expected:?} (message {at}) was expected, {line:?} stands there: {found}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, Model};

    fn model(fates: &[Fate]) -> Model {
        let mut model = Model::default();
        for (at, fate) in fates.iter().enumerate() {
            model.sent(&format!("m{at}"), *fate);
        }
        model
    }

    #[test]
    fn each_accepted_message_once_in_order_is_right() {
        use Fate::{Accepted, NotAccepted, Unknown};
        let model = model(&[Accepted, NotAccepted, Unknown, Accepted]);
        assert!(model.compare(b"m0\nm3\n").is_ok());
        assert_eq!(model.compare(b"m0\nm2\nm3\n").unwrap().unknown, 1);
    }

    #[test]
    fn lost_doubled_swapped_torn_refused_and_foreign_are_each_named() {
        use Fate::{Accepted, NotAccepted};
        let three = model(&[Accepted, Accepted, Accepted]);
        assert!(
            three
                .compare(b"m0\nm1\n")
                .unwrap_err()
                .contains("never read")
        );
        assert!(
            three
                .compare(b"m0\nm2\n")
                .unwrap_err()
                .contains("message 2")
        );
        assert!(
            three
                .compare(b"m0\nm0\nm1\nm2\n")
                .unwrap_err()
                .contains("second time")
        );
        assert!(
            three
                .compare(b"m1\nm0\nm2\n")
                .unwrap_err()
                .contains("message 1")
        );
        assert!(
            three
                .compare(b"m0\nm1\nm2")
                .unwrap_err()
                .contains("expected")
        );
        assert!(
            three
                .compare(b"m0\nm1\nm2\nx\n")
                .unwrap_err()
                .contains("never sent")
        );
        assert!(
            three
                .compare(b"m0\nm1\nm2\nm2\n")
                .unwrap_err()
                .contains("second time")
        );
        assert!(
            model(&[NotAccepted])
                .compare(b"m0\n")
                .unwrap_err()
                .contains("refused")
        );
    }

    #[test]
    fn a_cut_run_may_lack_its_end_only() {
        let three = model(&[Fate::Accepted; 3]);
        assert_eq!(three.compare_prefix(b"m0\nm").unwrap().unread, 2);
        assert!(three.compare_prefix(b"m1\n").is_err());
    }
}
