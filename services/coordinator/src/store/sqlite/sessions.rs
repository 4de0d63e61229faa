//! Reads of sessions.

use async_trait::async_trait;
use muster_domain::{
    SessionId, WorkspaceId,
    limits::{PAGE_DEFAULT, PAGE_MAX},
    message::Message,
    page::{Page, Request},
    session::{State, Turn},
};
use sqlx::SqliteConnection;

use super::{
    super::{Result, SessionFilter, SessionSnapshot, Sessions, StoredSession, model, token},
    SqliteStore, messages,
    read::{bounded, delivery, document, number, parse, readable, unavailable},
};

const GET: &str = "SELECT doc FROM sessions WHERE id = $1";
const BY_PREFIX: &str = "SELECT id FROM sessions \
     WHERE workspace = $1 AND id >= $2 AND id < $2 || 'g' ORDER BY id LIMIT $3";
const BY_KEY: &str = "SELECT doc FROM sessions WHERE workspace = $1 AND client_key = $2";
const LIST: &str = "SELECT id, created_at, doc FROM sessions \
     WHERE workspace = $1 AND (created_at, id) < ($2, $3) AND NOT archived \
     AND ($4 OR NOT internal) ORDER BY created_at DESC, id DESC LIMIT $5";
const LIST_LIVE: &str = "SELECT id, created_at, doc FROM sessions \
     WHERE workspace = $1 AND (created_at, id) < ($2, $3) AND NOT archived \
     AND ($4 OR NOT internal) AND live ORDER BY created_at DESC, id DESC LIMIT $5";
const LIST_OF_TASK: &str = "SELECT id, created_at, doc FROM sessions \
     WHERE task = $6 AND workspace = $1 AND (created_at, id) < ($2, $3) AND NOT archived \
     AND ($4 OR NOT internal) AND ($7 OR live) ORDER BY created_at DESC, id DESC LIMIT $5";
const LIVE_IDS: &str =
    "SELECT id FROM sessions WHERE workspace = $1 AND live ORDER BY created_at, id";
const WAITING: &str = "SELECT chunked, doc FROM messages WHERE session = $1 AND waits \
     ORDER BY sequence, id";
const OPEN_DELIVERIES: &str = "SELECT payload, doc FROM deliveries \
     WHERE session = $1 AND is_open ORDER BY created_at, id";
const GROWING: &str = "SELECT chunked, doc FROM messages WHERE session = $1 AND NOT complete \
     ORDER BY run DESC, at_offset DESC, idx DESC, sequence DESC, id DESC LIMIT 1";
const TURNS: &str = "SELECT doc FROM turns WHERE session = $1 \
     ORDER BY run DESC, began_offset DESC, began_at DESC, id DESC LIMIT $2";
const REVISION: &str = "SELECT revision FROM workspaces WHERE id = $1";

/// Comes after every id.
const AFTER_ALL: &str = "~";

#[async_trait]
impl Sessions for SqliteStore {
    async fn load(&self, id: SessionId) -> Result<Option<StoredSession>> {
        let mut snapshot = self.readers.begin().await.map_err(unavailable)?;
        let Some(state) = row(&mut snapshot, id).await? else {
            return Ok(None);
        };
        let waiting: Vec<(i64, String)> = sqlx::query_as(WAITING)
            .bind(id.to_string())
            .fetch_all(&mut *snapshot)
            .await
            .map_err(unavailable)?;
        let deliveries: Vec<(Vec<u8>, String)> = sqlx::query_as(OPEN_DELIVERIES)
            .bind(id.to_string())
            .fetch_all(&mut *snapshot)
            .await
            .map_err(unavailable)?;
        let growing: Vec<(i64, String)> = sqlx::query_as(GROWING)
            .bind(id.to_string())
            .fetch_all(&mut *snapshot)
            .await
            .map_err(unavailable)?;
        Ok(Some(StoredSession {
            state,
            waiting: whole(&mut snapshot, waiting).await?,
            deliveries: deliveries
                .into_iter()
                .map(|(payload, doc)| delivery(payload, &doc))
                .collect::<Result<_>>()?,
            growing: whole(&mut snapshot, growing).await?.pop(),
        }))
    }

