use std::time::Duration;

use super::{
    Cause, Input, LinkState, Output, SLEPT_AFTER, STABLE_AFTER, SUSPECT_AFTER, UNREACHABLE_AFTER,
    WEDGED_AFTER,
};
use crate::backoff;

/// One host's link. Drive it with [`LinkMachine::start`] and [`LinkMachine::step`].
#[derive(Clone, Debug)]
pub struct LinkMachine {
    state: LinkState,
    since: Duration,
    phase: Phase,
    attempts: u32,
    may_bootstrap: bool,
    bootstrapped: bool,
    /// The agent was told to end: it is not started again.
    resting: bool,
    last_tick: Duration,
}

/// What the link is doing, which is finer than what users see: an unreachable host stays
/// that while it is dialled again.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Waiting {
        until: Option<Duration>,
    },
    Dialling,
    Bootstrapping,
    Greeting,
    Up {
        since: Duration,
        byte: Duration,
        beat: Duration,
    },
}

impl LinkMachine {
    /// A link that has done nothing yet. `may_bootstrap`: whether an agent can be started.
    pub fn new(now: Duration, may_bootstrap: bool) -> Self {
        Self {
            state: LinkState::Connecting,
            since: now,
            phase: Phase::Waiting { until: Some(now) },
            attempts: 0,
            may_bootstrap,
            bootstrapped: false,
            resting: false,
            last_tick: now,
        }
    }

    /// The visible state.
    pub fn state(&self) -> &LinkState {
        &self.state
    }

    /// Since which boottime it is that.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Failed attempts since the last good connection.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The boottime of the next attempt; `None` while one runs, while the link is up, and
    /// when only [`Input::RetryNow`] makes one.
    pub fn next_try_at(&self) -> Option<Duration> {
        match self.phase {
            Phase::Waiting { until } => until,
            _ => None,
        }
    }

    /// Begins with the first attempt.
    pub fn start(&mut self, now: Duration) -> Vec<Output> {
        self.last_tick = now;
        self.dial()
    }

    /// Takes what happened at boottime `now`; `fraction` is a random number in 0..1 for the
    /// back-off. An input that does not fit the present phase (a late answer) changes nothing.
    pub fn step(&mut self, now: Duration, fraction: f64, input: Input) -> Vec<Output> {
        match (&self.phase, input) {
            (Phase::Dialling, Input::DialledOk) => {
                self.phase = Phase::Greeting;
                vec![Output::Hello]
            }
            (Phase::Dialling, Input::DialFailed(Cause::AgentDown))
                if self.may_bootstrap && !self.bootstrapped && !self.resting =>
            {
                self.bootstrapped = true;
                self.phase = Phase::Bootstrapping;
                vec![Output::Bootstrap]
            }
            (Phase::Dialling, Input::DialFailed(cause)) => self.failed(now, fraction, cause),
            (Phase::Bootstrapping, Input::Bootstrapped(Ok(()))) => {
                self.phase = Phase::Dialling;
                vec![Output::Dial]
            }
            (Phase::Bootstrapping, Input::Bootstrapped(Err(text))) => {
                self.failed(now, fraction, Cause::BootstrapFailed { text })
            }
            (Phase::Greeting, Input::HelloOk) => self.up(now),
            (Phase::Greeting, Input::HelloFailed(cause)) => {
                self.drop_and_fail(now, fraction, cause)
            }
            (Phase::Greeting, Input::Lost) => self.drop_and_fail(now, fraction, Cause::Network),
            (Phase::Up { .. }, Input::ByteSeen(at)) => self.byte_seen(now, at),
            (Phase::Up { .. }, Input::Beat(at)) => self.beat(now, at),
            (Phase::Up { since, .. }, Input::Lost) => {
                let stable = now.saturating_sub(*since) >= STABLE_AFTER;
                self.lost(now, fraction, stable)
            }
            (_, Input::Tick) => self.tick(now, fraction),
            (_, Input::Rest) => {
                self.resting = true;
                Vec::new()
            }
            (_, Input::RetryNow) if self.resting => {
                self.resting = false;
                self.step(now, fraction, Input::RetryNow)
            }
            (Phase::Waiting { .. }, Input::RetryNow) => self.dial(),
            _ => Vec::new(),
        }
    }

    fn dial(&mut self) -> Vec<Output> {
        self.phase = Phase::Dialling;
        self.bootstrapped = false;
        vec![Output::Dial]
    }

