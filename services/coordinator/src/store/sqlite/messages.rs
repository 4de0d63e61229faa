//! Reads of messages.

use std::collections::HashMap;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use muster_domain::{
    MessageId, SessionId,
    limits::{PAGE_DEFAULT, PAGE_MAX},
    message::{Body, Message},
    page::{Page, Request},
};
use sqlx::SqliteConnection;

use super::{
    super::{
        Messages, Result,
        model::{self, assemble, chunked, to_db},
        token,
    },
    SqliteStore,
    read::{bounded, document, number, readable, unavailable},
};

const GET: &str = "SELECT doc FROM messages WHERE id = $1";
const BY_KEY: &str = "SELECT doc FROM messages WHERE session = $1 AND client_key = $2";
const LIST: &str = "SELECT run, at_offset, idx, sequence, id, chunked, doc \
     FROM messages WHERE session = $1 \
     AND (run, at_offset, idx, sequence, id) > ($2, $3, $4, $5, $6) \
     ORDER BY run, at_offset, idx, sequence, id LIMIT $7";
const LAST: &str = "SELECT chunked, doc FROM messages WHERE session = $1 \
     ORDER BY run DESC, at_offset DESC, idx DESC, sequence DESC, id DESC LIMIT $2";
const SAID_LAST: &str = "SELECT doc FROM messages WHERE session = $1 AND run = $2 \
     AND sequence > 0 ORDER BY sequence DESC";
const CHUNKS: &str = "SELECT message, from_byte, text FROM chunks \
     WHERE message IN (SELECT value FROM json_each($1)) ORDER BY message, from_byte";

type Row = (i64, String);
type Placed = (i64, i64, i64, i64, String, i64, String);

#[async_trait]
impl Messages for SqliteStore {
    async fn message(&self, id: MessageId) -> Result<Option<Message>> {
        let mut snapshot = self.readers.begin().await.map_err(unavailable)?;
        let doc: Option<String> = sqlx::query_scalar(GET)
            .bind(id.to_string())
            .fetch_optional(&mut *snapshot)
            .await
            .map_err(unavailable)?;
        one(&mut snapshot, doc).await
    }

    async fn message_by_client_key(
        &self,
        session: SessionId,
        key: &str,
    ) -> Result<Option<Message>> {
        let mut snapshot = self.readers.begin().await.map_err(unavailable)?;
        let doc: Option<String> = sqlx::query_scalar(BY_KEY)
            .bind(session.to_string())
            .bind(key)
            .fetch_optional(&mut *snapshot)
            .await
            .map_err(unavailable)?;
        one(&mut snapshot, doc).await
    }

    async fn messages(&self, session: SessionId, page: &Request) -> Result<Page<Message>> {
        let list = model::messages_list(session);
        let after = model::place_of_token(token::read::<5>(&list, &page.token)?)?;
        let rows = page.rows(PAGE_DEFAULT, PAGE_MAX);
        let mut snapshot = self.readers.begin().await.map_err(unavailable)?;
        let query = sqlx::query_as::<_, Placed>(LIST).bind(session.to_string());
        let query = match after {
            Some(place) => query
                .bind(place.run)
                .bind(to_db(place.offset)?)
                .bind(place.index)
                .bind(to_db(place.sequence)?)
                .bind(place.id.to_string()),
            None => query.bind(-1_i64).bind(0).bind(0).bind(0).bind(""),
        };
        let stream = query.bind(i64::from(rows) + 1).fetch(&mut *snapshot);
        let (taken, more) = bounded(stream, rows, |row| weigh(row.5, &row.6)).await?;
        let next = taken.last().filter(|_| more).map(|row| {
            let place = [row.0, row.1, row.2, row.3].map(|number| number.to_string());
            token::make(
                &list,
                &[place.as_slice(), std::slice::from_ref(&row.4)].concat(),
            )
        });
        let messages = readable_rows(taken.iter().map(|row| row.6.as_str()));
        let items = with_texts(&mut snapshot, messages).await?;
        Ok(Page { items, next })
    }

    async fn said_last(&self, session: SessionId, run: u32, bytes: u64) -> Result<Vec<Message>> {
        let mut snapshot = self.readers.begin().await.map_err(unavailable)?;
        let mut docs = sqlx::query_scalar::<_, String>(SAID_LAST)
            .bind(session.to_string())
            .bind(run)
            .fetch(&mut *snapshot);
        let mut said = Vec::new();
        let mut left = bytes;
        while left > 0
            && let Some(doc) = docs.try_next().await.map_err(unavailable)?
        {
            // One that cannot be read may have any length: what is older proves nothing.
            let message: Message = document(&doc)?;
            left = left.saturating_sub(message.bytes + 1);
            said.push(message);
        }
        Ok(said)
    }
}

/// The last messages of a session, oldest first.
pub(super) async fn last(
    connection: &mut SqliteConnection,
    session: SessionId,
    limit: u32,
) -> Result<Vec<Message>> {
    let stream = sqlx::query_as::<_, Row>(LAST)
        .bind(session.to_string())
        .bind(limit)
        .fetch(&mut *connection);
    let (taken, _) = bounded(stream, limit, |row| weigh(row.0, &row.1)).await?;
    let mut messages = readable_rows(taken.iter().map(|row| row.1.as_str()));
    messages.reverse();
    with_texts(connection, messages).await
}

/// Puts in the texts that stand in chunks.
pub(super) async fn with_texts(
    connection: &mut SqliteConnection,
    mut messages: Vec<Message>,
) -> Result<Vec<Message>> {
    let wanted: Vec<String> = messages
        .iter()
        .filter(|message| chunked(message))
        .map(|message| message.id.to_string())
        .collect();
    if wanted.is_empty() {
        return Ok(messages);
    }
    let wanted = serde_json::Value::from(wanted).to_string();
    let rows: Vec<(String, i64, String)> = sqlx::query_as(CHUNKS)
        .bind(wanted)
        .fetch_all(connection)
        .await
        .map_err(unavailable)?;
    let mut pieces: HashMap<&str, Vec<(u64, &str)>> = HashMap::new();
    for (message, from, text) in &rows {
        let piece = (number(*from)?, text.as_str());
        pieces.entry(message).or_default().push(piece);
    }
    for message in &mut messages {
        if let Some(pieces) = pieces.remove(message.id.to_string().as_str()) {
            message.body = Body::Text(assemble(pieces.into_iter()));
        }
    }
    Ok(messages)
}

fn weigh(chunked: i64, doc: &str) -> usize {
    doc.len()
        .saturating_add(usize::try_from(chunked).unwrap_or(usize::MAX))
}

fn readable_rows<'a>(docs: impl Iterator<Item = &'a str>) -> Vec<Message> {
    docs.filter_map(|doc| readable(document(doc))).collect()
}

async fn one(connection: &mut SqliteConnection, doc: Option<String>) -> Result<Option<Message>> {
    let Some(doc) = doc else { return Ok(None) };
    let message = document(&doc)?;
    Ok(with_texts(connection, vec![message]).await?.pop())
}
