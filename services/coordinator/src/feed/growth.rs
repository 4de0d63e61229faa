//! How far a client has the texts that grow. Pure.

use std::collections::BTreeMap;

use muster_domain::{
    MessageId,
    message::{Body, Message},
};

/// Byte up to which this client has each growing text.
#[derive(Debug, Default)]
pub(super) struct Growth {
    sent: BTreeMap<MessageId, u64>,
}

impl Growth {
    /// The client got this message with its text so far.
    pub(super) fn has(&mut self, message: &Message) {
        if message.complete {
            self.sent.remove(&message.id);
            return;
        }
        if let Body::Text(text) = &message.body {
            let sent = self.sent.entry(message.id).or_default();
            *sent = (*sent).max(text.len() as u64);
        }
    }

    /// The message changed without its text.
    pub(super) fn changed(&mut self, message: &Message) {
        if message.complete {
            self.sent.remove(&message.id);
        }
    }

    /// What of a stored piece this client does not have: its place and text.
    pub(super) fn cut_stored<'a>(
        &mut self,
        message: MessageId,
        from: u64,
        text: &'a str,
    ) -> Option<(u64, &'a str)> {
        let end = from + text.len() as u64;
        let sent = self.sent.entry(message).or_insert(from);
        let at = (*sent).max(from);
        if at >= end {
            return None;
        }
        let piece = text.get(usize::try_from(at - from).ok()?..)?;
        *sent = end;
        Some((at, piece))
    }

    /// What of a text that is not stored yet this client can be shown now. Of a message that
    /// it was not told of there is nothing to show; and bytes below `from` are still to come
    /// to a client that does not have them.
    pub(super) fn cut_preview<'a>(
        &mut self,
        message: MessageId,
        from: u64,
        text: &'a str,
    ) -> Option<(u64, &'a str)> {
        let end = from + text.len() as u64;
        let at = *self.sent.get(&message)?;
        if at < from || at >= end {
            return None;
        }
        let piece = text.get(usize::try_from(at - from).ok()?..)?;
        self.sent.insert(message, end);
        Some((at, piece))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const TEXT: &str = "größer als ein Byte — und länger";

    fn id() -> MessageId {
        MessageId::new(Uuid::from_u128(1))
    }

    proptest! {
        /// Whatever order previews and stored pieces come in, the client gets each byte once.
        #[test]
        fn f16_every_byte_is_sent_once(
            steps in proptest::collection::vec((any::<bool>(), 0..40_usize), 1..60),
        ) {
            let bounds: Vec<usize> = TEXT
                .char_indices()
                .map(|(at, _)| at)
                .chain([TEXT.len()])
                .collect();
            let (mut stored, mut grown, mut got) = (0, 0, String::new());
            let mut growth = Growth::default();
            growth.sent.insert(id(), 0);
            for (commit, step) in steps {
                if commit {
                    let piece = &TEXT[stored..grown];
                    if !piece.is_empty() {
                        if let Some((at, cut)) = growth.cut_stored(id(), stored as u64, piece) {
                            prop_assert_eq!(at, got.len() as u64);
                            got.push_str(cut);
                        }
                        stored = grown;
                    }
                } else {
                    let next = bounds.iter().position(|b| *b == grown).unwrap() + step % 4;
                    grown = bounds[next.min(bounds.len() - 1)];
                    let piece = &TEXT[stored..grown];
                    if let Some((at, cut)) = growth.cut_preview(id(), stored as u64, piece) {
                        prop_assert_eq!(at, got.len() as u64);
                        got.push_str(cut);
                    }
                }
                prop_assert!(TEXT.starts_with(&got));
                prop_assert!(got.len() >= stored);
            }
        }
    }

    #[test]
    fn a_preview_never_runs_ahead_of_what_is_still_to_come() {
        let mut growth = Growth::default();
        assert_eq!(growth.cut_preview(id(), 0, "abc"), None);
        assert_eq!(growth.cut_preview(id(), 5, "abc"), None);
        assert_eq!(growth.cut_stored(id(), 5, "abc"), Some((5, "abc")));
        assert_eq!(growth.cut_preview(id(), 9, "x"), None);
        assert_eq!(growth.cut_preview(id(), 8, "de"), Some((8, "de")));
        assert_eq!(growth.cut_stored(id(), 8, "def"), Some((10, "f")));
        assert_eq!(growth.cut_stored(id(), 8, "def"), None);
    }
}
