//! Which session a host's report is for. One watch per host feeds it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use muster_domain::SessionId;

use super::reports::{self, Report, ReportSink, Reports};

#[derive(Debug, Default)]
pub(super) struct Router {
    sinks: Mutex<HashMap<SessionId, ReportSink>>,
}

impl Router {
    pub(super) fn subscribe(&self, session: SessionId) -> Reports {
        let (sink, reports) = reports::channel();
        let mut sinks = self.sinks();
        // Sessions that have ended leave closed sinks behind; here they go.
        if sinks.len() >= 64 && sinks.len().is_power_of_two() {
            sinks.retain(|_, sink| !sink.is_closed());
        }
        sinks.insert(session, sink);
        reports
    }

    pub(super) fn send(&self, session: SessionId, report: Report) {
        let mut sinks = self.sinks();
        if let Some(sink) = sinks.get(&session)
            && !sink.send(report)
        {
            sinks.remove(&session);
        }
    }

    /// The snapshot of a new connection is complete: who was not in it has to ask.
    pub(super) fn synced(&self, seen: &HashSet<SessionId>) {
        self.sinks().retain(|session, sink| {
            if seen.contains(session) {
                return !sink.is_closed();
            }
            sink.send(Report::Relist)
        });
    }

    fn sinks(&self) -> MutexGuard<'_, HashMap<SessionId, ReportSink>> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
