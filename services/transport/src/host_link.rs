//! One host's link, kept alive for ever: dial, hello, watch, give up, dial again.
//!
//! The decisions are those of [`crate::link::LinkMachine`]; this module does what it says and
//! tells it what happened. Callers ask for a channel and wait for the link up to their own
//! deadline. All connections of one generation end together: what comes after a reconnect
//! shares nothing with what was before.

mod driver;
mod pool;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use muster_runtime::{Clock, Tasks};
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Channel;

use crate::{
    backoff,
    channel::{ConnectError, Profile, StreamPermit},
    dial::{Bootstrap, Dial, DialFault},
    link::{Cause, LinkState},
};
use driver::Driver;
use pool::{Generation, LeaseError};

/// What an agent says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelloOk {
    /// The protocol version both sides speak.
    pub protocol: u32,
    /// Changes with every start of the agent.
    pub instance_id: String,
    /// Changes with every boot of the host.
    pub boot_id: String,
    /// The agent's build.
    pub build: String,
    /// Names of what it can do.
    pub features: Vec<String>,
}

/// The protocol's part of the link; the link itself knows no messages.
#[async_trait]
pub trait Handshake: Send + Sync + fmt::Debug {
    /// The first call on a new connection. The link sets a deadline (then: agent wedged).
    ///
    /// # Errors
    /// Why this agent cannot be used.
    async fn hello(&self, channel: Channel) -> Result<HelloOk, Cause>;

    /// Follows the agent for as long as the connection is good, and calls [`Pulse::beat`] for
    /// every beat that comes. When it returns the connection is taken for lost. It is dropped
    /// when the link gives the connection up.
    async fn watch(&self, channel: Channel, pulse: Pulse);

    /// A call that must be answered: made when nothing came in for a while. Its result does
    /// not matter, the bytes of any answer do.
    async fn probe(&self, channel: Channel) {
        let _ = self.hello(channel).await;
    }
}

/// Where a [`Handshake`] reports the agent's beats. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pulse {
    clock: Clock,
    last: Arc<watch::Sender<Duration>>,
}

impl Pulse {
    fn new(clock: Clock) -> Self {
        let last = Arc::new(watch::Sender::new(clock.boottime()));
        Self { clock, last }
    }

    /// A beat of the agent has come in.
    pub fn beat(&self) {
        self.last.send_replace(self.clock.boottime());
    }

    fn last(&self) -> Duration {
        *self.last.borrow()
    }
}

/// Times of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// Deadline of dial plus HTTP/2.
    pub dial_timeout: Duration,
    /// Deadline of the hello.
    pub hello_timeout: Duration,
    /// Deadline of a bootstrap.
    pub bootstrap_timeout: Duration,
    /// How often the machine looks at the link.
    pub tick: Duration,
    /// Most tails connections; each carries 256 tails.
    pub max_tail_connections: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            dial_timeout: Duration::from_secs(10),
            hello_timeout: Duration::from_secs(10),
            bootstrap_timeout: Duration::from_secs(60),
            tick: Duration::from_secs(1),
            max_tail_connections: 16,
        }
    }
}

/// The link as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// The state, with its cause when unreachable.
    pub state: LinkState,
    /// Failed attempts since the last good connection.
    pub attempts: u32,
    /// Boottime of the next attempt, when one is planned.
    pub next_try_at: Option<Duration>,
    /// Boottime since which the state is this one.
    pub since: Duration,
    /// The same in wall time, microseconds UTC.
    pub since_micros: i64,
    /// How often the link came up; each one is a new set of connections.
    pub generation: u64,
    /// What the agent of the present or last connection said about itself.
    pub hello: Option<HelloOk>,
}

impl LinkView {
    /// The cause, when unreachable.
    pub fn cause(&self) -> Option<&Cause> {
        match &self.state {
            LinkState::Unreachable { cause } => Some(cause),
            _ => None,
        }
    }
}

/// No channel to the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The link did not come up within the caller's deadline.
    #[error("host is {}{}", state.name(), reason(cause.as_ref()))]
    HostUnreachable {
        /// The link's state when the time was over.
        state: LinkState,
        /// Why, as far as it is known.
        cause: Option<Cause>,
    },
    /// All streams that this side allows itself are in use.
    #[error("all streams of the host's {profile:?} connections are in use")]
    Exhausted {
        /// The connections' profile.
        profile: Profile,
    },
    /// The link was closed on this side.
    #[error("the link is closed")]
    Closed,
}

