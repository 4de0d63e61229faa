//! What goes into a program's stdin: through its keeper, or not at all.

use std::{io::Write as _, sync::Arc, time::Duration};

use muster_domain::{Fault, Reason, limits};
use muster_proto::{
    agent::{DeliveryOutcome, OutcomeKind, RunState, StdinMode},
    keeper::{self, FailureReason, deliver::Payload},
};
use rustix::fs::OFlags;

use super::{Processes, broken};
use crate::{
    keeper_client::{KeeperClient, KeeperError},
    run_dir::{Delivery, RunDir, RunKey, is_full},
};

/// What a keeper may take beyond the time that it was told to wait.
pub(super) const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// One payload on its way.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) delivery_id: String,
    pub(crate) bytes: bytes::Bytes,
    pub(crate) single_line: bool,
}

impl Processes {
    /// Hands a payload to the keeper and says what became of it within `wait` (at most 2 s).
    /// Asking again with the same id never writes twice. Dropping the future does not take the
    /// payload back.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `NOT_A_LINE`, `MESSAGE_TOO_LARGE`, `DELIVERY_LIMIT`; `NOT_READY`: the
    /// keeper lives and says nothing, so nobody knows whether it took the payload.
    pub(crate) async fn deliver(
        &self,
        key: RunKey,
        payload: Input,
        wait: Duration,
    ) -> Result<DeliveryOutcome, Fault> {
        check(&payload)?;
        let Ok(_place) = self.inner.deliveries.try_acquire() else {
            let most = limits::DELIVERIES_AT_ONCE;
            let why = format!("at most {most} deliveries run at once on a host");
            return Err(Fault::new(Reason::DeliveryLimit, why).with("limit", most));
        };
        let dir = self.run_dir(key).await?;
        let id = payload.delivery_id.clone();
        let (call, _spool) = match self.deliver_call(&dir, payload, wait).await {
            Ok(call) => call,
            Err(error) if is_full(&error) => return Ok(bare(&id, OutcomeKind::DiskFull)),
            Err(error) => return Err(broken(key, &error)),
        };
        let deadline = wait.min(limits::DELIVER_WAIT) + ANSWER_GRACE;
        let answer = match KeeperClient::connect(&dir, ANSWER_GRACE).await {
            Ok(client) => client.deliver(call, deadline).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(said) => Ok(outcome(said)),
            Err(KeeperError::Refused(failure)) => refused(&id, &failure),
            Err(error) => {
                tracing::debug!(?key, %error, "no answer to a delivery");
                self.without_keeper(key, dir, id, &error).await
            }
        }
    }

    /// What the journal says about a delivery.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`.
    pub(crate) async fn get_delivery(
        &self,
        key: RunKey,
        delivery_id: String,
    ) -> Result<DeliveryOutcome, Fault> {
        let dir = self.run_dir(key).await?;
        if let Ok(client) = KeeperClient::connect(&dir, ANSWER_GRACE).await
            && let Ok(said) = client.get_delivery(&delivery_id, ANSWER_GRACE).await
        {
            return Ok(outcome(said));
        }
        let id = delivery_id.clone();
        let found = self
            .blocking(move |_| Delivery::find(&dir, &id).map_err(|error| broken(key, &error)))
            .await?;
        let kept = self.facts(key).await?.keeper.is_some();
        Ok(journalled(
            &delivery_id,
            found.as_ref(),
            kept,
            OutcomeKind::Unknown,
        ))
    }

