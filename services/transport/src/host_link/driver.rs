//! Does what the link's machine says. One task per host: dial, hello and bootstrap never
//! run at the same time, and dropping the task drops all of it.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_runtime::Clock;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{HelloOk, LinkParts, LinkView, Pulse, cause_of, pool::Generation};
use crate::{
    channel::{ConnectError, Connection, Profile},
    link::{Cause, Input, LinkMachine, LinkState, Output},
};

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(super) struct Driver {
    parts: LinkParts,
    machine: LinkMachine,
    view: watch::Sender<LinkView>,
    current: watch::Sender<Option<Arc<Generation>>>,
    retry: Arc<Notify>,
    resting: Arc<AtomicBool>,
    stop: CancellationToken,
    /// The present dial, hello or bootstrap.
    work: Option<Work<Done>>,
    live: Option<Live>,
    hello: Option<HelloOk>,
    generation: u64,
}

/// A connection that was made, greeted or not.
struct Live {
    generation: Arc<Generation>,
    pulse: Pulse,
    watch: Option<Work<()>>,
    probe: Option<Work<()>>,
}

enum Done {
    Dialled(Result<(Connection, CancellationToken), ConnectError>),
    Greeted(Result<HelloOk, Cause>),
    Bootstrapped(Result<(), String>),
}

enum Event {
    Stop,
    Done(Done),
    Lost,
    Tick,
    Retry,
}

impl Driver {
    pub(super) fn new(
        parts: LinkParts,
        retry: Arc<Notify>,
        resting: Arc<AtomicBool>,
        stop: CancellationToken,
    ) -> (
        Self,
        watch::Receiver<LinkView>,
        watch::Receiver<Option<Arc<Generation>>>,
    ) {
        let now = parts.clock.boottime();
        let machine = LinkMachine::new(now, parts.bootstrap.is_some());
        let (view, view_receiver) = watch::channel(LinkView {
            state: machine.state().clone(),
            attempts: 0,
            next_try_at: None,
            since: now,
            since_micros: parts.clock.now_micros(),
            generation: 0,
            hello: None,
        });
        let (current, current_receiver) = watch::channel(None);
        let driver = Self {
            parts,
            machine,
            view,
            current,
            retry,
            resting,
            stop,
            work: None,
            live: None,
            hello: None,
            generation: 0,
        };
        (driver, view_receiver, current_receiver)
    }

    pub(super) async fn run(mut self) {
        let now = self.clock().boottime();
        let outputs = self.machine.start(now);
        self.perform(outputs);
        let mut next_tick = now + self.parts.config.tick;
        loop {
            match self.next_event(next_tick).await {
                Event::Stop => break,
                Event::Done(done) => self.done(done),
                Event::Lost => self.feed(Input::Lost),
                Event::Retry => self.feed(Input::RetryNow),
                Event::Tick => {
                    next_tick = self.clock().boottime() + self.parts.config.tick;
                    self.tick();
                }
            }
        }
        self.drop_connection();
    }

    fn clock(&self) -> &Clock {
        &self.parts.clock
    }

