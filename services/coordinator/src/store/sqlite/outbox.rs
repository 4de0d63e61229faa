//! The outbox: what the feed reads.

use async_trait::async_trait;
use muster_domain::{
    WorkspaceId,
    limits::{PAGE_DEFAULT, PAGE_MAX},
};
use sqlx::SqliteConnection;
use tokio::sync::watch;

use super::{
    super::{
        Batch, Bounds, Keep, Outbox, Result, Revised, SnapshotKey, SnapshotPage, model::to_db,
    },
    SqliteStore,
    read::{bounded, document, number, unavailable},
    snapshot,
};

const BOUNDS: &str = "SELECT compacted, revision FROM workspaces WHERE id = $1";
const READ: &str = "SELECT revision, events FROM outbox \
     WHERE workspace = $1 AND revision > $2 ORDER BY revision LIMIT $3";

#[async_trait]
impl Outbox for SqliteStore {
    async fn outbox(&self, workspace: &WorkspaceId, after: u64, limit: u32) -> Result<Batch> {
        let rows = if limit == 0 {
            PAGE_DEFAULT
        } else {
            limit.min(PAGE_MAX)
        };
        let mut snapshot = self.readers.begin().await.map_err(unavailable)?;
        let bounds = bounds(&mut snapshot, workspace).await?;
        let stream = sqlx::query_as::<_, (i64, String)>(READ)
            .bind(workspace.as_str())
            // A revision that no row can have: nothing comes after it.
            .bind(to_db(after).unwrap_or(i64::MAX))
            .bind(i64::from(rows) + 1)
            .fetch(&mut *snapshot);
        let (taken, _) = bounded(stream, rows, |(_, events)| events.len()).await?;
        let commits = taken
            .iter()
            .map(|(revision, events)| {
                Ok(Revised {
                    revision: number(*revision)?,
                    events: document(events)?,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Batch { commits, bounds })
    }

    async fn bounds(&self, workspace: &WorkspaceId) -> Result<Bounds> {
        let mut connection = self.readers.acquire().await.map_err(unavailable)?;
        bounds(&mut connection, workspace).await
    }

    fn heads(&self, workspace: &WorkspaceId) -> watch::Receiver<u64> {
        self.heads.subscribe(workspace)
    }

    async fn prune(&self, workspace: &WorkspaceId, keep: Keep) -> Result<u64> {
        self.writer.prune(workspace.clone(), keep).await
    }

    async fn snapshot(
        &self,
        workspace: &WorkspaceId,
        from: Option<&SnapshotKey>,
        limit: u32,
    ) -> Result<SnapshotPage> {
        let rows = if limit == 0 {
            PAGE_DEFAULT
        } else {
            limit.min(PAGE_MAX)
        };
        let mut snapshot = self.readers.begin().await.map_err(unavailable)?;
        let revision = bounds(&mut snapshot, workspace).await?.head;
        let (rows, next) = snapshot::page(&mut snapshot, workspace, from, rows).await?;
        Ok(SnapshotPage {
            revision,
            rows,
            next,
        })
    }
}

async fn bounds(connection: &mut SqliteConnection, workspace: &WorkspaceId) -> Result<Bounds> {
    let row: Option<(i64, i64)> = sqlx::query_as(BOUNDS)
        .bind(workspace.as_str())
        .fetch_optional(connection)
        .await
        .map_err(unavailable)?;
    let (compacted, head) = row.unwrap_or((0, 0));
    Ok(Bounds {
        compacted: number(compacted)?,
        head: number(head)?,
    })
}
