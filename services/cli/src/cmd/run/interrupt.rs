//! Ctrl-C while a session is followed: the first detaches, a second one stops the session.

use std::{future::pending, io::IsTerminal as _, time::Duration};

use muster_runtime::Clock;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{exit::Failure, out};

/// How long a second Ctrl-C is waited for.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pressed {
    /// Leave the session running.
    Detach,
    /// Stop the session.
    Stop,
}

/// The interrupts of this process.
#[derive(Debug)]
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    clock: Clock,
    terminal: bool,
    stopping: bool,
    /// When the first one detaches.
    detach_at: Option<Duration>,
}

impl Interrupts {
    /// Takes the signals over from their default.
    pub(super) fn listen() -> Result<Self, Failure> {
        let take = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("listen to signals: {error}")))
        };
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
            clock: Clock::system(),
            terminal: std::io::stdin().is_terminal() || std::io::stderr().is_terminal(),
            stopping: false,
            detach_at: None,
        })
    }

    /// What is asked for next. Cancel safe: what was pressed before is remembered.
    pub(super) async fn next(&mut self) -> Pressed {
        loop {
            tokio::select! {
                Some(()) = self.interrupt.recv() => {
                    if !self.terminal || self.stopping {
                        return Pressed::Detach;
                    }
                    if self.detach_at.take().is_some() {
                        self.stopping = true;
                        return Pressed::Stop;
                    }
                    out::aloud("detaching in 2 s, again to stop");
                    self.detach_at = Some(self.clock.boottime() + AGAIN_WITHIN);
                }
                Some(()) = self.terminate.recv() => return Pressed::Detach,
                () = due(&self.clock, self.detach_at) => return Pressed::Detach,
            }
        }
    }
}

async fn due(clock: &Clock, at: Option<Duration>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => pending().await,
    }
}
