//! The connection to the coordinator: made when needed, made anew when it has ended.

use std::{path::Path, sync::Arc, time::Duration};

use muster_domain::{Fault, Reason, limits};
use muster_transport::{
    Clock, Connection, Dial, DialFault, Profile, Unix, backoff, channel::ConnectError,
};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The dialler of an address: `unix:PATH`, or a path that begins with `/` or `.`.
pub(crate) fn dialler(address: &str) -> Result<Arc<dyn Dial>, Fault> {
    let path = address.strip_prefix("unix:").unwrap_or(address);
    let is_path = path != address || address.starts_with(['/', '.']);
    if is_path && !path.is_empty() {
        return Ok(Arc::new(Unix::new(Path::new(path))));
    }
    Err(
        Fault::invalid("address", "not a form that this version knows")
            .with_hint("give `unix:PATH`"),
    )
}

#[derive(Debug)]
pub(crate) struct Link {
    dial: Arc<dyn Dial>,
    address: String,
    backoff: Duration,
    clock: Clock,
    current: Mutex<Option<Connection>>,
}

/// A connection, and whether a call was made on it before.
#[derive(Debug)]
pub(crate) struct Borrowed {
    pub(crate) connection: Connection,
    pub(crate) fresh: bool,
}

impl Link {
    pub(crate) fn new(
        dial: Arc<dyn Dial>,
        address: String,
        backoff: Duration,
        clock: Clock,
    ) -> Self {
        Self {
            dial,
            address,
            backoff,
            clock,
            current: Mutex::new(None),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The living connection, else a new one, by `until` (boottime). Cancel safe.
    pub(crate) async fn connection(&self, until: Duration) -> Result<Borrowed, Fault> {
        let borrow = async {
            let mut current = self.current.lock().await;
            if let Some(connection) = current.as_ref().filter(|open| !open.is_ended()) {
                let connection = connection.clone();
                return Ok(Borrowed {
                    connection,
                    fresh: false,
                });
            }
            let left = until.saturating_sub(self.clock.boottime());
            let connection = Connection::open(
                self.dial.as_ref(),
                Profile::Control,
                &self.clock,
                left.min(limits::CLIENT_CONNECT),
                &CancellationToken::new(),
            )
            .await
            .map_err(|error| self.unreachable(&error))?;
            *current = Some(connection.clone());
            Ok(Borrowed {
                connection,
                fresh: true,
            })
        };
        match self.clock.timeout_at(until, borrow).await {
            Ok(result) => result,
            Err(_) => Err(self.unreachable(&ConnectError::TimedOut)),
        }
    }

    /// Forgets a connection on which a call failed, so that the next call makes a new one.
    pub(crate) async fn forget(&self, failed: &Connection) {
        if failed.is_ended() {
            return;
        }
        // It may look alive for some seconds more; nothing else is risked on it.
        failed.cut();
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(Connection::is_ended) {
            *current = None;
        }
    }

    /// Waits before attempt `attempt + 1`, at most until `until`; false when that is over.
    pub(crate) async fn pause(&self, attempt: u32, until: Duration) -> bool {
        let wait = backoff::delay(attempt, fastrand::f64()).min(self.backoff);
        let wake = self.clock.boottime().saturating_add(wait).min(until);
        self.clock.sleep_until(wake).await;
        self.clock.boottime() < until
    }

    fn unreachable(&self, error: &ConnectError) -> Fault {
        let address = &self.address;
        let why = match error.fault() {
            DialFault::AgentDown => format!("no coordinator listens at {address}"),
            DialFault::Refused => format!("this user may not connect to {address}"),
            DialFault::AuthFailed | DialFault::HostKeyRefused => {
                format!("{address} and this client do not trust each other")
            }
            DialFault::Network => format!("the coordinator at {address} does not answer"),
        };
        Fault::new(Reason::CoordinatorUnreachable, why)
            .with_hint("start one with `muster up --detach`")
            .with("address", address)
            .with_internal(error)
    }
}
