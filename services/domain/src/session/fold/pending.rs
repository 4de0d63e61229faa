//! What the next commit will contain.

use std::collections::HashMap;

use super::types::Action;
use crate::{
    MessageId, SessionId, Timestamp, WorkspaceId,
    changeset::{Changeset, Chunk, Versioned},
    delivery::Delivery,
    feed::{Audience, Change, Event},
    limits,
    message::{Body, Message},
    session::{State, Turn},
    task::Trigger,
};

/// Text after which a commit does not wait for its second to pass.
const ENOUGH_BYTES: usize = limits::UNCOMMITTED_BYTES / 4;
/// Messages after which a commit does not wait for its second to pass.
const ENOUGH_MESSAGES: usize = limits::UNCOMMITTED_MESSAGES / 4;

/// Changes since the last commit was taken.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The first change; `None` = there is none.
    since: Option<Timestamp>,
    boundary: bool,
    announce: bool,
    entries: Vec<Entry>,
    places: HashMap<MessageId, usize>,
    turns: Vec<(Turn, bool)>,
    deliveries: Vec<Delivery>,
    triggers: Vec<Trigger>,
    actions: Vec<Action>,
    bytes: usize,
}

/// A message that changed.
#[derive(Debug)]
struct Entry {
    message: Message,
    added: bool,
    changed: bool,
    /// Where the growth begins.
    from: u64,
    growth: String,
}

impl Pending {
    pub(super) fn is_clean(&self) -> bool {
        self.since.is_none()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn messages(&self) -> usize {
        self.entries.len()
    }

    /// When it has to be committed at the latest.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let since = self.since?;
        if self.boundary || self.bytes >= ENOUGH_BYTES || self.entries.len() >= ENOUGH_MESSAGES {
            return Some(since);
        }
        Some(since.plus(limits::FLUSH_AFTER))
    }

    /// The session's row changed.
    pub(super) fn touch(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// The session's row changed, and must not wait.
    pub(super) fn boundary(&mut self, now: Timestamp) {
        self.touch(now);
        self.boundary = true;
    }

    /// Subscribers see the session's row.
    pub(super) fn announce(&mut self) {
        self.announce = true;
    }

    pub(super) fn after(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(super) fn trigger(&mut self, trigger: Trigger) {
        self.triggers.push(trigger);
    }

    /// A turn opened, or closed with `more` to come.
    pub(super) fn turn(&mut self, turn: Turn, more: bool) {
        self.turns.push((turn, more));
    }

    pub(super) fn delivery(&mut self, delivery: &Delivery) {
        self.deliveries.retain(|other| other.id != delivery.id);
        self.deliveries.push(delivery.clone());
    }

    /// A message is new.
    pub(super) fn add(&mut self, message: &Message) {
        let entry = self.entry(message, true);
        entry.added = true;
    }

    /// A message changed, but for its growth.
    pub(super) fn change(&mut self, message: &Message) {
        self.entry(message, false).changed = true;
    }

    /// A message grew by `text`; `message` is how it is now, without its text.
    pub(super) fn grow(&mut self, message: &Message, text: &str) {
        let before = message.bytes.saturating_sub(text.len() as u64);
        let entry = self.entry(message, false);
        if entry.growth.is_empty() {
            entry.from = before;
        }
        entry.growth.push_str(text);
        self.bytes += text.len();
    }

    fn entry(&mut self, message: &Message, fresh: bool) -> &mut Entry {
        let place = match self.places.get(&message.id) {
            Some(place) => {
                self.entries[*place].message = message.clone();
                *place
            }
            None => {
                let place = self.entries.len();
                self.places.insert(message.id, place);
                self.entries.push(Entry {
                    message: message.clone(),
                    added: fresh,
                    changed: false,
                    from: 0,
                    growth: String::new(),
                });
                place
            }
        };
        &mut self.entries[place]
    }

    /// Everything, as one changeset that writes `state` over its version before.
    pub(super) fn take(
        &mut self,
        workspace: WorkspaceId,
        state: &State,
    ) -> (Changeset, Vec<Trigger>, Vec<Action>) {
        let taken = std::mem::take(self);
        let session = state.spec.id;
        let mut changeset = Changeset::new(workspace);
        changeset.session = Some(Versioned {
            expected: state.version - 1,
            row: state.clone(),
        });
        changeset.deliveries = taken.deliveries;
        for entry in taken.entries {
            entry.write(session, &mut changeset);
        }
        for (turn, more) in taken.turns {
            let change = Change::Turn {
                id: turn.id,
                outcome: turn.outcome.as_ref().map(|outcome| outcome.value),
                more,
            };
            changeset.events.push(of_session(session, change));
            changeset.turns.retain(|(_, other)| other.id != turn.id);
            changeset.turns.push((session, turn));
        }
        if taken.announce {
            changeset.events.push(Event {
                audience: Audience::Workspace(Some(session)),
                change: Change::Session(Box::new(state.without_secrets())),
            });
        }
        (changeset, taken.triggers, taken.actions)
    }
}

impl Entry {
    fn write(self, session: SessionId, changeset: &mut Changeset) {
        let id = self.message.id;
        if self.added {
            let mut shown = self.message.clone();
            if !self.growth.is_empty() {
                shown.body = Body::Text(self.growth.clone());
            }
            let change = Change::MessageAdded(Box::new(shown));
            changeset.events.push(of_session(session, change));
        } else {
            if !self.growth.is_empty() {
                let change = Change::MessageDelta {
                    message: id,
                    from: self.from,
                    text: self.growth.clone(),
                };
                changeset.events.push(of_session(session, change));
            }
            if self.changed {
                let change = Change::MessageChanged(Box::new(self.message.clone()));
                changeset.events.push(of_session(session, change));
            }
        }
        if !self.growth.is_empty() {
            changeset.chunks.push(Chunk {
                message: id,
                from: self.from,
                text: self.growth,
            });
        }
        changeset.messages.push(self.message);
    }
}

fn of_session(session: SessionId, change: Change) -> Event {
    Event {
        audience: Audience::Session(session),
        change,
    }
}
