//! What all reads share: errors, numbers, documents, pages bounded in rows and bytes.

use futures_util::{Stream, TryStreamExt as _};
use muster_domain::{
    delivery::Delivery,
    task::{Phase, Task},
};
use serde::de::DeserializeOwned;

use super::super::{Error, Result, model::PAGE_BYTES};

/// The database gave no answer.
pub(super) fn unavailable(error: sqlx::Error) -> Error {
    match error {
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            Error::Damaged(error.to_string())
        }
        other => Error::Unavailable(other.to_string()),
    }
}

/// A number that is never negative.
pub(super) fn number(stored: i64) -> Result<u64> {
    u64::try_from(stored).map_err(|_| Error::Damaged(format!("{stored} is negative")))
}

/// An id, a key.
pub(super) fn parse<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse()
        .map_err(|_| Error::Damaged(format!("`{text}` has another form")))
}

/// The value in a document.
pub(super) fn document<T: DeserializeOwned>(doc: &str) -> Result<T> {
    serde_json::from_str(doc).map_err(|error| Error::Damaged(error.to_string()))
}

/// The values of a list: one that cannot be read must not hide the others.
pub(super) fn readable<T>(row: Result<T>) -> Option<T> {
    match row {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::error!(cause = ?error, "a row is left out: this version cannot read it");
            None
        }
    }
}

/// A task; its phase is what the column says, known or not.
pub(super) fn task(phase: &str, doc: &str) -> Result<Task> {
    let mut value: serde_json::Value = document(doc)?;
    if let Some(fields) = value.as_object_mut() {
        let phase = serde_json::to_value(Phase::stored(phase))
            .map_err(|error| Error::Damaged(error.to_string()))?;
        fields.insert("phase".to_owned(), phase);
    }
    serde_json::from_value(value).map_err(|error| Error::Damaged(error.to_string()))
}

/// A delivery; its bytes stand beside the document.
pub(super) fn delivery(payload: Vec<u8>, doc: &str) -> Result<Delivery> {
    let mut delivery: Delivery = document(doc)?;
    delivery.payload = payload;
    Ok(delivery)
}

/// At most `rows` rows, fewer where they weigh more than a page may, and whether there are
/// more. The query asks for `rows + 1`.
pub(super) async fn bounded<R>(
    mut stream: impl Stream<Item = sqlx::Result<R>> + Unpin,
    rows: u32,
    weigh: impl Fn(&R) -> usize,
) -> Result<(Vec<R>, bool)> {
    let mut taken = Vec::new();
    let mut weight = 0_usize;
    while let Some(row) = stream.try_next().await.map_err(unavailable)? {
        weight = weight.saturating_add(weigh(&row));
        let full = taken.len() >= rows as usize || weight > PAGE_BYTES;
        if full && !taken.is_empty() {
            return Ok((taken, true));
        }
        taken.push(row);
    }
    Ok((taken, false))
}
