//! What fits into one gRPC message.

use muster_domain::limits;
use prost::Message;

/// Room for everything in a message beside its rows or its payload.
pub const ENVELOPE_BYTES: usize = 64 * 1024;

/// Bytes of rows that one page may have.
pub const PAGE_BYTES: usize = limits::GRPC_MESSAGE_BYTES - ENVELOPE_BYTES;

/// How many of the first `rows` fit into one page. At least one where there is one: a single
/// row is always small enough. A page that is cut goes on at the first row left out.
pub fn rows_that_fit<M: Message>(rows: &[M]) -> usize {
    let mut left = PAGE_BYTES;
    for (at, row) in rows.iter().enumerate() {
        let length = row.encoded_len();
        let bytes = length + prost::length_delimiter_len(length) + 1;
        if bytes > left {
            return at.max(1);
        }
        left -= bytes;
    }
    rows.len()
}

const _: () = {
    let frame = limits::GRPC_MESSAGE_BYTES - ENVELOPE_BYTES;
    assert!(limits::MESSAGE_TEXT_BYTES <= frame);
    assert!(limits::DELIVERY_BYTES <= frame);
    assert!(limits::FRAME_BYTES_MAX <= frame);
    assert!(limits::FILE_HEAD_BYTES as usize <= frame);
    assert!(limits::PIPE_WRITE_BYTES <= frame);
    assert!(limits::TASK_TEXT_BYTES + 4 * limits::TASK_TITLE_CHARS <= frame);
    assert!(limits::ARGV_BYTES + limits::PATH_BYTES + limits::STDERR_TAIL_BYTES <= frame);
    // One answer with a session carries its argv and its prompt's title, one request its
    // environment and its prompt too.
    assert!(2 * limits::ARGV_BYTES + limits::MESSAGE_TEXT_BYTES <= frame);
    assert!(limits::GRPC_DECODE_BYTES >= limits::GRPC_MESSAGE_BYTES + 64 * 1024);
    // A spooled payload is named, an inline one is inside of a keeper's frame.
    assert!(limits::KEEPER_INLINE_BYTES + 64 * 1024 <= limits::KEEPER_FRAME_BYTES);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public;

    fn message(bytes: usize) -> public::Message {
        public::Message {
            parts: vec![public::Part {
                part: Some(public::part::Part::Text("x".repeat(bytes))),
            }],
            ..public::Message::default()
        }
    }

    #[test]
    fn r8_a_page_of_the_longest_messages_is_cut() {
        let rows = vec![message(limits::MESSAGE_TEXT_BYTES); 8];
        let fit = rows_that_fit(&rows);
        assert_eq!(fit, 3);
        let page = public::ListMessagesResponse {
            messages: rows[..fit].to_vec(),
            next_page_token: "t".repeat(1_000),
        };
        assert!(page.encoded_len() <= limits::GRPC_MESSAGE_BYTES);
    }

    #[test]
    fn small_rows_all_fit_and_one_row_always_does() {
        assert_eq!(rows_that_fit(&vec![message(10); 1_000]), 1_000);
        assert_eq!(rows_that_fit(&[message(2 * PAGE_BYTES)]), 1);
        assert_eq!(rows_that_fit::<public::Message>(&[]), 0);
    }
}
