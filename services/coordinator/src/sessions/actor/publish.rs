//! What everybody else sees of an actor's session.

use std::sync::Arc;

use muster_domain::{
    feed::Preview,
    session::{Fold, Link, Observed, Process, State},
};

use crate::sessions::{
    api::{Growing, Live},
    registry::Entry,
};

/// Shows the committed state, with the link and the process of this moment (S31): what is
/// decided and not committed is nobody's business yet (R3).
pub(super) struct Publisher {
    /// As committed; `None`: nothing is.
    committed: Option<State>,
    link: Option<Observed<Link>>,
    process: Option<Observed<Process>>,
    /// Something changed since the last publication.
    stale: bool,
}

impl Publisher {
    pub(super) fn new(committed: Option<State>) -> Self {
        Self {
            committed,
            link: None,
            process: None,
            stale: true,
        }
    }

    pub(super) fn committed(&mut self, state: State) {
        self.committed = Some(state);
        self.stale = true;
    }

    /// The state to show.
    pub(super) fn state(&self, fold: &Fold) -> Option<State> {
        let mut state = self.committed.clone()?;
        let now = fold.state();
        state.link = now.link.clone();
        let same_run = now.run.no == state.run.no;
        if same_run && !now.is_over() && !state.is_over() {
            state.run.process = now.run.process.clone();
        }
        Some(state)
    }

    /// Publishes what changed; `grew`: the fold says that growing text should be seen.
    pub(super) fn publish(&mut self, fold: &Fold, grew: bool, entry: &Entry) {
        let state = fold.state();
        if self.link.as_ref() != Some(&state.link) {
            self.link = Some(state.link.clone());
            self.stale = true;
        }
        if self.process.as_ref() != Some(&state.run.process) {
            self.process = Some(state.run.process.clone());
            self.stale = true;
        }
        if !self.stale && !grew {
            return;
        }
        let Some(state) = self.state(fold) else {
            return;
        };
        self.stale = false;
        entry.publish(Live {
            state,
            growing: fold.growth().map(growing),
        });
    }
}

fn growing(preview: &Preview) -> Growing {
    Growing {
        message: preview.message,
        from: preview.from,
        text: Arc::from(preview.text.as_str()),
    }
}
