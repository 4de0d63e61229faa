//! User messages: those that wait, and those that were answered for lately.

use std::collections::{BTreeMap, VecDeque};

use super::{Fold, MessageIds, types::Ticket};
use crate::{
    MessageId, Timestamp, limits,
    message::{Body, Delivery, Message},
    session::Input,
};

/// User messages by id.
#[derive(Debug, Default)]
pub(super) struct Queue {
    known: BTreeMap<MessageId, Message>,
    order: MessageIds,
    /// Final ones, with the commit that has their end; the oldest first.
    finished: VecDeque<(MessageId, Ticket)>,
    /// Text of those.
    finished_bytes: usize,
    /// The latest commit that is in the store.
    committed: Ticket,
}

impl Queue {
    pub(super) fn get(&self, id: MessageId) -> Option<&Message> {
        self.known.get(&id)
    }

    /// Puts a message at the end.
    pub(super) fn push(&mut self, message: Message) {
        self.order.push_back(message.id);
        self.known.insert(message.id, message);
    }

    /// Keeps a final message that the store has.
    pub(super) fn remember(&mut self, message: Message) {
        if let std::collections::btree_map::Entry::Vacant(entry) = self.known.entry(message.id) {
            let id = message.id;
            entry.insert(message);
            self.retire(id, Ticket(0));
            self.trim(self.committed);
        }
    }

    /// A message is final, as `ticket` will say in the store.
    fn retire(&mut self, id: MessageId, ticket: Ticket) {
        self.finished_bytes += self
            .known
            .get(&id)
            .map_or(0, |message| text_of(message).len());
        self.finished.push_back((id, ticket));
    }

    pub(super) fn first(&self) -> Option<MessageId> {
        self.order.front().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Place of a waiting message, from 1.
    pub(super) fn place(&self, id: MessageId) -> Option<usize> {
        let index = self.order.iter().position(|other| *other == id)?;
        Some(index + 1)
    }

    /// Takes a message out of the order; it stays known.
    pub(super) fn take(&mut self, id: MessageId) {
        self.order.retain(|other| *other != id);
    }

    /// Those in `flight`, then those in order.
    pub(super) fn waiting(&self, flight: Option<MessageId>) -> impl Iterator<Item = &Message> {
        let ids = flight.into_iter().chain(self.order.iter().copied());
        ids.filter_map(|id| self.known.get(&id))
    }

    /// Another message of this source and size may wait.
    pub(super) fn has_room(&self, source: Input, bytes: usize) -> bool {
        let agent = source == Input::Agent;
        let most = if agent {
            limits::WAITING_AGENT_MESSAGES
        } else {
            limits::WAITING_HUMAN_MESSAGES
        };
        let mut count = 0;
        let mut total = bytes;
        for message in self.waiting(None) {
            let from = message.sent.as_ref().map(|sent| sent.source);
            count += usize::from((from == Some(Input::Agent)) == agent);
            total += text_of(message).len();
        }
        count < most && total <= limits::WAITING_BYTES
    }

    /// Forgets final messages that the store has, beyond the latest.
    pub(super) fn trim(&mut self, committed: Ticket) {
        self.committed = committed;
        while self.finished.len() > limits::REMEMBERED_MESSAGES
            || (self.finished_bytes > limits::REMEMBERED_BYTES && self.finished.len() > 1)
        {
            match self.finished.front() {
                Some((id, ticket)) if *ticket <= committed => {
                    let message = self.known.remove(id);
                    self.finished_bytes -= message.as_ref().map_or(0, |m| text_of(m).len());
                    self.finished.pop_front();
                }
                Some(_) | None => return,
            }
        }
    }
}

/// The text of a user message.
pub(super) fn text_of(message: &Message) -> &str {
    match &message.body {
        Body::Text(text) => text,
        Body::Reference { .. } => "",
    }
}

impl Fold {
    /// Changes a user message, as far as it is known and not final.
    pub(super) fn update(
        &mut self,
        id: MessageId,
        now: Timestamp,
        change: impl FnOnce(&mut Message),
    ) {
        let ticket = self.next_ticket();
        let Some(message) = self.queue.known.get_mut(&id) else {
            return;
        };
        let is_final = |message: &Message| {
            message
                .sent
                .as_ref()
                .is_none_or(|sent| sent.state.is_final())
        };
        if is_final(message) {
            return;
        }
        change(message);
        message.updated_at = now;
        let message = message.clone();
        if is_final(&message) {
            self.queue.retire(id, ticket);
        }
        self.pending.boundary(now);
        self.pending.change(&message);
    }

    /// Gives a user message its final state.
    pub(super) fn finish(
        &mut self,
        id: MessageId,
        state: Delivery,
        reason: Option<&str>,
        now: Timestamp,
    ) {
        self.queue.take(id);
        self.update(id, now, |message| {
            if let Some(sent) = &mut message.sent {
                sent.state = state;
                sent.reason = reason.map(str::to_owned);
            }
        });
        self.count_waiting();
    }

    /// Says in words how it came to the end that follows.
    pub(super) fn explain_end(&mut self, id: MessageId, text: Option<&str>, now: Timestamp) {
        self.update(id, now, |message| {
            if let Some(sent) = &mut message.sent {
                sent.text = text.map(str::to_owned);
            }
        });
    }

    /// What was written was not read, as the end of the run proved: the one way in which a
    /// final state changes.
    pub(super) fn unwrite(
        &mut self,
        mut message: Message,
        state: Delivery,
        text: String,
        now: Timestamp,
    ) {
        let Some(sent) = message
            .sent
            .as_mut()
            .filter(|sent| sent.state == Delivery::Written)
        else {
            return;
        };
        sent.state = state;
        sent.reason = Some(super::unread::NEVER_READ.to_owned());
        sent.text = Some(text);
        message.updated_at = now;
        if let Some(known) = self.queue.known.get_mut(&message.id) {
            *known = message.clone();
        }
        self.pending.boundary(now);
        self.pending.change(&message);
    }

    /// Fails everything that waits and is not in flight.
    pub(super) fn fail_waiting(&mut self, reason: &str, now: Timestamp) {
        while let Some(id) = self.queue.first() {
            self.finish(id, Delivery::Failed, Some(reason), now);
        }
    }

    pub(super) fn count_waiting(&mut self) {
        let waiting = self.queue.len() + usize::from(self.flight.is_some());
        self.state.waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    }
}
