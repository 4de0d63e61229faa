//! Writes one changeset inside the group's transaction.

use muster_domain::{
    changeset::{Changeset, Committed, Conflict, Versioned},
    host::Host,
    session::State,
    task::Task,
};
use sqlx::{SqliteConnection, error::ErrorKind};

use super::{
    super::{
        Error,
        model::{live, no_workspace},
    },
    bulk,
};

const SAVEPOINT: &str = "SAVEPOINT changeset";
const RELEASE: &str = "RELEASE changeset";
const TAKE_BACK: &str = "ROLLBACK TO changeset; RELEASE changeset";

const INSERT_SESSION: &str = "INSERT INTO sessions \
     (id, workspace, version, client_key, task, host, live, internal, archived, created_at, doc) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING";
const UPDATE_SESSION: &str = "UPDATE sessions SET version = $1, live = $2, archived = $3, doc = $4 \
     WHERE id = $5 AND version = $6";
const SESSION_VERSION: &str = "SELECT version FROM sessions WHERE id = $1";
const INSERT_TASK: &str = "INSERT INTO tasks \
     (id, workspace, version, client_key, phase, created_at, updated_at, doc) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING";
const UPDATE_TASK: &str = "UPDATE tasks SET version = $1, phase = $2, updated_at = $3, doc = $4 \
     WHERE id = $5 AND version = $6";
const TASK_VERSION: &str = "SELECT version FROM tasks WHERE id = $1";
const UPSERT_HOST: &str = "INSERT INTO hosts (id, name, doc) VALUES ($1, $2, $3) \
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, doc = excluded.doc";
const NEXT_REVISION: &str =
    "UPDATE workspaces SET revision = revision + 1 WHERE id = $1 RETURNING revision";
const REVISION: &str = "SELECT revision FROM workspaces WHERE id = $1";
const INSERT_OUTBOX: &str =
    "INSERT INTO outbox (workspace, revision, created_at, events) VALUES ($1, $2, $3, $4)";

/// Why a changeset was not written.
#[derive(Debug)]
pub(in super::super) enum Failure {
    /// Nothing of it is in the transaction; the others are.
    Conflict(Conflict),
    /// The transaction is spoilt.
    Group(sqlx::Error),
}

