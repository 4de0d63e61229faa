//! The connections of one generation of a link.

use tokio::sync::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Channel;

use super::LinkParts;
use crate::channel::{ConnectError, Connection, Profile, StreamPermit};

/// The control connection and what was opened beside it. When the link gives up, or the last
/// holder drops it, all of it ends.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) control: Connection,
    tails: Mutex<Vec<Connection>>,
    files: Mutex<Vec<Connection>>,
    cut: CancellationToken,
    _cut_when_dropped: DropGuard,
}

pub(super) enum LeaseError {
    /// As many streams as this side allows itself are open.
    Full,
    /// The generation or the connection ended while waiting.
    Ended,
    /// A connection was needed and not made.
    Connect(ConnectError),
}

impl Generation {
    pub(super) fn new(control: Connection, cut: CancellationToken) -> Self {
        Self {
            control,
            tails: Mutex::new(Vec::new()),
            files: Mutex::new(Vec::new()),
            _cut_when_dropped: cut.clone().drop_guard(),
            cut,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.cut.is_cancelled()
    }

    pub(super) fn end(&self) {
        self.cut.cancel();
    }

    /// A stream's place on a living connection, which is opened when there is none. Cancel safe.
    pub(super) async fn lease(
        &self,
        profile: Profile,
        parts: &LinkParts,
    ) -> Result<(Channel, StreamPermit), LeaseError> {
        let (pool, most) = match profile {
            Profile::Tails => (&self.tails, parts.config.max_tail_connections),
            Profile::Control | Profile::Files => (&self.files, 1),
        };
        let full = {
            // One opens a connection, the others wait for it: they need the same one.
            let mut pool = pool.lock().await;
            if self.is_over() {
                return Err(LeaseError::Ended);
            }
            pool.retain(|connection| !connection.is_ended());
            let free = pool
                .iter()
                .find_map(|connection| Some((connection.channel(), connection.try_permit()?)));
            if let Some(leased) = free {
                return Ok(leased);
            }
            match pool.last() {
                Some(full) if pool.len() >= most => full.clone(),
                _ => {
                    let opened = self.open(profile, parts).await?;
                    let permit = opened.try_permit().ok_or(LeaseError::Full)?;
                    let channel = opened.channel();
                    pool.push(opened);
                    return Ok((channel, permit));
                }
            }
        };
        if profile == Profile::Tails {
            // Tails last; there is no point in waiting for one to end.
            return Err(LeaseError::Full);
        }
        let permit = full.permit().await.ok_or(LeaseError::Ended)?;
        Ok((full.channel(), permit))
    }

    async fn open(&self, profile: Profile, parts: &LinkParts) -> Result<Connection, LeaseError> {
        let timeout = parts.config.dial_timeout;
        let open = Connection::open(&*parts.dial, profile, &parts.clock, timeout, &self.cut);
        tokio::select! {
            result = open => result.map_err(LeaseError::Connect),
            () = self.cut.cancelled() => Err(LeaseError::Ended),
        }
    }
}
