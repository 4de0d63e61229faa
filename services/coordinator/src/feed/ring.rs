//! The latest commits, shared by all subscribers.

use std::{collections::VecDeque, sync::Arc};

use muster_domain::{feed::Change, message::Body};

use crate::store::Revised;

/// Commits that are kept.
const COMMITS: usize = 1_024;
/// About so many bytes are kept.
const BYTES: usize = 8 * 1024 * 1024;
/// What an event costs besides its texts, about.
const EVENT_BYTES: usize = 1_024;

/// The commits of a contiguous range of revisions.
#[derive(Debug)]
pub(super) struct Ring {
    /// Everything after this revision is here.
    base: u64,
    commits: VecDeque<(Arc<Revised>, usize)>,
    bytes: usize,
}

impl Ring {
    pub(super) fn new(base: u64) -> Self {
        Self {
            base,
            commits: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The last revision that is known here.
    pub(super) fn head(&self) -> u64 {
        self.commits
            .back()
            .map_or(self.base, |(commit, _)| commit.revision)
    }

    pub(super) fn push(&mut self, commit: Revised) {
        let cost = cost(&commit);
        self.bytes += cost;
        self.commits.push_back((Arc::new(commit), cost));
        while self.commits.len() > COMMITS || (self.bytes > BYTES && self.commits.len() > 1) {
            if let Some((gone, cost)) = self.commits.pop_front() {
                self.bytes -= cost;
                self.base = gone.revision;
            }
        }
    }

    /// Forgets everything: the next commit follows `base`.
    pub(super) fn restart(&mut self, base: u64) {
        *self = Self::new(base);
    }

    /// At most `limit` commits after `after`; `None` when some of them are not here any more.
    pub(super) fn after(&self, after: u64, limit: usize) -> Option<Vec<Arc<Revised>>> {
        if after < self.base {
            return None;
        }
        let first = self
            .commits
            .partition_point(|(commit, _)| commit.revision <= after);
        let commits = self.commits.range(first..).take(limit);
        Some(commits.map(|(commit, _)| commit.clone()).collect())
    }
}

fn cost(commit: &Revised) -> usize {
    let texts = commit.events.iter().map(|event| match &event.change {
        Change::Session(state) => {
            state.spec.argv.iter().map(String::len).sum::<usize>()
                + state
                    .spec
                    .env
                    .iter()
                    .map(|(name, value)| name.len() + value.len())
                    .sum::<usize>()
        }
        Change::Task(task) => task.description.len() + task.title.len(),
        Change::MessageAdded(message) | Change::MessageChanged(message) => match &message.body {
            Body::Text(text) => text.len(),
            Body::Reference { .. } => 0,
        },
        Change::MessageDelta { text, .. } => text.len(),
        Change::Interaction(interaction) => interaction.summary.len(),
        Change::Host(_) | Change::Turn { .. } => 0,
    });
    texts.map(|bytes| bytes + EVENT_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(revision: u64) -> Revised {
        Revised {
            revision,
            events: Vec::new(),
        }
    }

    #[test]
    fn what_is_asked_for_is_given_whole_or_not_at_all() {
        let mut ring = Ring::new(7);
        assert_eq!(ring.after(7, 10), Some(Vec::new()));
        assert_eq!(ring.after(6, 10), None);
        for revision in 8..=20 {
            ring.push(commit(revision));
        }
        let got = ring.after(17, 2).unwrap();
        assert_eq!(got.iter().map(|c| c.revision).collect::<Vec<_>>(), [18, 19]);
        assert_eq!(ring.head(), 20);
    }

    #[test]
    fn r7_it_stays_bounded() {
        let mut ring = Ring::new(0);
        for revision in 1..=(COMMITS as u64 + 5) {
            ring.push(commit(revision));
        }
        assert_eq!(ring.after(4, 1), None);
        assert_eq!(ring.after(5, 1).unwrap()[0].revision, 6);
        ring.restart(9_000);
        assert_eq!(ring.head(), 9_000);
    }
}