impl From<sqlx::Error> for Failure {
    /// A broken constraint concerns the changeset alone; all else the whole group.
    fn from(error: sqlx::Error) -> Self {
        let kind = error.as_database_error().map(|error| error.kind());
        match kind {
            Some(ErrorKind::UniqueViolation) => Self::Conflict(Conflict::KeyTaken),
            Some(
                ErrorKind::ForeignKeyViolation
                | ErrorKind::NotNullViolation
                | ErrorKind::CheckViolation,
            ) => Self::Conflict(Conflict::Unavailable(error.to_string())),
            _ => Self::Group(error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Conflict(Conflict::Unavailable(format!("{error:?}")))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Conflict(Conflict::Unavailable(error.to_string()))
    }
}

/// Writes `changeset`, or takes back what it had written of it. `now` is wall time in
/// microseconds.
pub(in super::super) async fn apply(
    connection: &mut SqliteConnection,
    changeset: Changeset,
    now: i64,
) -> Result<Committed, Failure> {
    sqlx::raw_sql(SAVEPOINT).execute(&mut *connection).await?;
    match rows(connection, changeset, now).await {
        Ok(committed) => {
            sqlx::raw_sql(RELEASE).execute(connection).await?;
            Ok(committed)
        }
        Err(Failure::Conflict(conflict)) => {
            sqlx::raw_sql(TAKE_BACK)
                .execute(connection)
                .await
                .map_err(Failure::Group)?;
            Err(Failure::Conflict(conflict))
        }
        Err(failure) => Err(failure),
    }
}

async fn rows(
    connection: &mut SqliteConnection,
    changeset: Changeset,
    now: i64,
) -> Result<Committed, Failure> {
    if let Some(session) = &changeset.session {
        write_session(connection, session).await?;
    }
    for task in &changeset.tasks {
        write_task(connection, task).await?;
    }
    for host in &changeset.hosts {
        write_host(connection, host).await?;
    }
    bulk::turns(connection, &changeset.turns).await?;
    bulk::messages(connection, &changeset.messages).await?;
    bulk::chunks(connection, &changeset.chunks).await?;
    bulk::deliveries(connection, changeset.deliveries).await?;
    // Last, so that whoever else writes to this workspace waits as short as can be.
    let workspace = changeset.workspace.as_str();
    let sql = if changeset.events.is_empty() {
        REVISION
    } else {
        NEXT_REVISION
    };
    let revision: Option<i64> = sqlx::query_scalar(sql)
        .bind(workspace)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(revision) = revision else {
        let text = no_workspace(&changeset.workspace);
        return Err(Failure::Conflict(Conflict::Unavailable(text)));
    };
    if !changeset.events.is_empty() {
        sqlx::query(INSERT_OUTBOX)
            .bind(workspace)
            .bind(revision)
            .bind(now)
            .bind(serde_json::to_string(&changeset.events)?)
            .execute(connection)
            .await?;
    }
    Ok(Committed {
        revision: super::read::number(revision)?,
    })
}

async fn write_session(
    connection: &mut SqliteConnection,
    session: &Versioned<State>,
) -> Result<(), Failure> {
    let state = &session.row;
    let spec = &state.spec;
    let (expected, version) = versions(session.expected)?;
    let doc = serde_json::to_string(state)?;
    let query = if session.expected == 0 {
        sqlx::query(INSERT_SESSION)
            .bind(spec.id.to_string())
            .bind(spec.workspace.as_str())
            .bind(version)
            .bind(key(&spec.client_key))
            .bind(spec.task.map(|task| task.to_string()))
            .bind(spec.host.to_string())
            .bind(live(state))
            .bind(spec.internal)
            .bind(state.archived)
            .bind(spec.created_at.as_micros())
            .bind(doc)
    } else {
        sqlx::query(UPDATE_SESSION)
            .bind(version)
            .bind(live(state))
            .bind(state.archived)
            .bind(doc)
            .bind(spec.id.to_string())
            .bind(expected)
    };
    if query.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(());
    }
    let id = spec.id.to_string();
    Err(mismatch(connection, "session", session.expected, SESSION_VERSION, id).await?)
}

async fn write_task(
    connection: &mut SqliteConnection,
    task: &Versioned<Task>,
) -> Result<(), Failure> {
    let row = &task.row;
    let (expected, version) = versions(task.expected)?;
    let doc = serde_json::to_string(row)?;
    let query = if task.expected == 0 {
        sqlx::query(INSERT_TASK)
            .bind(row.id.to_string())
            .bind(row.workspace.as_str())
            .bind(version)
            .bind(key(&row.client_key))
            .bind(row.phase.as_str())
            .bind(row.created_at.as_micros())
            .bind(row.updated_at.as_micros())
            .bind(doc)
    } else {
        sqlx::query(UPDATE_TASK)
            .bind(version)
            .bind(row.phase.as_str())
            .bind(row.updated_at.as_micros())
            .bind(doc)
            .bind(row.id.to_string())
            .bind(expected)
    };
    if query.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(());
    }
    let id = row.id.to_string();
    Err(mismatch(connection, "task", task.expected, TASK_VERSION, id).await?)
}

async fn write_host(connection: &mut SqliteConnection, host: &Host) -> Result<(), Failure> {
    sqlx::query(UPSERT_HOST)
        .bind(host.id.to_string())
        .bind(&host.name)
        .bind(serde_json::to_string(host)?)
        .execute(connection)
        .await?;
    Ok(())
}

/// The conflict of a row that was not as expected.
async fn mismatch(
    connection: &mut SqliteConnection,
    what: &'static str,
    expected: u64,
    sql: &'static str,
    id: String,
) -> Result<Failure, Failure> {
    let found: Option<i64> = sqlx::query_scalar(sql)
        .bind(id)
        .fetch_optional(connection)
        .await?;
    Ok(Failure::Conflict(Conflict::Version {
        what,
        expected,
        found: super::read::number(found.unwrap_or(0))?,
    }))
}

fn versions(expected: u64) -> Result<(i64, i64), Error> {
    let expected = super::super::model::to_db(expected)?;
    Ok((expected, expected.saturating_add(1)))
}

/// Rows made without a client key have none to be found by.
fn key(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