    fn up(&mut self, now: Duration) -> Vec<Output> {
        self.phase = Phase::Up {
            since: now,
            byte: now,
            beat: now,
        };
        self.become_(now, LinkState::Connected)
    }

    fn failed(&mut self, now: Duration, fraction: f64, cause: Cause) -> Vec<Output> {
        let wait = match cause {
            Cause::HostKeyRefused => None,
            Cause::AuthFailed => Some(backoff::AFTER_AUTH_FAILURE),
            _ => Some(backoff::delay(self.attempts, fraction)),
        };
        self.attempts = self.attempts.saturating_add(1);
        self.phase = Phase::Waiting {
            until: wait.map(|wait| now.saturating_add(wait)),
        };
        self.become_(now, LinkState::Unreachable { cause })
    }

    fn drop_and_fail(&mut self, now: Duration, fraction: f64, cause: Cause) -> Vec<Output> {
        let mut outputs = vec![Output::Drop];
        outputs.extend(self.failed(now, fraction, cause));
        outputs
    }

    /// The connection ended. After a good one the next attempt comes at once, as for an agent
    /// that was restarted; one that ended right after its hello must not make a busy loop.
    fn lost(&mut self, now: Duration, fraction: f64, stable: bool) -> Vec<Output> {
        if !stable {
            return self.drop_and_fail(now, fraction, Cause::Network);
        }
        self.attempts = 0;
        let mut outputs = vec![Output::Drop];
        outputs.extend(self.become_(now, LinkState::Connecting));
        outputs.extend(self.dial());
        outputs
    }

    fn byte_seen(&mut self, now: Duration, at: Duration) -> Vec<Output> {
        let Phase::Up { byte, .. } = &mut self.phase else {
            return Vec::new();
        };
        *byte = (*byte).max(at.min(now));
        let silent = now.saturating_sub(*byte);
        if self.state == LinkState::Suspect && silent < SUSPECT_AFTER {
            return self.become_(now, LinkState::Connected);
        }
        Vec::new()
    }

    fn beat(&mut self, now: Duration, at: Duration) -> Vec<Output> {
        if let Phase::Up { beat, .. } = &mut self.phase {
            *beat = (*beat).max(at.min(now));
        }
        self.byte_seen(now, at)
    }

    fn tick(&mut self, now: Duration, fraction: f64) -> Vec<Output> {
        let slept = now.saturating_sub(self.last_tick) >= SLEPT_AFTER;
        self.last_tick = now;
        match &mut self.phase {
            Phase::Waiting { until: Some(until) } if slept || now >= *until => {
                // After a sleep the network is a new one; a ban for bad credentials is not.
                if now < *until
                    && self.state
                        == (LinkState::Unreachable {
                            cause: Cause::AuthFailed,
                        })
                {
                    return Vec::new();
                }
                self.dial()
            }
            Phase::Up { byte, beat, .. } if slept => {
                // Silence while asleep proves nothing. From here it counts anew, beginning
                // as suspect, and a probe asks at once.
                *byte = (*byte).max(now.saturating_sub(SUSPECT_AFTER));
                *beat = now;
                let mut outputs = self.become_(now, LinkState::Suspect);
                outputs.push(Output::Probe);
                outputs
            }
            Phase::Up { since, byte, beat } => {
                let (since, silent, beatless) =
                    (*since, now.saturating_sub(*byte), now.saturating_sub(*beat));
                self.judge(now, fraction, since, silent, beatless)
            }
            _ => Vec::new(),
        }
    }

    fn judge(
        &mut self,
        now: Duration,
        fraction: f64,
        since: Duration,
        silent: Duration,
        beatless: Duration,
    ) -> Vec<Output> {
        if now.saturating_sub(since) >= STABLE_AFTER {
            self.attempts = 0;
        }
        if silent >= UNREACHABLE_AFTER {
            return self.drop_and_fail(now, fraction, Cause::Network);
        }
        if beatless >= WEDGED_AFTER {
            return self.drop_and_fail(now, fraction, Cause::AgentWedged);
        }
        if silent >= SUSPECT_AFTER && self.state == LinkState::Connected {
            let mut outputs = self.become_(now, LinkState::Suspect);
            outputs.push(Output::Probe);
            return outputs;
        }
        Vec::new()
    }

    fn become_(&mut self, now: Duration, state: LinkState) -> Vec<Output> {
        if self.state == state {
            return Vec::new();
        }
        self.state = state.clone();
        self.since = now;
        vec![Output::Changed(state)]
    }
}
