//! Pages of a workspace's snapshot: hosts, then tasks, then sessions, each by id.

use muster_domain::WorkspaceId;
use sqlx::SqliteConnection;

use super::{
    super::{
        Result, Row, SnapshotKey,
        model::{Stage, stage_of_key},
    },
    read::{bounded, document, readable, task},
};

const HOSTS: &str = "SELECT id, '' AS phase, doc FROM hosts \
     WHERE $1 <> '' AND id > $2 ORDER BY id LIMIT $3";
const TASKS: &str = "SELECT id, phase, doc FROM tasks \
     WHERE workspace = $1 AND id > $2 ORDER BY id LIMIT $3";
const SESSIONS: &str = "SELECT id, '' AS phase, doc FROM sessions \
     WHERE workspace = $1 AND id > $2 AND NOT internal AND NOT archived ORDER BY id LIMIT $3";

/// At most `limit` rows from `from` on, and where it goes on.
pub(super) async fn page(
    connection: &mut SqliteConnection,
    workspace: &WorkspaceId,
    from: Option<&SnapshotKey>,
    limit: u32,
) -> Result<(Vec<Row>, Option<SnapshotKey>)> {
    let (mut stage, mut after) = stage_of_key(from)?;
    let mut rows = Vec::new();
    loop {
        let room = limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
        if room == 0 {
            return Ok((rows, Some(stage.key(&after))));
        }
        let stream = sqlx::query_as::<_, (String, String, String)>(sql(stage))
            .bind(workspace.as_str())
            .bind(&after)
            .bind(i64::from(room) + 1)
            .fetch(&mut *connection);
        let (taken, more) = bounded(stream, room, |(_, _, doc)| doc.len()).await?;
        for (_, phase, doc) in &taken {
            rows.extend(readable(row(stage, phase, doc)));
        }
        if more {
            let last = taken.last().map_or("", |(id, _, _)| id);
            return Ok((rows, Some(stage.key(last))));
        }
        let Some(next) = stage.next() else {
            return Ok((rows, None));
        };
        (stage, after) = (next, String::new());
    }
}

fn sql(stage: Stage) -> &'static str {
    match stage {
        Stage::Hosts => HOSTS,
        Stage::Tasks => TASKS,
        Stage::Sessions => SESSIONS,
    }
}

fn row(stage: Stage, phase: &str, doc: &str) -> Result<Row> {
    Ok(match stage {
        Stage::Hosts => Row::Host(document(doc)?),
        Stage::Tasks => Row::Task(task(phase, doc)?),
        Stage::Sessions => Row::Session(Box::new(document(doc)?)),
    })
}
