//! The frame around every mutating call: the order's right to be given, and its line in the
//! audit.

use std::time::Duration;

use muster_proto::agent::{Mutation, RunRef};
use muster_runtime::Peer;
use tonic::{Extensions, Status};

use super::Services;
use crate::host::Entry;

/// A call that changes something.
#[derive(Debug)]
pub(super) struct Order {
    entry: Entry,
    began: Duration,
    mutation: Option<Mutation>,
}

impl Services {
    /// What is known of a call before it is looked at.
    pub(super) fn order(
        &self,
        method: &'static str,
        extensions: &Extensions,
        mutation: Option<Mutation>,
        target: String,
    ) -> Order {
        let peer = extensions.get::<Peer>();
        let named = mutation.clone().unwrap_or_default();
        Order {
            entry: Entry {
                at_us: self.shared.clock.now_micros(),
                method,
                peer_uid: peer.map(|peer| peer.uid),
                peer_pid: peer.and_then(|peer| peer.pid),
                workspace: named.workspace_id,
                epoch: named.epoch,
                request_id: named.request_id,
                target,
                ..Entry::default()
            },
            began: self.shared.clock.boottime(),
            mutation,
        }
    }

    /// Checks the order (its epoch above all), does the work with its request id, and writes
    /// both down. A call that is dropped on the way leaves the line `CANCELLED`.
    pub(super) async fn audited<T, F>(
        &self,
        order: Order,
        bytes: usize,
        work: impl FnOnce(String) -> F,
    ) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut line = Line {
            services: self,
            entry: order.entry,
            began: order.began,
        };
        line.entry.bytes = bytes as u64;
        line.entry.result = "CANCELLED".to_owned();
        let result = match self.admit(order.mutation).await {
            Ok(request_id) => work(request_id).await,
            Err(status) => Err(status),
        };
        line.entry.result = match &result {
            Ok(_) => "OK".to_owned(),
            Err(status) => {
                let fault = muster_proto::fault::from_agent(status);
                fault.reason().as_str().to_owned()
            }
        };
        result
    }
}

/// Written when it is dropped: a call may end at any await.
struct Line<'a> {
    services: &'a Services,
    entry: Entry,
    began: Duration,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let shared = &self.services.shared;
        let took = shared.clock.boottime().saturating_sub(self.began);
        self.entry.duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        shared.audit.record(&self.entry);
    }
}

/// Session and run as one word.
pub(super) fn run_target(run: Option<&RunRef>) -> String {
    match run {
        Some(run) => format!("{}/{}", run.session_id, run.run),
        None => String::new(),
    }
}
