//! Resume points of tails.

use muster_domain::{Fault, Reason, limits};
use prost::Message as _;

use crate::agent;

/// Bytes of a guard and of a head hash.
const HASH_BYTES: usize = 16;

/// A cursor as opaque bytes, for `session::Run::cursor`.
pub fn cursor_bytes(cursor: &agent::Cursor) -> Vec<u8> {
    cursor.encode_to_vec()
}

/// The cursor that [`cursor_bytes`] made opaque; empty bytes are the beginning.
///
/// # Errors
/// `BAD_CURSOR`.
pub fn cursor(bytes: &[u8]) -> Result<agent::Cursor, Fault> {
    let cursor = agent::Cursor::decode(bytes).map_err(|error| bad_cursor().with_internal(error))?;
    check_cursor(&cursor)?;
    Ok(cursor)
}

/// Checks the form of a cursor: beyond the beginning it needs generation and guard.
///
/// # Errors
/// `BAD_CURSOR`.
pub fn check_cursor(cursor: &agent::Cursor) -> Result<(), Fault> {
    if cursor.offset == 0 {
        return Ok(());
    }
    let generation = cursor.generation.as_ref().ok_or_else(bad_cursor)?;
    let head_fits = usize::try_from(generation.head_bytes).is_ok_and(|n| n <= limits::HEAD_BYTES);
    if cursor.guard.len() == HASH_BYTES && generation.head_hash.len() == HASH_BYTES && head_fits {
        Ok(())
    } else {
        Err(bad_cursor())
    }
}

/// The closed name of why bytes cannot be had.
pub fn gap_reason(gap: &agent::Gap) -> &'static str {
    match gap.reason() {
        agent::GapReason::FileGone => "FILE_GONE",
        agent::GapReason::GuardMismatch => "GUARD_MISMATCH",
        agent::GapReason::Shorter => "SHORTER",
        agent::GapReason::Unspecified => "UNSPECIFIED",
    }
}

fn bad_cursor() -> Fault {
    Fault::new(Reason::BadCursor, "the cursor is none of this file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> agent::Cursor {
        agent::Cursor {
            offset: 42,
            generation: Some(agent::Generation {
                device: 1,
                inode: 2,
                birth_ns: 3,
                head_bytes: 42,
                head_hash: vec![7; HASH_BYTES].into(),
            }),
            guard: vec![9; HASH_BYTES].into(),
        }
    }

    #[test]
    fn r1_cursors_come_back() {
        assert_eq!(cursor(&cursor_bytes(&sample())), Ok(sample()));
        assert_eq!(cursor(&[]), Ok(agent::Cursor::default()));
    }

    #[test]
    fn a_cursor_without_its_guards_is_refused() {
        let broken = [
            agent::Cursor {
                generation: None,
                ..sample()
            },
            agent::Cursor {
                guard: vec![9; 3].into(),
                ..sample()
            },
        ];
        for broken in broken {
            let fault = check_cursor(&broken).unwrap_err();
            assert_eq!(fault.reason(), Reason::BadCursor);
        }
        assert_eq!(cursor(b"\xff\xff").unwrap_err().reason(), Reason::BadCursor);
    }
}