    async fn next_event(&mut self, next_tick: Duration) -> Event {
        let wake_at = self
            .machine
            .next_try_at()
            .map_or(next_tick, |at| at.min(next_tick));
        let clock = self.parts.clock.clone();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Event::Stop,
            done = optional(&mut self.work) => {
                self.work = None;
                Event::Done(done)
            }
            () = lost(&mut self.live) => Event::Lost,
            () = self.retry.notified() => Event::Retry,
            () = clock.sleep_until(wake_at) => Event::Tick,
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Dialled(Ok((control, cut))) => {
                self.live = Some(Live {
                    generation: Arc::new(Generation::new(control, cut)),
                    pulse: Pulse::new(self.parts.clock.clone()),
                    watch: None,
                    probe: None,
                });
                self.feed(Input::DialledOk);
            }
            Done::Dialled(Err(error)) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "dial failed");
                self.feed(Input::DialFailed(cause_of(&error)));
            }
            Done::Greeted(Ok(hello)) => {
                self.hello = Some(hello);
                self.feed(Input::HelloOk);
            }
            Done::Greeted(Err(cause)) => self.feed(Input::HelloFailed(cause)),
            Done::Bootstrapped(result) => self.feed(Input::Bootstrapped(result)),
        }
    }

    fn tick(&mut self) {
        // The tick first: after a sleep it forgives the silence that the others would show.
        self.feed(Input::Tick);
        let Some(live) = &self.live else { return };
        let (byte, beat) = (
            live.generation.control.traffic().last_inbound(),
            live.pulse.last(),
        );
        if let Some(at) = byte {
            self.feed(Input::ByteSeen(at));
        }
        self.feed(Input::Beat(beat));
    }

    fn feed(&mut self, input: Input) {
        let now = self.clock().boottime();
        if self.resting.load(Ordering::SeqCst) {
            self.machine.step(now, 0.0, Input::Rest);
        }
        let outputs = self.machine.step(now, fastrand::f64(), input);
        self.perform(outputs);
    }

    fn perform(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Dial => self.work = Some(self.dial()),
                Output::Bootstrap => self.work = Some(self.bootstrap()),
                Output::Hello => self.work = self.greet(),
                Output::Probe => self.probe(),
                Output::Drop => self.drop_connection(),
                Output::Changed(state) => self.changed(&state),
            }
        }
        self.publish();
    }

    fn dial(&self) -> Work<Done> {
        let parts = self.parts.clone();
        Box::pin(async move {
            let cut = CancellationToken::new();
            let timeout = parts.config.dial_timeout;
            let (dial, clock) = (&*parts.dial, &parts.clock);
            let opened = Connection::open(dial, Profile::Control, clock, timeout, &cut).await;
            Done::Dialled(opened.map(|control| (control, cut)))
        })
    }

    fn bootstrap(&self) -> Work<Done> {
        let parts = self.parts.clone();
        Box::pin(async move {
            let Some(bootstrap) = &parts.bootstrap else {
                return Done::Bootstrapped(Err("no way to start one".to_owned()));
            };
            let timeout = parts.config.bootstrap_timeout;
            let result = match parts.clock.timeout(timeout, bootstrap.bootstrap()).await {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(_) => Err(format!("not done in {} s", timeout.as_secs())),
            };
            Done::Bootstrapped(result)
        })
    }

    fn greet(&self) -> Option<Work<Done>> {
        let channel = self.live.as_ref()?.generation.control.channel();
        let parts = self.parts.clone();
        Some(Box::pin(async move {
            let hello = parts.handshake.hello(channel);
            let result = parts.clock.timeout(parts.config.hello_timeout, hello).await;
            Done::Greeted(result.unwrap_or(Err(Cause::AgentWedged)))
        }))
    }

    fn probe(&mut self) {
        let Some(live) = &mut self.live else { return };
        let channel = live.generation.control.channel();
        let parts = self.parts.clone();
        live.probe = Some(Box::pin(async move {
            let probe = parts.handshake.probe(channel);
            let _ = parts.clock.timeout(parts.config.hello_timeout, probe).await;
        }));
    }

    fn drop_connection(&mut self) {
        self.work = None;
        if let Some(live) = self.live.take() {
            live.generation.end();
        }
        self.current.send_replace(None);
    }

    fn changed(&mut self, state: &LinkState) {
        tracing::info!(state = state.name(), cause = ?cause(state), "link");
        if *state != LinkState::Connected {
            return;
        }
        let Some(live) = &mut self.live else { return };
        if live.watch.is_some() {
            return;
        }
        let (channel, pulse) = (live.generation.control.channel(), live.pulse.clone());
        pulse.beat();
        let handshake = self.parts.handshake.clone();
        live.watch = Some(Box::pin(
            async move { handshake.watch(channel, pulse).await },
        ));
        self.generation += 1;
        self.current.send_replace(Some(live.generation.clone()));
    }

    fn publish(&self) {
        let clock = self.clock();
        let now_micros = clock.now_micros();
        self.view.send_if_modified(|view| {
            let mut next = LinkView {
                state: self.machine.state().clone(),
                attempts: self.machine.attempts(),
                next_try_at: self.machine.next_try_at(),
                since: self.machine.since(),
                since_micros: view.since_micros,
                generation: self.generation,
                hello: self.hello.clone(),
            };
            if next.since != view.since {
                next.since_micros = now_micros;
            }
            let changed = *view != next;
            *view = next;
            changed
        });
    }
}

fn cause(state: &LinkState) -> Option<&Cause> {
    match state {
        LinkState::Unreachable { cause } => Some(cause),
        _ => None,
    }
}

async fn optional<T>(work: &mut Option<Work<T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

/// Ends when the present connection has ended, or its watch has.
async fn lost(live: &mut Option<Live>) {
    let Some(live) = live else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            () = live.generation.control.ended() => return,
            () = optional(&mut live.watch) => {
                live.watch = None;
                return;
            }
            () = optional(&mut live.probe) => live.probe = None,
        }
    }
}
