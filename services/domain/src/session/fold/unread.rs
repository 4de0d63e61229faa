//! What was written to a program and never read by it (S19): the exit record counts the bytes
//! that were left in its stdin, and what was written last is what was left.

use super::{Fold, backoff, queue::text_of, types::Action};
use crate::{
    Timestamp, limits,
    message::{Delivery, Message},
};

/// Reason of a message that was written and not read.
pub(super) const NEVER_READ: &str = "NEVER_READ";

/// How far the look for the messages is that may be concerned.
#[derive(Debug, Default)]
pub(super) enum Recall {
    /// It was not begun, or failed; it is due then.
    #[default]
    Due,
    /// The store did not answer: so often, and it is asked again then.
    Again(u32, Timestamp),
    /// The store is asked, after so many failures.
    Asked(u32),
    /// Here they are, the latest first.
    Done(Vec<Message>),
}

impl Fold {
    /// Bytes of whole deliveries that were left in the stdin of the ended program.
    fn left_unread(&self) -> u64 {
        let exit = self.state.run.exit.as_ref();
        let left = exit.and_then(|exit| exit.stdin_unread).unwrap_or(0);
        let left = left.saturating_sub(self.cut_off().unwrap_or(0));
        left.min(limits::UNREAD_BYTES)
    }

    /// The messages that the end proves unread are at hand, if there can be any; otherwise
    /// they are asked for.
    pub(super) fn is_input_recalled(&mut self, now: Timestamp) -> bool {
        let bytes = self.left_unread();
        if bytes == 0 {
            return true;
        }
        let failures = match &self.recall {
            Recall::Done(_) => return true,
            Recall::Asked(_) => return false,
            Recall::Again(_, at) if *at > now => return false,
            Recall::Again(failures, _) => *failures,
            Recall::Due => 0,
        };
        self.recall = Recall::Asked(failures);
        // After everything that says what was written is in the store.
        let run = self.state.run.no;
        self.after_commit(Action::Recall { run, bytes });
        self.write_row(now);
        false
    }

    pub(super) fn recall_due(&self) -> Option<Timestamp> {
        match self.recall {
            Recall::Again(_, at) => Some(at),
            Recall::Due | Recall::Asked(_) | Recall::Done(_) => None,
        }
    }

    pub(super) fn on_recalled(&mut self, run: u32, messages: Vec<Message>) {
        if self.concerns(run) {
            self.recall = Recall::Done(messages);
        }
    }

    pub(super) fn on_recall_failed(&mut self, run: u32, now: Timestamp) {
        if self.concerns(run)
            && let Recall::Asked(failures) = self.recall
        {
            let failures = failures + 1;
            self.recall = Recall::Again(failures, now.plus(backoff(failures)));
        }
    }

    /// Judges what was written and not read. Survivors of the program may have its stdin, and
    /// read it later: then it is not certain.
    pub(super) fn land_unread(&mut self, now: Timestamp) {
        let Recall::Done(messages) = std::mem::take(&mut self.recall) else {
            return;
        };
        let certain = self.state.run.survivors().is_empty();
        let mut left = self.left_unread();
        for message in messages {
            if left == 0 {
                return;
            }
            let size = text_of(&message).len() as u64 + 1;
            let state = message.sent.as_ref().map(|sent| sent.state);
            match state {
                Some(Delivery::Written) => {
                    let unread = left.min(size);
                    let state = if certain && unread == size {
                        Delivery::Failed
                    } else {
                        Delivery::Unconfirmed
                    };
                    let mut text =
                        format!("the program ended, and {unread} of {size} bytes were not read");
                    if !certain {
                        text.push_str("; processes that it left may read them");
                    }
                    self.unwrite(message, state, text, now);
                    left -= unread;
                }
                // As much of it as there is may have been written: so much less is certain of
                // what was written before.
                Some(Delivery::Unconfirmed) => left = left.saturating_sub(size),
                _ => {}
            }
        }
    }
}
