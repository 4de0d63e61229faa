//! What goes on by itself.

use std::time::Duration;

use muster_domain::{
    Timestamp, WorkspaceId,
    changeset::Changeset,
    feed::{Audience, Change, Event},
    host::{Agent, Host as Row},
    limits,
    session::Link,
};
use muster_runtime::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    hosts::api::LinkView,
    store::{self, Keep},
};

/// How often the outbox is cut back to what is kept.
const PRUNE_EVERY: Duration = Duration::from_secs(600);

/// Cuts the outbox back to what is kept (F11), for ever.
pub(super) async fn prune(
    store: store::Handle,
    clock: Clock,
    workspace: WorkspaceId,
    ended: CancellationToken,
) {
    loop {
        tokio::select! {
            () = clock.sleep(PRUNE_EVERY) => {}
            () = ended.cancelled() => return,
        }
        let age = i64::try_from(limits::OUTBOX_AGE.as_micros()).unwrap_or(i64::MAX);
        let keep = Keep {
            rows: limits::OUTBOX_ROWS,
            since: Timestamp::from_micros(clock.now_micros().saturating_sub(age)),
        };
        loop {
            match store.prune(&workspace, keep).await {
                Ok(0) => break,
                Ok(_) if ended.is_cancelled() => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the outbox was not cut back");
                    break;
                }
            }
        }
    }
}

/// What subscribers want to know of a link.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    link: Link,
    cause: Option<String>,
    agent: Option<Agent>,
}

impl Shown {
    fn of(view: &LinkView) -> Self {
        Self {
            link: view.link,
            cause: view.cause.clone(),
            agent: view.agent.clone(),
        }
    }
}

/// Tells subscribers when the link of a host changes, and keeps its boot id.
pub(super) async fn publish_link(
    store: store::Handle,
    workspace: WorkspaceId,
    mut row: Row,
    mut link: watch::Receiver<LinkView>,
    ended: CancellationToken,
) {
    let mut told = Shown::of(&link.borrow_and_update());
    loop {
        let changed = tokio::select! {
            changed = link.changed() => changed.is_ok(),
            () = ended.cancelled() => false,
        };
        if !changed {
            return;
        }
        let now = Shown::of(&link.borrow_and_update());
        if now == told {
            continue;
        }
        let mut changeset = Changeset::new(workspace.clone());
        let boot = now.agent.as_ref().map(|agent| agent.boot.clone());
        if boot.is_some() && boot != row.boot {
            row.boot = boot;
            changeset.hosts.push(row.clone());
        }
        changeset.events.push(Event {
            audience: Audience::Workspace(None),
            change: Change::Host(row.id),
        });
        for answer in store.commit(vec![changeset]).await {
            if let Err(error) = answer {
                tracing::warn!(host = %row.name, %error, "a change of the host was not published");
            }
        }
        told = now;
    }
}