fn reason(cause: Option<&Cause>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

/// A channel together with the right to have one stream open on it: keep it for as long as
/// the stream lives.
#[derive(Debug)]
pub struct Leased {
    channel: Channel,
    permit: StreamPermit,
}

impl Leased {
    /// The channel.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Its parts, for a stream that carries the permit itself.
    pub fn into_parts(self) -> (Channel, StreamPermit) {
        (self.channel, self.permit)
    }
}

/// What a link is made of.
#[derive(Clone, Debug)]
pub struct LinkParts {
    /// How the host is reached.
    pub dial: Arc<dyn Dial>,
    /// How an agent is made to be there, where that is possible.
    pub bootstrap: Option<Arc<dyn Bootstrap>>,
    /// The protocol's part.
    pub handshake: Arc<dyn Handshake>,
    /// Its time.
    pub clock: Clock,
    /// Its limits.
    pub config: LinkConfig,
}

/// One host's link. Cheap to clone; when the last clone is dropped the link ends.
#[derive(Clone, Debug)]
pub struct HostLink {
    parts: LinkParts,
    view: watch::Receiver<LinkView>,
    current: watch::Receiver<Option<Arc<Generation>>>,
    retry: Arc<Notify>,
    /// The agent is told to end. Set before it is, so that the driver cannot miss it.
    resting: Arc<AtomicBool>,
    stop: CancellationToken,
    _stop_when_dropped: Arc<DropGuard>,
}

impl HostLink {
    /// Starts the link as a task `link <name>` of `tasks`.
    pub fn spawn(tasks: &Tasks, name: &str, parts: LinkParts) -> Self {
        let stop = tasks.token().child_token();
        let retry = Arc::new(Notify::new());
        let resting = Arc::new(AtomicBool::new(false));
        let (driver, view, current) =
            Driver::new(parts.clone(), retry.clone(), resting.clone(), stop.clone());
        tasks.spawn(format_args!("link {name}"), driver.run());
        Self {
            parts,
            view,
            current,
            retry,
            resting,
            _stop_when_dropped: Arc::new(stop.clone().drop_guard()),
            stop,
        }
    }

    /// The state, and every later one.
    pub fn view(&self) -> watch::Receiver<LinkView> {
        self.view.clone()
    }

    /// Asks for an attempt now instead of at the planned time; the only way out of a refused
    /// host key, and what has an agent started again after [`HostLink::rest`].
    pub fn retry_now(&self) {
        self.resting.store(false, Ordering::SeqCst);
        self.retry.notify_one();
    }

    /// To be called before the agent is told to end: where none answers from now on, none is
    /// started, until [`HostLink::retry_now`]. The link goes on otherwise.
    pub fn rest(&self) {
        self.resting.store(true, Ordering::SeqCst);
    }

    /// Waits until no agent answers on the host and none is being started. Cancel safe.
    pub async fn agent_down(&self) {
        let mut view = self.view.clone();
        // A link that has ended says nothing more.
        let down = view.wait_for(|view| view.cause() == Some(&Cause::AgentDown));
        if down.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends the link and its connections.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// The control channel, for unary calls and the few streams that belong to the host.
    /// Waits up to `wait` for the link. Cancel safe.
    ///
    /// # Errors
    /// [`LinkError::HostUnreachable`], [`LinkError::Closed`].
    pub async fn control(&self, wait: Duration) -> Result<Channel, LinkError> {
        match self.parts.clock.timeout(wait, self.up()).await {
            Ok(generation) => Ok(generation?.control.channel()),
            Err(_) => Err(self.unreachable(None)),
        }
    }

    /// A place for one tail. Waits up to `wait` for the link and for a connection. Cancel safe.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn tails(&self, wait: Duration) -> Result<Leased, LinkError> {
        self.lease(Profile::Tails, wait).await
    }

    /// A place for one read or write of a file. Waits up to `wait` for the link and for one
    /// of the few places. Cancel safe.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn files(&self, wait: Duration) -> Result<Leased, LinkError> {
        self.lease(Profile::Files, wait).await
    }

    async fn lease(&self, profile: Profile, wait: Duration) -> Result<Leased, LinkError> {
        let mut last = None;
        let lease = self.lease_unbounded(profile, &mut last);
        match self.parts.clock.timeout(wait, lease).await {
            Ok(result) => result,
            Err(_) => match last {
                None if profile == Profile::Files && self.view.borrow().state.is_up() => {
                    Err(LinkError::Exhausted { profile })
                }
                last => Err(self.unreachable(last)),
            },
        }
    }

    async fn lease_unbounded(
        &self,
        profile: Profile,
        last: &mut Option<Cause>,
    ) -> Result<Leased, LinkError> {
        let mut attempt = 0;
        loop {
            let generation = self.up().await?;
            match generation.lease(profile, &self.parts).await {
                Ok((channel, permit)) => return Ok(Leased { channel, permit }),
                Err(LeaseError::Full) => return Err(LinkError::Exhausted { profile }),
                // The control connection is the judge of the link; this one is tried again.
                Err(LeaseError::Connect(error)) => {
                    tracing::debug!(?profile, %error, "connection not made");
                    *last = Some(cause_of(&error));
                    let wait = backoff::delay(attempt, fastrand::f64());
                    attempt += 1;
                    self.parts.clock.sleep(wait).await;
                }
                Err(LeaseError::Ended) => {}
            }
        }
    }

    async fn up(&self) -> Result<Arc<Generation>, LinkError> {
        let mut current = self.current.clone();
        let up = current
            .wait_for(|now| now.as_ref().is_some_and(|it| !it.is_over()))
            .await
            .map_err(|_| LinkError::Closed)?;
        up.clone().ok_or(LinkError::Closed)
    }

    fn unreachable(&self, cause: Option<Cause>) -> LinkError {
        let view = self.view.borrow();
        LinkError::HostUnreachable {
            state: view.state.clone(),
            cause: cause.or_else(|| view.cause().cloned()),
        }
    }
}

fn cause_of(error: &ConnectError) -> Cause {
    match error.fault() {
        DialFault::Network => Cause::Network,
        DialFault::Refused => Cause::Refused,
        DialFault::AuthFailed => Cause::AuthFailed,
        DialFault::HostKeyRefused => Cause::HostKeyRefused,
        DialFault::AgentDown => Cause::AgentDown,
    }
}
