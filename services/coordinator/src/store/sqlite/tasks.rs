//! Reads of tasks.

use async_trait::async_trait;
use muster_domain::{
    TaskId, WorkspaceId,
    limits::{PAGE_DEFAULT, PAGE_MAX},
    page::{Page, Request},
    task::{Phase, Task},
};

use super::{
    super::{Result, Tasks, model, token},
    SqliteStore,
    read::{bounded, parse, readable, task, unavailable},
};

const GET: &str = "SELECT phase, doc FROM tasks WHERE id = $1";
const BY_PREFIX: &str = "SELECT id FROM tasks \
     WHERE workspace = $1 AND id >= $2 AND id < $2 || 'g' ORDER BY id LIMIT $3";
const BY_KEY: &str = "SELECT phase, doc FROM tasks WHERE workspace = $1 AND client_key = $2";
const LIST: &str = "SELECT id, created_at, phase, doc FROM tasks \
     WHERE workspace = $1 AND (created_at, id) < ($2, $3) \
     ORDER BY created_at DESC, id DESC LIMIT $4";
const LIST_IN_PHASE: &str = "SELECT id, created_at, phase, doc FROM tasks \
     WHERE workspace = $1 AND (created_at, id) < ($2, $3) AND phase = $5 \
     ORDER BY created_at DESC, id DESC LIMIT $4";

/// Comes after every id.
const AFTER_ALL: &str = "~";

#[async_trait]
impl Tasks for SqliteStore {
    async fn task(&self, id: TaskId) -> Result<Option<Task>> {
        let row: Option<(String, String)> = sqlx::query_as(GET)
            .bind(id.to_string())
            .fetch_optional(&self.readers)
            .await
            .map_err(unavailable)?;
        row.map(|(phase, doc)| task(&phase, &doc)).transpose()
    }

    async fn tasks_by_prefix(
        &self,
        workspace: &WorkspaceId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<TaskId>> {
        if !model::is_prefix(prefix) {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = sqlx::query_scalar(BY_PREFIX)
            .bind(workspace.as_str())
            .bind(prefix)
            .bind(limit)
            .fetch_all(&self.readers)
            .await
            .map_err(unavailable)?;
        ids.iter().map(|id| parse(id)).collect()
    }

    async fn task_by_client_key(&self, workspace: &WorkspaceId, key: &str) -> Result<Option<Task>> {
        let row: Option<(String, String)> = sqlx::query_as(BY_KEY)
            .bind(workspace.as_str())
            .bind(key)
            .fetch_optional(&self.readers)
            .await
            .map_err(unavailable)?;
        row.map(|(phase, doc)| task(&phase, &doc)).transpose()
    }

    async fn tasks(
        &self,
        workspace: &WorkspaceId,
        phase: Option<&Phase>,
        page: &Request,
    ) -> Result<Page<Task>> {
        let list = model::tasks_list(workspace, phase);
        let (created_at, id) = match token::read::<2>(&list, &page.token)? {
            Some([created_at, id]) => (token::part(&created_at)?, id),
            None => (i64::MAX, AFTER_ALL.to_owned()),
        };
        let rows = page.rows(PAGE_DEFAULT, PAGE_MAX);
        let sql = if phase.is_some() { LIST_IN_PHASE } else { LIST };
        let mut query = sqlx::query_as::<_, (String, i64, String, String)>(sql)
            .bind(workspace.as_str())
            .bind(created_at)
            .bind(id)
            .bind(i64::from(rows) + 1);
        if let Some(phase) = phase {
            query = query.bind(phase.as_str());
        }
        let stream = query.fetch(&self.readers);
        let (taken, more) = bounded(stream, rows, |(_, _, _, doc)| doc.len()).await?;
        let next = taken.last().filter(|_| more).map(|(id, created_at, _, _)| {
            token::make(&list, &[created_at.to_string(), id.clone()])
        });
        let items = taken
            .iter()
            .filter_map(|(_, _, phase, doc)| readable(task(phase, doc)))
            .collect();
        Ok(Page { items, next })
    }
}
