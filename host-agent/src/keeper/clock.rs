//! The keeper's clocks, from the kernel: it has no runtime whose clock it could take, and
//! whatever it decides by time is decided in functions that are given the time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since some fixed moment; goes on evenly.
pub(super) fn monotonic() -> Duration {
    to_duration(clock_gettime(ClockId::Monotonic))
}

/// Wall clock, microseconds after 1970, for people.
pub(super) fn wall_us() -> i64 {
    let now = to_duration(clock_gettime(ClockId::Realtime));
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

fn to_duration(time: rustix::time::Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}
