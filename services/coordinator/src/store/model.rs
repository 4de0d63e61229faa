//! What all implementations conclude from a row in the same way.

use muster_domain::{
    MessageId, SessionId, WorkspaceId,
    message::{Body, Message},
    session::State,
    task::Phase,
};

use super::{Error, Result, SessionFilter, SnapshotKey, token};

/// Rows of a page weigh at most this together, with one exception: the first.
pub(super) const PAGE_BYTES: usize = muster_domain::limits::STORE_PAGE_BYTES;

/// Whether the session has not ended, or something of it is not settled or lives on.
pub(super) fn live(state: &State) -> bool {
    state.is_live() || state.in_flight.is_some()
}

/// Whether the message waits for its delivery.
pub(super) fn waits(message: &Message) -> bool {
    message
        .sent
        .as_ref()
        .is_some_and(|sent| !sent.state.is_final())
}

/// Whether the message's text stands in chunks.
pub(super) fn chunked(message: &Message) -> bool {
    message.bytes > 0 && matches!(&message.body, Body::Text(text) if text.is_empty())
}

/// Order of messages within their session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) run: u32,
    pub(super) offset: u64,
    pub(super) index: u32,
    pub(super) sequence: u64,
    pub(super) id: MessageId,
}

impl Place {
    pub(super) fn of(message: &Message) -> Self {
        Self {
            run: message.at.run,
            offset: message.at.offset,
            index: message.index,
            sequence: message.sent.as_ref().map_or(0, |sent| sent.sequence),
            id: message.id,
        }
    }
}

/// A growing text, put together from its pieces in order.
///
/// Pieces that overlap or leave a hole cannot come from a transaction of ours; what stands
/// before them is still true, so it is what is given.
pub(super) fn assemble<'a>(pieces: impl Iterator<Item = (u64, &'a str)>) -> String {
    let mut text = String::new();
    for (from, piece) in pieces {
        if usize::try_from(from) != Ok(text.len()) {
            break;
        }
        text.push_str(piece);
    }
    text
}

/// A number as the database has it.
pub(super) fn to_db(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::Damaged(format!("{number} is too large")))
}

/// Whether ids can begin so.
pub(super) fn is_prefix(text: &str) -> bool {
    text.bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-'))
}

/// The failure for a changeset of a workspace that does not exist.
pub(super) fn no_workspace(workspace: &WorkspaceId) -> String {
    format!("no workspace {workspace}")
}

/// Name of a list of sessions, for its tokens.
pub(super) fn sessions_list(workspace: &WorkspaceId, filter: SessionFilter) -> String {
    format!("sessions/{workspace}/{filter:?}")
}

/// Name of a list of tasks, for its tokens.
pub(super) fn tasks_list(workspace: &WorkspaceId, phase: Option<&Phase>) -> String {
    format!("tasks/{workspace}/{:?}", phase.map(Phase::as_str))
}

/// Name of a list of messages, for its tokens.
pub(super) fn messages_list(session: SessionId) -> String {
    format!("messages/{session}")
}

/// A message's place as the key of a token.
pub(super) fn place_token(place: Place) -> [String; 5] {
    [
        place.run.to_string(),
        place.offset.to_string(),
        place.index.to_string(),
        place.sequence.to_string(),
        place.id.to_string(),
    ]
}

/// The place in a token.
pub(super) fn place_of_token(key: Option<[String; 5]>) -> Result<Option<Place>> {
    let Some([run, offset, index, sequence, id]) = key else {
        return Ok(None);
    };
    Ok(Some(Place {
        run: token::part(&run)?,
        offset: token::part(&offset)?,
        index: token::part(&index)?,
        sequence: token::part(&sequence)?,
        id: token::part(&id)?,
    }))
}

/// Kinds of rows in a snapshot, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Hosts,
    Tasks,
    Sessions,
}

impl Stage {
    /// What comes after it.
    pub(super) fn next(self) -> Option<Self> {
        match self {
            Self::Hosts => Some(Self::Tasks),
            Self::Tasks => Some(Self::Sessions),
            Self::Sessions => None,
        }
    }

    /// The key that goes on after the row with this id.
    pub(super) fn key(self, id: &str) -> SnapshotKey {
        let stage = match self {
            Self::Hosts => 'h',
            Self::Tasks => 't',
            Self::Sessions => 's',
        };
        SnapshotKey(format!("{stage}{id}"))
    }
}

/// Where a snapshot goes on: the kind, and the id after which.
pub(super) fn stage_of_key(key: Option<&SnapshotKey>) -> Result<(Stage, String)> {
    let Some(SnapshotKey(key)) = key else {
        return Ok((Stage::Hosts, String::new()));
    };
    let mut rest = key.chars();
    let stage = match rest.next() {
        Some('h') => Stage::Hosts,
        Some('t') => Stage::Tasks,
        Some('s') => Stage::Sessions,
        _ => return Err(Error::BadToken),
    };
    Ok((stage, rest.as_str().to_owned()))
}
