//! Waiting for conditions.

use std::time::{Duration, Instant};

/// How long a condition may take on a busy machine before a test gives up: long, since it costs only failing tests.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Asks `condition` until it answers `Some`, at most for [`DEADLINE`].
///
/// # Panics
/// When the deadline passes, with `what` was awaited.
#[track_caller]
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, condition)
        .unwrap_or_else(|| panic!("did not happen within {DEADLINE:?}: {what}"))
}

/// Asks `condition` until it answers `Some` or `limit` has passed. It is asked at least once, and once after the limit.
pub fn within<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let start = now();
    let mut pause = Duration::from_millis(2);
    loop {
        let last = start.elapsed() >= limit;
        if let Some(found) = condition() {
            return Some(found);
        }
        if last {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// The time by which real processes are given up.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the kit waits for real processes, in real time"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since the machine's boot: the same in every process, so that a line can carry when it was written.
#[must_use]
pub fn boottime_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanoseconds = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(nanoseconds).unwrap_or(0)
}
