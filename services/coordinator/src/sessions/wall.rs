//! The time that a fold is given: the wall's, but never backwards, and never standing still.

use std::time::Duration;

use muster_domain::Timestamp;
use muster_runtime::Clock;

/// A wall that is behind by more than this was set back.
const SLACK_MICROS: i64 = 1_000_000;

/// One actor's time. A fold's deadlines are wall times; a wall that is set back must not
/// postpone them.
#[derive(Debug)]
pub(super) struct Wall {
    clock: Clock,
    last: i64,
    boottime: Duration,
}

impl Wall {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            last: clock.now_micros(),
            boottime: clock.boottime(),
            clock,
        }
    }

    pub(super) fn now(&mut self) -> Timestamp {
        let wall = self.clock.now_micros();
        let boottime = self.clock.boottime();
        let passed = boottime.saturating_sub(self.boottime).as_micros();
        let steady = self
            .last
            .saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
        let was_set_back = wall < steady.saturating_sub(SLACK_MICROS);
        self.last = if was_set_back {
            steady
        } else {
            wall.max(self.last)
        };
        self.boottime = boottime;
        Timestamp::from_micros(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_that_is_set_back_does_not_stop_time() {
        let (clock, hand) = Clock::manual();
        let mut wall = Wall::new(clock.clone());
        let before = wall.now();
        hand.set_wall(clock.now_micros() - 3_600_000_000);
        assert_eq!(wall.now(), before);
        hand.advance(Duration::from_secs(2));
        assert_eq!(wall.now(), before.plus(Duration::from_secs(2)));
        hand.set_wall(before.as_micros() + 9_000_000);
        assert_eq!(wall.now(), before.plus(Duration::from_secs(9)));
    }
}
