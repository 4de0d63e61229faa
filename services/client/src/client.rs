//! The client, and how one call is made.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use muster_domain::{Fault, Kind, Reason, limits};
use muster_proto::fault;
use muster_transport::{Clock, Dial};
use tonic::transport::Channel;

use crate::link::{Link, dialler};

/// What a client may be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Deadline of calls that name no other.
    pub call: Duration,
    /// Longest wait between two attempts.
    pub backoff: Duration,
    /// Time.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            call: limits::CLIENT_CALL,
            backoff: limits::CLIENT_BACKOFF,
            clock: Clock::system(),
        }
    }
}

/// A client of one coordinator. Cheap to clone; clones share the connection.
///
/// Dropping the future of a call takes nothing back: what the coordinator has begun, it does.
#[derive(Debug, Clone)]
pub struct Client {
    link: Arc<Link>,
    call: Duration,
}

/// One call on one channel, which may be made again.
pub(crate) trait Call<T>: Fn(Channel) -> CallAnswer<T> + Send + Sync {}

impl<T, F: Fn(Channel) -> CallAnswer<T> + Send + Sync> Call<T> for F {}

/// What a call gives.
pub(crate) type CallAnswer<T> = BoxFuture<'static, muster_proto::fault::Called<T>>;

/// What came of one attempt.
#[derive(Debug)]
pub(crate) enum Attempt<T> {
    /// The coordinator did it.
    Done(T),
    /// The coordinator refused.
    Refused(Fault),
    /// No connection: nothing was sent.
    NotSent(Fault),
    /// The connection failed, or time was over: nobody knows. `stale`: on a connection that
    /// may have been dead before.
    Lost { fault: Fault, stale: bool },
}

impl<T> Attempt<T> {
    fn into_result(self) -> Result<T, Fault> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Refused(fault) | Self::NotSent(fault) | Self::Lost { fault, .. } => Err(fault),
        }
    }
}

impl Client {
    /// A client of the coordinator at `address` (`unix:PATH`, or a path). Connects with the
    /// first call.
    ///
    /// # Errors
    /// `INVALID`: the address has another form.
    pub fn new(address: &str) -> Result<Self, Fault> {
        Ok(Self::with_dial(
            dialler(address)?,
            address,
            Options::default(),
        ))
    }

    /// A client of the coordinator at `address` that is connected, with one attempt.
    ///
    /// # Errors
    /// `INVALID`, `COORDINATOR_UNREACHABLE`.
    pub async fn connect(address: &str) -> Result<Self, Fault> {
        let client = Self::new(address)?;
        client.reach().await?;
        Ok(client)
    }

    /// A client that dials as told. `address` is for people.
    pub fn with_dial(dial: Arc<dyn Dial>, address: &str, options: Options) -> Self {
        Self {
            link: Arc::new(Link::new(
                dial,
                address.to_owned(),
                options.backoff,
                options.clock,
            )),
            call: options.call,
        }
    }

    /// Connects, unless it is connected.
    ///
    /// # Errors
    /// `COORDINATOR_UNREACHABLE`.
    pub async fn reach(&self) -> Result<(), Fault> {
        self.link.connection(self.until(self.call)).await?;
        Ok(())
    }

    /// The same client with another deadline for calls that name none.
    #[must_use]
    pub fn with_deadline(&self, call: Duration) -> Self {
        Self {
            link: self.link.clone(),
            call,
        }
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.link.clock()
    }

    pub(crate) fn call_deadline(&self) -> Duration {
        self.call
    }

    pub(crate) fn until(&self, span: Duration) -> Duration {
        self.clock().boottime().saturating_add(span)
    }

    /// A call that changes nothing, or the same when made twice: on a connection that proves
    /// dead it is made once more.
    pub(crate) async fn again<T>(
        &self,
        deadline: Duration,
        call: impl Call<T>,
    ) -> Result<T, Fault> {
        let until = self.until(deadline);
        match self.attempt(until, &call).await {
            Attempt::Lost { stale: true, .. } => self.attempt(until, &call).await.into_result(),
            first => first.into_result(),
        }
    }

    /// A call that is made once.
    pub(crate) async fn once<T>(&self, deadline: Duration, call: impl Call<T>) -> Result<T, Fault> {
        self.attempt(self.until(deadline), &call)
            .await
            .into_result()
    }

    pub(crate) async fn attempt<T>(&self, until: Duration, call: &impl Call<T>) -> Attempt<T> {
        let borrowed = match self.link.connection(until).await {
            Ok(borrowed) => borrowed,
            Err(fault) => return Attempt::NotSent(fault),
        };
        let answer = call(borrowed.connection.channel());
        let status = match self.clock().timeout_at(until, answer).await {
            Ok(Ok(answer)) => return Attempt::Done(answer.into_inner()),
            Ok(Err(status)) => status,
            Err(_) => {
                let fault = Fault::new(Reason::Deadline, "the coordinator did not answer in time");
                return Attempt::Lost {
                    fault,
                    stale: false,
                };
            }
        };
        let fault = fault::from_coordinator(&status);
        if fault::is_answer(&status) {
            return Attempt::Refused(fault);
        }
        match fault.kind() {
            Kind::Unavailable => {
                self.link.forget(&borrowed.connection).await;
                Attempt::Lost {
                    fault,
                    stale: !borrowed.fresh,
                }
            }
            Kind::Deadline => Attempt::Lost {
                fault,
                stale: false,
            },
            // The library's own refusals: too large, no such method.
            _ => Attempt::Refused(fault),
        }
    }
}
