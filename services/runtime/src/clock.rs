//! Time as an input: the system's clock, or one that a test moves by hand.
//!
//! Two times exist. The wall time is for people and for rows in a database; it may jump.
//! The boottime counts seconds since the machine's boot including suspend, never jumps
//! backwards, and is what every timeout and every age is computed from.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::sync::watch;

/// The system's timers stand still during suspend, so a long sleep looks again this often.
const LONGEST_NAP: Duration = Duration::from_secs(5);

/// A source of time. Cheap to clone.
#[derive(Clone)]
pub struct Clock {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    System,
    Manual(Arc<Manual>),
}

struct Manual {
    boottime: watch::Sender<Duration>,
    wall_micros: AtomicI64,
    sleepers: watch::Sender<usize>,
}

/// A future did not end within its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time is over")]
pub struct Elapsed;

impl Clock {
    /// The machine's own clocks.
    pub fn system() -> Self {
        Self { kind: Kind::System }
    }

    /// A clock that stands still until its [`ManualClock`] moves it. It begins one hour
    /// after boot, at 2026-01-01 00:00 UTC.
    pub fn manual() -> (Self, ManualClock) {
        let manual = Arc::new(Manual {
            boottime: watch::Sender::new(Duration::from_secs(3600)),
            wall_micros: AtomicI64::new(1_767_225_600_000_000),
            sleepers: watch::Sender::new(0),
        });
        let clock = Self {
            kind: Kind::Manual(manual.clone()),
        };
        (clock, ManualClock { manual })
    }

    /// Wall time in microseconds since 1970-01-01 UTC. May jump in both directions.
    pub fn now_micros(&self) -> i64 {
        match &self.kind {
            Kind::System => {
                let now = clock_gettime(ClockId::Realtime);
                now.tv_sec
                    .saturating_mul(1_000_000)
                    .saturating_add(now.tv_nsec / 1_000)
            }
            Kind::Manual(manual) => manual.wall_micros.load(Ordering::Acquire),
        }
    }

    /// Time since the machine's boot, suspend included. Never goes backwards.
    pub fn boottime(&self) -> Duration {
        match &self.kind {
            Kind::System => to_duration(clock_gettime(ClockId::Boottime)),
            Kind::Manual(manual) => *manual.boottime.borrow(),
        }
    }

    /// Waits until `duration` has passed. Cancel safe.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.boottime().saturating_add(duration))
            .await;
    }

    /// Waits until [`Clock::boottime`] is at least `deadline`. After a suspend it returns
    /// at the latest five seconds after the wake-up. Cancel safe.
    pub async fn sleep_until(&self, deadline: Duration) {
        match &self.kind {
            Kind::System => loop {
                let rest = deadline.saturating_sub(self.boottime());
                if rest.is_zero() {
                    return;
                }
                tokio::time::sleep(rest.min(LONGEST_NAP)).await;
            },
            Kind::Manual(manual) => {
                let mut boottime = manual.boottime.subscribe();
                if *boottime.borrow() >= deadline {
                    return;
                }
                let _asleep = Asleep::new(manual.clone());
                // The sender lives in `manual`, which the guard keeps; it cannot be gone.
                let _ = boottime.wait_for(|now| *now >= deadline).await;
            }
        }
    }

    /// Runs `future` for at most `duration`. Cancel safe when `future` is.
    ///
    /// # Errors
    /// [`Elapsed`] when the time was over first; `future` is dropped then.
    pub async fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        self.timeout_at(self.boottime().saturating_add(duration), future)
            .await
    }

    /// Runs `future` until [`Clock::boottime`] is `deadline`. Cancel safe when `future` is.
    ///
    /// # Errors
    /// [`Elapsed`] when the time was over first; `future` is dropped then.
    pub async fn timeout_at<F: Future>(
        &self,
        deadline: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = self.sleep_until(deadline) => Err(Elapsed),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::System => "system",
            Kind::Manual(_) => "manual",
        };
        f.debug_tuple("Clock").field(&kind).finish()
    }
}

/// Moves a manual [`Clock`]. Cheap to clone.
#[derive(Clone)]
pub struct ManualClock {
    manual: Arc<Manual>,
}

impl ManualClock {
    /// Moves boottime and wall time forward and wakes the sleepers whose time has come.
    pub fn advance(&self, duration: Duration) {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        self.manual.wall_micros.fetch_add(micros, Ordering::AcqRel);
        self.manual
            .boottime
            .send_modify(|now| *now = now.saturating_add(duration));
    }

    /// Sets the wall time alone, as a user or NTP does.
    pub fn set_wall(&self, micros: i64) {
        self.manual.wall_micros.store(micros, Ordering::Release);
    }

    /// Waits until at least `count` tasks sleep on this clock: what a test does before
    /// [`ManualClock::advance`], because a sleep begun after it would wait for the next one.
    pub async fn wait_for_sleepers(&self, count: usize) {
        let mut sleepers = self.manual.sleepers.subscribe();
        let _ = sleepers.wait_for(|now| *now >= count).await;
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("boottime", &*self.manual.boottime.borrow())
            .finish_non_exhaustive()
    }
}

struct Asleep {
    manual: Arc<Manual>,
}

impl Asleep {
    fn new(manual: Arc<Manual>) -> Self {
        manual.sleepers.send_modify(|count| *count += 1);
        Self { manual }
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        self.manual.sleepers.send_modify(|count| *count -= 1);
    }
}

fn to_duration(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}