    async fn session(&self, id: SessionId) -> Result<Option<State>> {
        let mut connection = self.readers.acquire().await.map_err(unavailable)?;
        row(&mut connection, id).await
    }

    async fn sessions_by_prefix(
        &self,
        workspace: &WorkspaceId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<SessionId>> {
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

    async fn session_by_client_key(
        &self,
        workspace: &WorkspaceId,
        key: &str,
    ) -> Result<Option<State>> {
        let doc: Option<String> = sqlx::query_scalar(BY_KEY)
            .bind(workspace.as_str())
            .bind(key)
            .fetch_optional(&self.readers)
            .await
            .map_err(unavailable)?;
        doc.as_deref().map(document).transpose()
    }

    async fn sessions(
        &self,
        workspace: &WorkspaceId,
        filter: SessionFilter,
        page: &Request,
    ) -> Result<Page<State>> {
        let list = model::sessions_list(workspace, filter);
        let (created_at, id) = match token::read::<2>(&list, &page.token)? {
            Some([created_at, id]) => (token::part(&created_at)?, id),
            None => (i64::MAX, AFTER_ALL.to_owned()),
        };
        let rows = page.rows(PAGE_DEFAULT, PAGE_MAX);
        let sql = match filter {
            SessionFilter { task: Some(_), .. } => LIST_OF_TASK,
            SessionFilter { live: true, .. } => LIST_LIVE,
            SessionFilter { .. } => LIST,
        };
        let mut query = sqlx::query_as::<_, (String, i64, String)>(sql)
            .bind(workspace.as_str())
            .bind(created_at)
            .bind(id)
            .bind(filter.internal)
            .bind(i64::from(rows) + 1);
        if let Some(task) = filter.task {
            query = query.bind(task.to_string()).bind(!filter.live);
        }
        let stream = query.fetch(&self.readers);
        let (taken, more) = bounded(stream, rows, |(_, _, doc)| doc.len()).await?;
        let next = taken
            .last()
            .filter(|_| more)
            .map(|(id, created_at, _)| token::make(&list, &[created_at.to_string(), id.clone()]));
        let items = taken
            .iter()
            .filter_map(|(_, _, doc)| readable(document(doc)))
            .collect();
        Ok(Page { items, next })
    }

    async fn live_sessions(&self, workspace: &WorkspaceId) -> Result<Vec<SessionId>> {
        let ids: Vec<String> = sqlx::query_scalar(LIVE_IDS)
            .bind(workspace.as_str())
            .fetch_all(&self.readers)
            .await
            .map_err(unavailable)?;
        ids.iter().map(|id| parse(id)).collect()
    }

    async fn turns(&self, session: SessionId, limit: u32) -> Result<Vec<Turn>> {
        let docs: Vec<String> = sqlx::query_scalar(TURNS)
            .bind(session.to_string())
            .bind(limit.min(PAGE_MAX))
            .fetch_all(&self.readers)
            .await
            .map_err(unavailable)?;
        docs.iter().map(|doc| document(doc)).collect()
    }

    async fn session_snapshot(
        &self,
        session: SessionId,
        limit: u32,
    ) -> Result<Option<SessionSnapshot>> {
        let mut snapshot = self.readers.begin().await.map_err(unavailable)?;
        let Some(state) = row(&mut snapshot, session).await? else {
            return Ok(None);
        };
        let revision: i64 = sqlx::query_scalar(REVISION)
            .bind(state.spec.workspace.as_str())
            .fetch_one(&mut *snapshot)
            .await
            .map_err(unavailable)?;
        let messages = messages::last(&mut snapshot, session, limit.min(PAGE_MAX)).await?;
        Ok(Some(SessionSnapshot {
            revision: number(revision)?,
            state,
            messages,
        }))
    }
}

async fn row(connection: &mut SqliteConnection, id: SessionId) -> Result<Option<State>> {
    let doc: Option<String> = sqlx::query_scalar(GET)
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .map_err(unavailable)?;
    doc.as_deref().map(document).transpose()
}

async fn whole(
    connection: &mut SqliteConnection,
    rows: Vec<(i64, String)>,
) -> Result<Vec<Message>> {
    let messages = rows
        .iter()
        .map(|(_, doc)| document(doc))
        .collect::<Result<_>>()?;
    messages::with_texts(connection, messages).await
}
