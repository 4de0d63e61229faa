//! What a person is told about a connection that is gone for a while.

use std::time::Duration;

use muster_client::Fault;
use muster_runtime::Clock;

use crate::out;

/// A cut that is shorter is nobody's business: a restart takes that long.
const QUIET: Duration = Duration::from_secs(5);

/// Tells of a long cut twice: what is wrong, and that it is over.
#[derive(Debug)]
pub(crate) struct Cuts {
    clock: Clock,
    state: State,
}

/// The decisions, without a clock.
#[derive(Debug, Default)]
struct State {
    since: Option<Duration>,
    told: bool,
}

impl Cuts {
    pub(crate) fn new() -> Self {
        Self {
            clock: Clock::system(),
            state: State::default(),
        }
    }

    /// An attempt failed.
    pub(crate) fn cut(&mut self, cause: &Fault) {
        if let Some(text) = self.state.cut(self.clock.boottime(), cause.message()) {
            out::note(&text);
        }
    }

    /// Something came.
    pub(crate) fn alive(&mut self) {
        if self.state.since.is_some()
            && let Some(text) = self.state.alive(self.clock.boottime())
        {
            out::note(&text);
        }
    }
}

impl State {
    fn cut(&mut self, now: Duration, cause: &str) -> Option<String> {
        let since = *self.since.get_or_insert(now);
        let gone = now.saturating_sub(since);
        if self.told || gone < QUIET {
            return None;
        }
        self.told = true;
        Some(format!(
            "cut off for {} s and still trying: {cause}",
            gone.as_secs()
        ))
    }

    fn alive(&mut self, now: Duration) -> Option<String> {
        let since = self.since.take()?;
        let gone = now.saturating_sub(since).as_secs();
        std::mem::take(&mut self.told)
            .then(|| format!("connected again after {gone} s; nothing is missing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_cut_is_not_worth_a_word() {
        let mut state = State::default();
        for now in 10..14 {
            assert_eq!(state.cut(Duration::from_secs(now), "away"), None);
        }
        assert_eq!(state.alive(Duration::from_secs(14)), None);
        // The next one is counted anew.
        assert_eq!(state.cut(Duration::from_secs(20), "away"), None);
    }

    #[test]
    fn a_long_cut_is_told_once_and_so_is_its_end() {
        let mut state = State::default();
        let told: Vec<String> = (10..40)
            .filter_map(|now| state.cut(Duration::from_secs(now), "nobody listens"))
            .collect();
        assert_eq!(told, ["cut off for 5 s and still trying: nobody listens"]);
        let back = state.alive(Duration::from_secs(40));
        assert_eq!(
            back.as_deref(),
            Some("connected again after 30 s; nothing is missing")
        );
        assert_eq!(state.alive(Duration::from_secs(41)), None);
    }
}
