//! The tail of a session's output: pulled one event at a time, so that a slow store slows it
//! down, and nobody else's (F19).

use std::{future, sync::Arc};

use futures_util::{StreamExt as _, future::BoxFuture};
use muster_domain::{Fault, SessionId, session::fold::Fact};

use super::{calls, facts};
use crate::hosts::api::{HostApi, TailStream};

/// The tail of one run, or none.
pub(super) struct Tail {
    run: u32,
    state: State,
}

enum State {
    Closed,
    Opening(BoxFuture<'static, Result<TailStream, Fault>>),
    Open(TailStream),
}

impl Tail {
    pub(super) fn closed() -> Self {
        Self {
            run: 0,
            state: State::Closed,
        }
    }

    /// Begins to follow `run`; an earlier tail is dropped.
    pub(super) fn open(
        &mut self,
        host: Arc<dyn HostApi>,
        session: SessionId,
        run: u32,
        cursor: Vec<u8>,
    ) {
        let call = calls::follow(session, run, cursor);
        self.run = run;
        let opening = async move { host.follow(call, calls::CALL).await };
        self.state = State::Opening(Box::pin(opening));
    }

    /// Follows `run` no more.
    pub(super) fn close(&mut self, run: u32) {
        if self.run == run {
            self.state = State::Closed;
        }
    }

    /// The next fact; waits for ever while there is no tail. Cancel safe.
    pub(super) async fn next(&mut self) -> Fact {
        let run = self.run;
        loop {
            let event = match &mut self.state {
                State::Closed => future::pending().await,
                State::Opening(opening) => match opening.await {
                    Ok(stream) => {
                        self.state = State::Open(stream);
                        continue;
                    }
                    Err(fault) => Some(Err(fault)),
                },
                State::Open(stream) => stream.next().await,
            };
            match event {
                Some(Ok(event)) => {
                    let Some(fact) = facts::of_tail(run, event) else {
                        continue;
                    };
                    if let Fact::TailEnd { .. } = fact {
                        self.state = State::Closed;
                    }
                    return fact;
                }
                Some(Err(fault)) => {
                    tracing::debug!(run, %fault, "the tail broke off");
                    self.state = State::Closed;
                    return Fact::TailLost { run };
                }
                None => {
                    self.state = State::Closed;
                    return Fact::TailLost { run };
                }
            }
        }
    }
}
