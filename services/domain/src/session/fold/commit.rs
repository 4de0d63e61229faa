//! Commits: at most one outstanding, effects after it (R3).

use super::{
    Fold,
    types::{Commit, Ticket},
};
use crate::{Timestamp, session::Process};

impl Fold {
    /// What is to be committed now; `None` when nothing is due, or the last one is not yet
    /// committed. Boundaries are due at once, growing output once a second.
    pub fn take_commit(&mut self, now: Timestamp) -> Option<Commit> {
        if self.outstanding.is_some() || self.pending.due().is_none_or(|due| due > now) {
            return None;
        }
        self.growth.taken();
        self.state.version += 1;
        self.shadow = self.reflected();
        let workspace = self.state.spec.workspace.clone();
        let (changeset, triggers, actions) = self.pending.take(workspace, &self.state);
        let ticket = Ticket(self.last_ticket.0 + 1);
        self.last_ticket = ticket;
        self.outstanding = Some((ticket, actions));
        Some(Commit {
            ticket,
            changeset,
            triggers,
        })
    }

    /// Makes everything that is folded due now: before a shutdown, and before an answer.
    pub fn flush(&mut self, now: Timestamp) {
        if !self.pending.is_clean() {
            self.pending.boundary(now);
        }
    }

    /// The commit `ticket` is in the store: what it decided may be done.
    pub fn committed(&mut self, ticket: Ticket, now: Timestamp) {
        if self
            .outstanding
            .as_ref()
            .is_none_or(|(out, _)| *out != ticket)
        {
            return;
        }
        if let Some((_, actions)) = self.outstanding.take() {
            self.ready.extend(actions);
        }
        self.growth.committed();
        self.calls.committed(ticket);
        self.queue.trim(ticket);
        self.pump(now);
    }

    /// The commit after which everything decided so far is in the store; `None`: it is.
    pub fn pending(&self) -> Option<Ticket> {
        if self.pending.is_clean() {
            self.outstanding.as_ref().map(|(ticket, _)| *ticket)
        } else {
            Some(self.next_ticket())
        }
    }

    /// Ticket of the commit that will have what is decided now.
    pub(super) fn next_ticket(&self) -> Ticket {
        Ticket(self.last_ticket.0 + 1)
    }

    /// What is written of the process and the link when they alone change.
    fn reflected(&self) -> (Process, bool) {
        (self.state.run.process.value, self.state.link.value.is_up())
    }

    /// Writes a changed process or link down, but not while a restart settles (S35).
    pub(super) fn reflect(&mut self, now: Timestamp) {
        if self.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        self.quiet_until = None;
        if !self.state.is_over() && self.reflected() != self.shadow {
            self.announce(now);
        }
    }
}
