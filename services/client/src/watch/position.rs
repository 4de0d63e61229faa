//! How far a subscription is. Several events share one revision, and a cut may fall between
//! them: so the last revision is asked for again, and what came of it before is skipped.

/// Position of one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// Everything up to here was given.
    whole: Option<u64>,
    /// The revision under way, with the number of its events that were given.
    under_way: Option<(u64, u32)>,
    /// Events of the revision under way that come again after a cut.
    skip: u32,
    /// A snapshot began and has not ended.
    in_snapshot: bool,
}

impl Position {
    /// After a revision, or before a snapshot.
    pub(super) fn after(revision: Option<u64>) -> Self {
        Self {
            whole: revision,
            under_way: None,
            skip: 0,
            in_snapshot: false,
        }
    }

    /// The revision to resume after; `None`: a snapshot is needed.
    pub(super) fn resume_from(&self) -> Option<u64> {
        self.whole
    }

    pub(super) fn snapshot_begins(&mut self) {
        *self = Self::after(None);
        self.in_snapshot = true;
    }

    pub(super) fn snapshot_ends(&mut self, revision: u64) {
        *self = Self::after(Some(revision));
    }

    /// An event of this revision came; false when it was given before.
    pub(super) fn advance(&mut self, revision: u64) -> bool {
        if self.in_snapshot || self.whole.is_some_and(|whole| revision <= whole) {
            return false;
        }
        match self.under_way {
            Some((under_way, _)) if revision < under_way => false,
            Some((under_way, given)) if revision == under_way => {
                if self.skip > 0 {
                    self.skip -= 1;
                    return false;
                }
                self.under_way = Some((revision, given + 1));
                true
            }
            earlier => {
                if let Some((under_way, _)) = earlier {
                    self.whole = Some(under_way);
                }
                self.under_way = Some((revision, 1));
                self.skip = 0;
                true
            }
        }
    }

    /// Everything up to this revision was sent.
    pub(super) fn reached(&mut self, revision: u64) {
        let known = self.whole.is_some() || self.under_way.is_some();
        if self.in_snapshot || !known || self.whole.is_some_and(|whole| revision < whole) {
            return;
        }
        if self
            .under_way
            .is_some_and(|(under_way, _)| revision < under_way)
        {
            return;
        }
        *self = Self::after(Some(revision));
    }

    /// The stream is gone. What was given of the revision under way comes again.
    pub(super) fn cut(&mut self) {
        if self.in_snapshot {
            *self = Self::after(None);
        }
        self.skip = self.under_way.map_or(0, |(_, given)| given);
    }

    /// The coordinator has sent everything up to this revision and not everything after.
    pub(super) fn back_to(&mut self, revision: u64) {
        if self.whole.is_some_and(|whole| revision < whole) || self.in_snapshot {
            return;
        }
        if self
            .under_way
            .is_none_or(|(under_way, _)| under_way <= revision)
        {
            *self = Self::after(Some(revision));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_between_two_events_of_one_revision_loses_none_and_repeats_none() {
        let mut position = Position::after(Some(4));
        assert!(position.advance(5));
        assert!(position.advance(6));
        assert!(position.advance(6));
        position.cut();
        // Revision 6 may have had a third event.
        assert_eq!(position.resume_from(), Some(5));
        assert!(!position.advance(6));
        assert!(!position.advance(6));
        assert!(position.advance(6));
        assert!(position.advance(7));
        position.cut();
        assert_eq!(position.resume_from(), Some(6));
    }

    #[test]
    fn two_cuts_at_the_same_place() {
        let mut position = Position::after(Some(4));
        assert!(position.advance(5));
        position.cut();
        position.cut();
        assert_eq!(position.resume_from(), Some(4));
        assert!(!position.advance(5));
        position.cut();
        assert!(!position.advance(5));
        assert!(position.advance(5));
    }

    #[test]
    fn half_a_snapshot_is_none() {
        let mut position = Position::after(Some(4));
        position.snapshot_begins();
        position.cut();
        assert_eq!(position.resume_from(), None);
        position.snapshot_begins();
        position.snapshot_ends(9);
        assert_eq!(position.resume_from(), Some(9));
        assert!(!position.advance(9));
        assert!(position.advance(10));
    }

    #[test]
    fn progress_makes_a_revision_whole() {
        let mut position = Position::after(Some(4));
        assert!(position.advance(5));
        position.reached(5);
        position.cut();
        assert_eq!(position.resume_from(), Some(5));
        position.reached(3);
        assert_eq!(position.resume_from(), Some(5));
        // Before a snapshot there is nothing that progress could complete.
        let mut fresh = Position::after(None);
        fresh.reached(7);
        assert_eq!(fresh.resume_from(), None);
    }
}
