//! Brings a file to this version's schema: numbered steps, forward only, each in a
//! transaction of its own with its number.

use muster_runtime::Clock;
use sqlx::SqliteConnection;

use super::{
    super::{Error, Result},
    read::{number, unavailable},
};

/// All steps; a step that was ever released is never changed.
const STEPS: &[(u32, &str, &str)] = &[(
    1,
    "first",
    include_str!("../../../migrations/sqlite/0001_first.sql"),
)];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_steps \
     (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)";
const HAS_TABLE: &str =
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_steps'";
const LATEST: &str = "SELECT coalesce(max(number), 0) FROM schema_steps";
const RECORD: &str = "INSERT INTO schema_steps (number, name, applied_at) VALUES ($1, $2, $3)";

/// Applies the steps that are missing.
///
/// # Errors
/// [`Error::Newer`] before anything is changed; [`Error::Unavailable`] leaves the file at
/// the last whole step.
pub(super) async fn run(connection: &mut SqliteConnection, clock: &Clock) -> Result<()> {
    let known = STEPS.last().map_or(0, |step| step.0);
    let found = latest(connection).await?;
    if found > known {
        return Err(Error::Newer { found, known });
    }
    for (step, name, sql) in STEPS.iter().filter(|step| step.0 > found) {
        let applied = apply(connection, *step, name, sql, clock).await;
        if let Err(error) = applied {
            // The transaction may be gone already; either way nothing of the step stays.
            let _ = sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await;
            return Err(unavailable(error));
        }
    }
    Ok(())
}

async fn latest(connection: &mut SqliteConnection) -> Result<u32> {
    let tables: i64 = sqlx::query_scalar(HAS_TABLE)
        .fetch_one(&mut *connection)
        .await
        .map_err(unavailable)?;
    if tables == 0 {
        return Ok(0);
    }
    let latest: i64 = sqlx::query_scalar(LATEST)
        .fetch_one(connection)
        .await
        .map_err(unavailable)?;
    Ok(u32::try_from(number(latest)?).unwrap_or(u32::MAX))
}

async fn apply(
    connection: &mut SqliteConnection,
    step: u32,
    name: &str,
    sql: &'static str,
    clock: &Clock,
) -> sqlx::Result<()> {
    sqlx::raw_sql("BEGIN IMMEDIATE")
        .execute(&mut *connection)
        .await?;
    sqlx::raw_sql(TABLE).execute(&mut *connection).await?;
    sqlx::raw_sql(sql).execute(&mut *connection).await?;
    sqlx::query(RECORD)
        .bind(i64::from(step))
        .bind(name)
        .bind(clock.now_micros())
        .execute(&mut *connection)
        .await?;
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    Ok(())
}
