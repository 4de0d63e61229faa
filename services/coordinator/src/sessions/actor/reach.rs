//! The session's host: its link, and what it reports of the session.

use std::{sync::Arc, time::Duration};

use muster_domain::{
    HostId, SessionId,
    session::{Link, fold::Fact},
};
use muster_runtime::Clock;
use tokio::sync::watch;

use crate::hosts::{
    api::{HostApi, HostsApi, LinkView},
    reports::{Report, Reports},
};

/// How often a host that is not known is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// One session's way to its host.
pub(super) struct Reach {
    hosts: Arc<dyn HostsApi>,
    host: HostId,
    session: SessionId,
    clock: Clock,
    bound: Option<Bound>,
    /// When the host is looked for again, by boottime.
    look_at: Duration,
}

struct Bound {
    host: Arc<dyn HostApi>,
    link: watch::Receiver<LinkView>,
    reports: Reports,
}

impl Reach {
    /// The host, and how its link stands.
    pub(super) fn new(
        hosts: Arc<dyn HostsApi>,
        host: HostId,
        session: SessionId,
        clock: Clock,
    ) -> (Self, Fact) {
        let mut reach = Self {
            hosts,
            host,
            session,
            look_at: clock.boottime(),
            clock,
            bound: None,
        };
        let link = reach.look();
        (reach, link)
    }

    /// The host, while it is known.
    pub(super) fn host(&self) -> Option<&Arc<dyn HostApi>> {
        self.bound.as_ref().map(|bound| &bound.host)
    }

    /// What the host says next. Cancel safe.
    pub(super) async fn next(&mut self) -> Fact {
        let Some(bound) = &mut self.bound else {
            self.clock.sleep_until(self.look_at).await;
            return self.look();
        };
        tokio::select! {
            changed = bound.link.changed() => match changed {
                Ok(()) => Fact::Link(bound.link.borrow_and_update().link),
                Err(_) => self.lose(),
            },
            report = bound.reports.recv() => match report {
                Some(report) => fact(report),
                None => self.lose(),
            },
        }
    }

    /// The host was removed, or replaced.
    fn lose(&mut self) -> Fact {
        self.bound = None;
        self.look_at = self.clock.boottime();
        Fact::Link(Link::Unreachable)
    }

    fn look(&mut self) -> Fact {
        self.look_at = self.clock.boottime() + LOOK_EVERY;
        let Some(host) = self.hosts.get(self.host) else {
            return Fact::Link(Link::Unreachable);
        };
        let mut link = host.link();
        let now = link.borrow_and_update().link;
        self.bound = Some(Bound {
            reports: host.reports(self.session),
            link,
            host,
        });
        Fact::Link(now)
    }
}

/// How the link to a host stands now.
pub(in crate::sessions) fn link_of(host: &Arc<dyn HostApi>) -> Link {
    host.link().borrow().link
}

fn fact(report: Report) -> Fact {
    match report {
        Report::Run(report) => Fact::Report(report),
        Report::Delivery {
            delivery, answer, ..
        } => Fact::Answer { delivery, answer },
        Report::Relist => Fact::Relist,
    }
}
