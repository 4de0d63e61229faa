//! The store in one SQLite file: the default.
//!
//! One connection writes (`writer`), four read. Every acknowledged commit is on the disk:
//! write-ahead log with `synchronous = FULL`.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use muster_domain::{
    changeset::{Changeset, Committed, Conflict},
    limits,
};
use muster_runtime::Clock;
use sqlx::{
    ConnectOptions as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{Error, Result, Store, heads::Heads, writer::Writer};

pub(super) mod apply;
mod bulk;
mod hosts;
mod messages;
mod migrate;
mod outbox;
pub(super) mod prune;
mod read;
mod sessions;
mod snapshot;
mod tasks;

/// How long a statement waits for a lock that another process holds.
const BUSY: Duration = Duration::from_secs(5);
/// The log is cut back to this after a checkpoint, in bytes.
const LOG_BYTES: &str = "67108864";

const REVISIONS: &str = "SELECT id, revision FROM workspaces";

/// A store in a SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    readers: SqlitePool,
    writer: Writer,
    heads: Arc<Heads>,
}

impl SqliteStore {
    /// Opens the file, made with mode 0600 when absent, and brings it to this version's
    /// schema. The caller holds the data folder's lock.
    ///
    /// # Errors
    /// [`Error::Newer`] when a later version has written it; nothing is changed then.
    /// [`Error::Unavailable`] when it cannot be made, opened or written.
    pub async fn open(path: &Path, clock: Clock) -> Result<Self> {
        private_file(path).await?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .foreign_keys(true)
            .busy_timeout(BUSY)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("journal_size_limit", LOG_BYTES);
        let mut connection = options.connect().await.map_err(read::unavailable)?;
        migrate::run(&mut connection, &clock).await?;
        let heads = Arc::new(load_heads(&mut connection).await?);
        let readers = SqlitePoolOptions::new()
            .max_connections(limits::STORE_READERS)
            .acquire_timeout(limits::STORE_READ_WAIT)
            .connect_with(options.clone().pragma("query_only", "on"))
            .await
            .map_err(read::unavailable)?;
        Ok(Self {
            path: path.to_owned(),
            readers,
            writer: Writer::start(connection, options, clock, heads.clone()),
            heads,
        })
    }
}

async fn load_heads(connection: &mut SqliteConnection) -> Result<Heads> {
    let heads = Heads::default();
    let rows: Vec<(String, i64)> = sqlx::query_as(REVISIONS)
        .fetch_all(connection)
        .await
        .map_err(read::unavailable)?;
    for (id, revision) in rows {
        let workspace = muster_domain::WorkspaceId::parse(&id)
            .map_err(|error| Error::Damaged(error.to_string()))?;
        heads.advance(&workspace, read::number(revision)?);
    }
    Ok(heads)
}

/// SQLite gives its log and its shared memory the mode of the database file.
async fn private_file(path: &Path) -> Result<()> {
    let made = tokio::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .await;
    match made {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::Unavailable(format!(
            "open {}: {error}",
            path.display()
        ))),
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(
        &self,
        changesets: Vec<Changeset>,
    ) -> Vec<std::result::Result<Committed, Conflict>> {
        self.writer.commit(changesets).await
    }

    async fn close(&self) {
        self.writer.close().await;
        self.readers.close().await;
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
