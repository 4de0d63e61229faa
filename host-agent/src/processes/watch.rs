//! All runs as a stream: a snapshot, then what changes.

use async_stream::try_stream;
use futures_util::Stream;
use muster_domain::{Fault, Reason};
use muster_proto::agent::{RunsMoved, SnapshotEnd, WatchRunsResponse, watch_runs_response::Event};
use tokio::sync::broadcast::error::RecvError;

use super::{Processes, RunEvent};

impl Processes {
    /// Facts of every run, the end of the snapshot, then events; nothing that happens after the
    /// call is missing, and what happens meanwhile may be told twice. Ends with `moved` when the
    /// agent goes down, with `STREAM_LIMIT` when the reader falls behind: it begins anew then.
    pub(crate) fn watch(
        &self,
    ) -> impl Stream<Item = Result<WatchRunsResponse, Fault>> + Send + use<> {
        let this = self.clone();
        // Before the snapshot is read: no event can fall between.
        let mut events = self.inner.events.subscribe();
        let token = self.inner.tasks.token();
        try_stream! {
            let mut sequence = 0;
            let mut numbered = move |event| {
                sequence += 1;
                WatchRunsResponse { sequence, event: Some(event) }
            };
            let keys = this.blocking(|this| this.home().scan().map_err(Fault::internal)).await?.runs;
            for key in keys {
                match this.facts(key).await {
                    Ok(facts) => yield numbered(Event::Facts(facts)),
                    Err(fault) if fault.reason() == Reason::RunNotFound => {}
                    // One damaged folder must not hide the others.
                    Err(fault) => tracing::error!(?key, cause = fault.cause(), "run cannot be read"),
                }
            }
            yield numbered(Event::SnapshotEnd(SnapshotEnd {}));
            loop {
                let event = tokio::select! {
                    () = token.cancelled() => {
                        yield numbered(Event::Moved(RunsMoved {}));
                        return;
                    }
                    event = events.recv() => event,
                };
                match event {
                    Ok(event) => yield numbered(wire(&event)),
                    Err(RecvError::Lagged(missed)) => {
                        let why = format!("the reader is {missed} events behind");
                        Err(Fault::new(Reason::StreamLimit, why).with_hint("watch again"))?;
                    }
                    Err(RecvError::Closed) => return,
                }
            }
        }
    }
}

fn wire(event: &RunEvent) -> Event {
    match event {
        RunEvent::Facts(facts) => Event::Facts(facts.as_ref().clone()),
        RunEvent::DeliveryEnded(ended) => Event::DeliveryEnded(ended.clone()),
    }
}