    /// Closes a closable stdin. True when it was closed before.
    ///
    /// # Errors
    /// `RUN_NOT_FOUND`, `STDIN_HELD`, `NO_KEEPER`.
    pub(crate) async fn close_stdin(&self, key: RunKey) -> Result<bool, Fault> {
        let dir = self.run_dir(key).await?;
        let answer = match KeeperClient::connect(&dir, ANSWER_GRACE).await {
            Ok(client) => client.close_stdin(ANSWER_GRACE).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(closed) => Ok(closed.already),
            Err(KeeperError::Refused(failure)) if failure.reason() == FailureReason::StdinHeld => {
                Err(Fault::new(
                    Reason::StdinHeld,
                    "the stdin of this run is held open",
                ))
            }
            Err(error) => {
                let facts = self.facts(key).await?;
                if facts.stdin_mode() == StdinMode::Held {
                    let why = "the stdin of this run is held open";
                    return Err(Fault::new(Reason::StdinHeld, why));
                }
                // The keeper held the write end: with it the program's stdin was closed.
                if matches!(error, KeeperError::NoKeeper) && facts.keeper.is_none() {
                    return Ok(true);
                }
                Err(no_keeper(key).with_internal(error))
            }
        }
    }

    /// The call, with a large payload in a file beside the run's other ones. The file is
    /// removed with the second value: the keeper has it open by then.
    pub(super) async fn deliver_call(
        &self,
        dir: &Arc<RunDir>,
        payload: Input,
        wait: Duration,
    ) -> std::io::Result<(keeper::Deliver, Option<Spool>)> {
        let (sent, spool) = if payload.bytes.len() > limits::KEEPER_INLINE_BYTES {
            let dir = dir.clone();
            let write = move || Spool::write(dir, &payload.bytes);
            let spooled = self.inner.tasks.spawn_blocking("spool", write).await;
            let spool = spooled.map_err(std::io::Error::other)??;
            (Payload::SpoolFile(spool.name.clone()), Some(spool))
        } else {
            (Payload::Inline(payload.bytes), None)
        };
        let wait = wait.min(limits::DELIVER_WAIT);
        let call = keeper::Deliver {
            delivery_id: payload.delivery_id,
            wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
            single_line: payload.single_line,
            payload: Some(sent),
        };
        Ok((call, spool))
    }

    /// The answer when no keeper gave one: from the journal, else from how the run is.
    async fn without_keeper(
        &self,
        key: RunKey,
        dir: Arc<RunDir>,
        id: String,
        error: &KeeperError,
    ) -> Result<DeliveryOutcome, Fault> {
        let facts = self.facts(key).await?;
        let wanted = id.clone();
        let found = self
            .blocking(move |_| Delivery::find(&dir, &wanted).map_err(|error| broken(key, &error)))
            .await?;
        let kept = facts.keeper.is_some();
        let nobody = matches!(error, KeeperError::NoKeeper);
        let otherwise = match facts.state() {
            RunState::Exited => OutcomeKind::Exited,
            RunState::NeverStarted => OutcomeKind::NoKeeper,
            // The keeper does not listen yet: nothing was handed to anybody.
            RunState::Starting => OutcomeKind::Retry,
            _ if kept && nobody => OutcomeKind::Retry,
            _ if !kept && facts.stdin_mode() == StdinMode::Closable => OutcomeKind::StdinClosed,
            _ if nobody => OutcomeKind::NoKeeper,
            // It lives and does not answer; it may have taken the payload or not.
            _ if found.is_none() => {
                let why = format!(
                    "the keeper of run {} of session {} does not answer now",
                    key.run, key.session
                );
                return Err(Fault::new(Reason::NotReady, why)
                    .with_hint("send the identical delivery again")
                    .with_internal(error));
            }
            _ => OutcomeKind::InFlight,
        };
        Ok(journalled(&id, found.as_ref(), kept, otherwise))
    }
}

fn check(payload: &Input) -> Result<(), Fault> {
    if payload.bytes.len() > limits::DELIVERY_BYTES {
        let most = limits::DELIVERY_BYTES;
        let why = format!("a delivery has at most {most} bytes");
        return Err(Fault::new(Reason::MessageTooLarge, why).with("limit", most));
    }
    let Some((b'\n', line)) = payload.bytes.split_last() else {
        return Err(Fault::new(
            Reason::NotALine,
            "a delivery ends with a newline",
        ));
    };
    if payload.single_line && memchr::memchr(b'\n', line).is_some() {
        return Err(Fault::new(
            Reason::NotALine,
            "a delivery of this program is one line",
        ));
    }
    Ok(())
}

