//! Rows that come in numbers: one statement per kind of row, whatever their number.

use muster_domain::{
    SessionId,
    changeset::Chunk,
    delivery::{Delivery, Progress},
    message::Message,
    session::Turn,
};
use serde::Serialize;
use sqlx::SqliteConnection;

use super::{
    super::model::{chunked, to_db, waits},
    apply::Failure,
};

const UPSERT_TURNS: &str = "INSERT INTO turns (id, session, run, began_offset, began_at, doc) \
     SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 \
     FROM json_each($1) WHERE true \
     ON CONFLICT (id) DO UPDATE SET run = excluded.run, began_offset = excluded.began_offset, \
     began_at = excluded.began_at, doc = excluded.doc";
const UPSERT_MESSAGES: &str = "INSERT INTO messages \
     (id, session, run, at_offset, idx, sequence, client_key, waits, complete, chunked, doc) \
     SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, \
     value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10 \
     FROM json_each($1) WHERE true \
     ON CONFLICT (id) DO UPDATE SET run = excluded.run, at_offset = excluded.at_offset, \
     idx = excluded.idx, sequence = excluded.sequence, client_key = excluded.client_key, \
     waits = excluded.waits, complete = excluded.complete, chunked = excluded.chunked, \
     doc = excluded.doc";
const INSERT_CHUNKS: &str = "INSERT INTO chunks (message, from_byte, text) \
     SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1) WHERE true \
     ON CONFLICT (message, from_byte) DO NOTHING";
const INSERT_CHUNK: &str = "INSERT INTO chunks (message, from_byte, text) VALUES ($1, $2, $3) \
     ON CONFLICT (message, from_byte) DO NOTHING";
const UPSERT_DELIVERY: &str = "INSERT INTO deliveries \
     (id, session, run, is_open, created_at, payload, doc) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (id) DO UPDATE SET run = excluded.run, is_open = excluded.is_open, \
     created_at = excluded.created_at, payload = excluded.payload, doc = excluded.doc";

pub(super) async fn turns(
    connection: &mut SqliteConnection,
    turns: &[(SessionId, Turn)],
) -> Result<(), Failure> {
    let mut rows = Vec::with_capacity(turns.len());
    for (session, turn) in turns {
        rows.push((
            turn.id.to_string(),
            session.to_string(),
            turn.began.run,
            to_db(turn.began.offset)?,
            turn.began_at.as_micros(),
            serde_json::to_string(turn)?,
        ));
    }
    run(connection, UPSERT_TURNS, &rows).await
}

pub(super) async fn messages(
    connection: &mut SqliteConnection,
    messages: &[Message],
) -> Result<(), Failure> {
    let mut rows = Vec::with_capacity(messages.len());
    for message in messages {
        let sent = message.sent.as_ref();
        let key = sent
            .map(|sent| &sent.client_key)
            .filter(|key| !key.is_empty());
        rows.push((
            message.id.to_string(),
            message.session.to_string(),
            message.at.run,
            to_db(message.at.offset)?,
            message.index,
            to_db(sent.map_or(0, |sent| sent.sequence))?,
            key,
            waits(message),
            message.complete,
            if chunked(message) {
                to_db(message.bytes)?
            } else {
                0
            },
            serde_json::to_string(message)?,
        ));
    }
    run(connection, UPSERT_MESSAGES, &rows).await
}

pub(super) async fn chunks(
    connection: &mut SqliteConnection,
    chunks: &[Chunk],
) -> Result<(), Failure> {
    let mut rows = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let (message, from) = (chunk.message.to_string(), to_db(chunk.from)?);
        // SQLite's JSON functions end a text at its first NUL.
        if chunk.text.contains('\0') {
            sqlx::query(INSERT_CHUNK)
                .bind(message)
                .bind(from)
                .bind(&chunk.text)
                .execute(&mut *connection)
                .await?;
        } else {
            rows.push((message, from, &chunk.text));
        }
    }
    run(connection, INSERT_CHUNKS, &rows).await
}

/// Row by row: payloads are bytes, and a changeset has one or two.
pub(super) async fn deliveries(
    connection: &mut SqliteConnection,
    deliveries: Vec<Delivery>,
) -> Result<(), Failure> {
    for mut delivery in deliveries {
        let payload = std::mem::take(&mut delivery.payload);
        sqlx::query(UPSERT_DELIVERY)
            .bind(delivery.id.to_string())
            .bind(delivery.session.to_string())
            .bind(i64::from(delivery.run))
            .bind(delivery.progress == Progress::Committed)
            .bind(delivery.created_at.as_micros())
            .bind(payload)
            .bind(serde_json::to_string(&delivery)?)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn run<T: Serialize + Sync>(
    connection: &mut SqliteConnection,
    sql: &'static str,
    rows: &[T],
) -> Result<(), Failure> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(sql)
        .bind(serde_json::to_string(rows)?)
        .execute(connection)
        .await?;
    Ok(())
}
