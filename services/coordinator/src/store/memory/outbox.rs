//! The outbox and the workspace's snapshot.

use async_trait::async_trait;
use muster_domain::{
    WorkspaceId,
    limits::{PAGE_DEFAULT, PAGE_MAX, PRUNE_ROWS},
};
use tokio::sync::watch;

use super::{
    super::{
        Batch, Bounds, Keep, Outbox, Result, Revised, Row, SnapshotKey, SnapshotPage,
        model::{Stage, stage_of_key},
    },
    MemoryStore, Rows, page_of, weight,
};

#[async_trait]
impl Outbox for MemoryStore {
    async fn outbox(&self, workspace: &WorkspaceId, after: u64, limit: u32) -> Result<Batch> {
        let rows = self.read()?;
        let bounds = rows.bounds(workspace);
        let Some(space) = rows.spaces.get(workspace) else {
            return Ok(Batch {
                commits: Vec::new(),
                bounds,
            });
        };
        let later = space
            .outbox
            .iter()
            .filter(|(revision, _)| **revision > after);
        let (taken, _) = page_of(later, page_rows(limit), |(_, (_, events))| weight(events));
        let commits = taken
            .into_iter()
            .map(|(revision, (_, events))| Revised {
                revision: *revision,
                events: events.clone(),
            })
            .collect();
        Ok(Batch { commits, bounds })
    }

    async fn bounds(&self, workspace: &WorkspaceId) -> Result<Bounds> {
        Ok(self.read()?.bounds(workspace))
    }

    fn heads(&self, workspace: &WorkspaceId) -> watch::Receiver<u64> {
        self.heads.subscribe(workspace)
    }

    async fn prune(&self, workspace: &WorkspaceId, keep: Keep) -> Result<u64> {
        let mut rows = self.read()?;
        let Some(space) = rows.spaces.get_mut(workspace) else {
            return Ok(0);
        };
        let last = space.head.saturating_sub(keep.rows);
        let cut = space
            .outbox
            .iter()
            .take(PRUNE_ROWS as usize)
            .filter(|(revision, (at, _))| **revision <= last || *at < keep.since)
            .map(|(revision, _)| *revision)
            .max();
        let Some(cut) = cut else { return Ok(0) };
        let before = space.outbox.len();
        space.outbox.retain(|revision, _| *revision > cut);
        space.compacted = cut;
        Ok((before - space.outbox.len()) as u64)
    }

    async fn snapshot(
        &self,
        workspace: &WorkspaceId,
        from: Option<&SnapshotKey>,
        limit: u32,
    ) -> Result<SnapshotPage> {
        let (stage, after) = stage_of_key(from)?;
        let rows = self.read()?;
        let rest = rows
            .visible(workspace)
            .into_iter()
            .filter(|(of, id, _)| (*of as u8, id) > (stage as u8, &after));
        let (taken, more) = page_of(rest, page_rows(limit), |(_, _, row)| match row {
            Row::Host(host) => weight(host),
            Row::Task(task) => weight(task),
            Row::Session(state) => weight(state),
        });
        let next = taken
            .last()
            .filter(|_| more)
            .map(|(stage, id, _)| stage.key(id));
        Ok(SnapshotPage {
            revision: rows.bounds(workspace).head,
            rows: taken.into_iter().map(|(_, _, row)| row).collect(),
            next,
        })
    }
}

impl Rows {
    fn bounds(&self, workspace: &WorkspaceId) -> Bounds {
        self.spaces
            .get(workspace)
            .map_or(Bounds::default(), |space| Bounds {
                compacted: space.compacted,
                head: space.head,
            })
    }

    /// All rows of the snapshot in their order.
    fn visible(&self, workspace: &WorkspaceId) -> Vec<(Stage, String, Row)> {
        let hosts = self
            .hosts
            .values()
            .map(|host| (Stage::Hosts, host.id.to_string(), Row::Host(host.clone())));
        let tasks = self
            .tasks
            .values()
            .map(|(_, task)| task)
            .filter(|task| task.workspace == *workspace)
            .map(|task| (Stage::Tasks, task.id.to_string(), Row::Task(task.clone())));
        let sessions = self
            .sessions
            .values()
            .map(|(_, state)| state)
            .filter(|state| state.spec.workspace == *workspace)
            .filter(|state| !state.spec.internal && !state.archived)
            .map(|state| {
                let row = Row::Session(Box::new(state.clone()));
                (Stage::Sessions, state.spec.id.to_string(), row)
            });
        hosts.chain(tasks).chain(sessions).collect()
    }
}

fn page_rows(limit: u32) -> u32 {
    if limit == 0 {
        PAGE_DEFAULT
    } else {
        limit.min(PAGE_MAX)
    }
}
