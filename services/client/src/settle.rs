//! Calls whose answer may get lost, and whose effect must happen exactly once (F20).

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;
use muster_domain::{Fault, Kind, Reason};

use crate::{
    Client,
    client::{Attempt, Call},
};

/// A call under a key did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsettled {
    /// The coordinator answered: it will not. Nothing happened.
    Refused(Fault),
    /// The call never reached a coordinator. Nothing happened.
    NotAccepted(Fault),
    /// The call was sent and nobody answered: it may have happened. Ask, or repeat it, with
    /// the same key.
    Unknown {
        /// The key.
        id: String,
        /// What was seen last.
        cause: Fault,
    },
}

impl Unsettled {
    /// The fault behind it.
    pub fn fault(&self) -> &Fault {
        match self {
            Self::Refused(fault)
            | Self::NotAccepted(fault)
            | Self::Unknown { cause: fault, .. } => fault,
        }
    }
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(fault) => write!(f, "{fault}"),
            Self::NotAccepted(fault) => write!(f, "not accepted: {fault}"),
            Self::Unknown { id, cause } => write!(f, "unknown, id {id}: {cause}"),
        }
    }
}

impl std::error::Error for Unsettled {}

impl From<Unsettled> for Fault {
    /// A refusal as it is; the others as `COORDINATOR_UNREACHABLE` with `outcome` in the
    /// metadata: `not_accepted`, or `unknown` with `id`.
    fn from(unsettled: Unsettled) -> Self {
        let text = unsettled.to_string();
        let told = |outcome: &str, cause: &Fault| {
            Fault::new(Reason::CoordinatorUnreachable, text.clone())
                .with("outcome", outcome)
                .with_internal(cause)
        };
        match unsettled {
            Unsettled::Refused(fault) => fault,
            Unsettled::NotAccepted(fault) => told("not_accepted", &fault),
            Unsettled::Unknown { id, cause } => told("unknown", &cause)
                .with("id", id)
                .with_hint("repeat it with the same id: it happens once"),
        }
    }
}

impl<T> Attempt<T> {
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::Done(answer) => Attempt::Done(f(answer)),
            Self::Refused(fault) => Attempt::Refused(fault),
            Self::NotSent(fault) => Attempt::NotSent(fault),
            Self::Lost { fault, stale } => Attempt::Lost { fault, stale },
        }
    }
}

impl Client {
    /// Repeats a call until it is answered, or `patience` is over. One attempt never takes
    /// all of it: a coordinator that hangs may be replaced.
    pub(crate) async fn settle<T>(
        &self,
        id: &str,
        patience: Duration,
        each: Duration,
        call: impl Call<T>,
    ) -> Result<T, Unsettled> {
        // Repeating it is the look-up: the coordinator gives the first answer.
        self.settle_or_find(id, patience, each, call, |_| {
            Box::pin(async { Attempt::Refused(Fault::new(Reason::NotFound, "")) })
        })
        .await
    }

    /// The same; after a cut `find` looks first whether it has happened.
    pub(crate) async fn settle_or_find<'a, T>(
        &'a self,
        id: &str,
        patience: Duration,
        each: Duration,
        call: impl Call<T>,
        find: impl Fn(Duration) -> BoxFuture<'a, Attempt<T>>,
    ) -> Result<T, Unsettled> {
        let until = self.until(patience);
        let mut sent = false;
        for attempt in 0_u32.. {
            let end = || self.until(each).min(until);
            if sent && let Attempt::Done(answer) = find(end()).await {
                return Ok(answer);
            }
            let fault = match Box::pin(self.attempt(end(), &call)).await {
                Attempt::Done(answer) => return Ok(answer),
                // It is there and cannot now; it says so before it does anything.
                Attempt::Refused(fault) if is_passing(&fault) => fault,
                Attempt::Refused(fault) => return Err(Unsettled::Refused(fault)),
                Attempt::NotSent(fault) => fault,
                Attempt::Lost { fault, .. } => {
                    sent = true;
                    fault
                }
            };
            if !self.link().pause(attempt, until).await {
                return Err(if sent {
                    Unsettled::Unknown {
                        id: id.to_owned(),
                        cause: fault,
                    }
                } else {
                    Unsettled::NotAccepted(fault)
                });
            }
        }
        unreachable!("attempts are counted without end")
    }
}

/// The coordinator starts, ends, or cannot write now.
fn is_passing(fault: &Fault) -> bool {
    matches!(
        fault.reason(),
        Reason::NotReady | Reason::ShuttingDown | Reason::StoreUnavailable | Reason::Moved
    ) || (fault.kind() == Kind::Unavailable && fault.reason() == Reason::Unavailable)
}