fn refused(id: &str, failure: &keeper::Failure) -> Result<DeliveryOutcome, Fault> {
    let reason = match failure.reason() {
        FailureReason::DiskFull => return Ok(bare(id, OutcomeKind::DiskFull)),
        FailureReason::NotALine => Reason::NotALine,
        FailureReason::TooLarge => Reason::MessageTooLarge,
        FailureReason::Invalid => Reason::Invalid,
        _ => return Err(Fault::internal(&failure.message)),
    };
    Err(Fault::new(reason, failure.message.clone()))
}

pub(super) fn no_keeper(key: RunKey) -> Fault {
    let why = format!("run {} of session {} has no keeper", key.run, key.session);
    Fault::new(Reason::NoKeeper, why)
}

fn bare(id: &str, kind: OutcomeKind) -> DeliveryOutcome {
    DeliveryOutcome {
        delivery_id: id.to_owned(),
        kind: kind.into(),
        ..DeliveryOutcome::default()
    }
}

/// The outcome that a journal shows; `otherwise` when it has none that stays.
fn journalled(
    id: &str,
    found: Option<&Delivery>,
    kept: bool,
    otherwise: OutcomeKind,
) -> DeliveryOutcome {
    match found {
        Some(Delivery::Ended {
            outcome,
            written,
            stream_before,
            stream_after,
        }) => {
            let kind = keeper::OutcomeKind::from(*outcome);
            DeliveryOutcome {
                delivery_id: id.to_owned(),
                kind: kind_of(kind).into(),
                stream_size_before: *stream_before,
                stream_size_after: *stream_after,
                bytes_written: *written,
                busy_with: String::new(),
                already: true,
            }
        }
        // Begun and not ended: in the pipe in part, in whole or not at all. Only a living
        // keeper still writes it; a dead one leaves what nobody knows.
        Some(Delivery::Started { stream_before, .. }) => DeliveryOutcome {
            stream_size_before: *stream_before,
            ..bare(
                id,
                if kept {
                    OutcomeKind::InFlight
                } else if otherwise == OutcomeKind::Unknown {
                    OutcomeKind::NoKeeper
                } else {
                    otherwise
                },
            )
        },
        None => bare(id, otherwise),
    }
}

/// A keeper's outcome in the words of the agent's contract.
pub(super) fn outcome(said: keeper::Outcome) -> DeliveryOutcome {
    DeliveryOutcome {
        kind: kind_of(said.kind()).into(),
        delivery_id: said.delivery_id,
        stream_size_before: said.stream_size_before,
        stream_size_after: said.stream_size_after,
        bytes_written: said.bytes_written,
        busy_with: said.busy_with,
        already: said.already,
    }
}

fn kind_of(kind: keeper::OutcomeKind) -> OutcomeKind {
    match kind {
        keeper::OutcomeKind::Unspecified => OutcomeKind::Unspecified,
        keeper::OutcomeKind::Delivered => OutcomeKind::Delivered,
        keeper::OutcomeKind::Retry => OutcomeKind::Retry,
        keeper::OutcomeKind::InFlight => OutcomeKind::InFlight,
        keeper::OutcomeKind::Busy => OutcomeKind::Busy,
        keeper::OutcomeKind::StdinClosed => OutcomeKind::StdinClosed,
        keeper::OutcomeKind::Exited => OutcomeKind::Exited,
        keeper::OutcomeKind::DiskFull => OutcomeKind::DiskFull,
        keeper::OutcomeKind::Unknown => OutcomeKind::Unknown,
    }
}

/// A payload in a file of the run folder, for as long as the call lasts.
#[derive(Debug)]
pub(super) struct Spool {
    dir: Arc<RunDir>,
    name: String,
}

impl Spool {
    fn write(dir: Arc<RunDir>, bytes: &[u8]) -> std::io::Result<Self> {
        let name = format!("spool-{}", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = dir.open_file(&name, flags)?;
        let spool = Self { dir, name };
        file.write_all(bytes)?;
        Ok(spool)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = self.dir.remove(&self.name);
    }
}
