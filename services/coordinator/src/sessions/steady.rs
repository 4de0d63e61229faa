//! Time for a fold: wall time that never runs backwards.
//!
//! A fold's timers are points in wall time. If the wall clock were set back by an hour,
//! everything that is due would wait for an hour; so an actor's time goes on with the boottime
//! then. When the wall clock is set forward, it follows.

use std::time::Duration;

use muster_domain::Timestamp;
use muster_runtime::Clock;

/// How far the wall clock may be ahead before it is followed.
const TOLERANCE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Steady {
    clock: Clock,
    wall: Timestamp,
    boottime: Duration,
}

impl Steady {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            wall: Timestamp::from_micros(clock.now_micros()),
            boottime: clock.boottime(),
            clock,
        }
    }

    pub(super) fn now(&mut self) -> Timestamp {
        let wall = Timestamp::from_micros(self.clock.now_micros());
        let boottime = self.clock.boottime();
        let steady = self.wall.plus(boottime.saturating_sub(self.boottime));
        if wall.since(steady) > TOLERANCE {
            self.wall = wall;
            self.boottime = boottime;
            return wall;
        }
        steady
    }

    /// Waits until it is `at`. Cancel safe.
    pub(super) async fn sleep_until(&mut self, at: Timestamp) {
        let rest = at.since(self.now());
        self.clock.sleep(rest).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_when_the_wall_clock_is_set_back_and_follows_it_forward() {
        let (clock, hand) = Clock::manual();
        let mut steady = Steady::new(clock);
        let start = steady.now();
        hand.set_wall(start.as_micros() - 3_600_000_000);
        hand.advance(Duration::from_secs(2));
        assert_eq!(steady.now(), start.plus(Duration::from_secs(2)));
        hand.set_wall(start.as_micros() + 3_600_000_000);
        assert_eq!(steady.now(), start.plus(Duration::from_secs(3600)));
    }
}
