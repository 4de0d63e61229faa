//! Cuts the outbox at its old end.

use muster_domain::{WorkspaceId, limits::PRUNE_ROWS};
use sqlx::SqliteConnection;

use super::super::{Keep, model::to_db};

/// The last row among the oldest that need not be kept.
const CUT: &str = "SELECT max(oldest.revision) FROM \
     (SELECT revision, created_at FROM outbox WHERE workspace = $1 \
      ORDER BY revision LIMIT $2) AS oldest, workspaces \
     WHERE workspaces.id = $1 \
     AND (oldest.revision <= workspaces.revision - $3 OR oldest.created_at < $4)";
const DELETE: &str = "DELETE FROM outbox WHERE workspace = $1 AND revision <= $2";
const MARK: &str = "UPDATE workspaces SET compacted = $2 WHERE id = $1";

/// Removes the rows and marks up to where, inside the caller's transaction.
pub(in super::super) async fn prune(
    connection: &mut SqliteConnection,
    workspace: &WorkspaceId,
    keep: Keep,
) -> sqlx::Result<u64> {
    let cut: Option<i64> = sqlx::query_scalar(CUT)
        .bind(workspace.as_str())
        .bind(PRUNE_ROWS)
        .bind(to_db(keep.rows).unwrap_or(i64::MAX))
        .bind(keep.since.as_micros())
        .fetch_one(&mut *connection)
        .await?;
    let Some(cut) = cut else { return Ok(0) };
    let deleted = sqlx::query(DELETE)
        .bind(workspace.as_str())
        .bind(cut)
        .execute(&mut *connection)
        .await?;
    sqlx::query(MARK)
        .bind(workspace.as_str())
        .bind(cut)
        .execute(connection)
        .await?;
    Ok(deleted.rows_affected())
}
