//! Messages: order, chunks, keys, pages.

use muster_coordinator::store::Store;
use muster_domain::{
    changeset::Conflict,
    message::{Body, Delivery, Message},
};

use super::kit::*;

mod each {
    super::super::conformance! {
        messages_are_ordered_by_their_place,
        what_was_said_at_one_place_keeps_its_order,
        s19_what_was_said_to_a_run_last_comes_up_to_so_many_bytes,
        f17_chunks_become_the_text,
        a_chunk_is_written_once,
        texts_are_kept_byte_for_byte,
        a_hole_ends_the_text,
        a_message_is_replaced_by_id,
        s14_a_client_key_finds_its_message_and_is_taken_once,
        r8_a_page_ends_where_texts_become_large,
        appending_does_not_disturb_paging,
    }
}

fn ids(messages: &[Message]) -> Vec<muster_domain::MessageId> {
    messages.iter().map(|message| message.id).collect()
}

async fn messages_are_ordered_by_their_place(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    let mut second_run = output(1, 1, 0, "second run");
    second_run.at.run = 2;
    let mut second_of_line = output(2, 1, 10, "b");
    second_of_line.index = 1;
    changeset.messages = vec![
        second_run,
        second_of_line,
        output(3, 1, 10, "a"),
        output(4, 1, 9, "before"),
    ];
    put(store, changeset).await;
    let page = store.messages(session_id(1), &page(0, None)).await.unwrap();
    assert_eq!(ids(&page.items), [4, 3, 2, 1].map(message_id));
    assert_eq!(page.next, None);
}

async fn what_was_said_at_one_place_keeps_its_order(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.messages = vec![
        said(1, 1, 3, Delivery::Accepted),
        said(2, 1, 2, Delivery::Accepted),
        said(3, 1, 1, Delivery::Accepted),
    ];
    put(store, changeset).await;
    let page = store.messages(session_id(1), &page(0, None)).await.unwrap();
    assert_eq!(ids(&page.items), [3, 2, 1].map(message_id));
}

async fn s19_what_was_said_to_a_run_last_comes_up_to_so_many_bytes(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    let mut earlier = said(5, 1, 5, Delivery::Written);
    earlier.at.run = 2;
    changeset.messages = vec![
        said(1, 1, 1, Delivery::Written),
        said(3, 1, 3, Delivery::Unconfirmed),
        said(2, 1, 2, Delivery::Written),
        output(4, 1, 9, "no message of ours"),
        earlier,
    ];
    put(store, changeset).await;
    // Each is `said N` and a newline: seven bytes.
    for (bytes, expected) in [
        (0, vec![]),
        (1, vec![3]),
        (7, vec![3]),
        (8, vec![3, 2]),
        (900, vec![3, 2, 1]),
    ] {
        let found = store.said_last(session_id(1), 1, bytes).await.unwrap();
        let expected: Vec<_> = expected.into_iter().map(message_id).collect();
        assert_eq!(ids(&found), expected, "{bytes}");
    }
    let other = store.said_last(session_id(1), 3, 9).await.unwrap();
    assert_eq!(ids(&other), []);
}

async fn text(store: &dyn Store, n: u32) -> String {
    let message = store.message(message_id(n)).await.unwrap().unwrap();
    match message.body {
        Body::Text(text) => text,
        Body::Reference { .. } => panic!("a reference"),
    }
}

async fn f17_chunks_become_the_text(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.messages = vec![growing(1, 1, 4)];
    changeset.chunks = vec![chunk(1, 0, "ab"), chunk(1, 2, "é")];
    put(store, changeset).await;
    assert_eq!(text(store, 1).await, "abé");
    let mut changeset = changes();
    let mut complete = growing(1, 1, 5);
    complete.complete = true;
    changeset.messages = vec![complete];
    changeset.chunks = vec![chunk(1, 4, "!")];
    put(store, changeset).await;
    assert_eq!(text(store, 1).await, "abé!");
    let loaded = store.load(session_id(1)).await.unwrap().unwrap();
    assert_eq!(loaded.growing, None);
    let page = store.messages(session_id(1), &page(0, None)).await.unwrap();
    assert_eq!(page.items[0].body, Body::Text("abé!".to_owned()));
}

async fn a_chunk_is_written_once(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.messages = vec![growing(1, 1, 2)];
    changeset.chunks = vec![chunk(1, 0, "ab")];
    put(store, changeset).await;
    let mut again = changes();
    again.chunks = vec![chunk(1, 0, "ab")];
    put(store, again).await;
    assert_eq!(text(store, 1).await, "ab");
}

async fn texts_are_kept_byte_for_byte(store: &dyn Store) {
    let odd = "nul \0 quote \" backslash \\ u0000 \\u0000 newline \n tab \t bell \u{7} \u{1f} \u{202e} \u{fffd} \u{10ffff} \u{2028}";
    let mut changeset = add_session(session(1));
    let bytes = odd.len() as u64;
    changeset.messages = vec![growing(1, 1, bytes * 2), output(2, 1, 9, odd)];
    changeset.chunks = vec![chunk(1, 0, odd), chunk(1, bytes, odd)];
    put(store, changeset).await;
    assert_eq!(text(store, 1).await, format!("{odd}{odd}"));
    assert_eq!(text(store, 2).await, odd);
    let mut without_nul = changes();
    let plain = odd.replace('\0', "");
    without_nul.messages = vec![growing(3, 1, plain.len() as u64)];
    without_nul.chunks = vec![chunk(3, 0, &plain)];
    put(store, without_nul).await;
    assert_eq!(text(store, 3).await, plain);
}

async fn a_hole_ends_the_text(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.messages = vec![growing(1, 1, 6)];
    changeset.chunks = vec![chunk(1, 0, "ab"), chunk(1, 4, "ef")];
    put(store, changeset).await;
    assert_eq!(text(store, 1).await, "ab");
}

async fn a_message_is_replaced_by_id(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.messages = vec![said(1, 1, 1, Delivery::Accepted)];
    put(store, changeset).await;
    let mut changeset = changes();
    changeset.messages = vec![said(1, 1, 1, Delivery::Written)];
    put(store, changeset).await;
    let stored = store.message(message_id(1)).await.unwrap();
    assert_eq!(stored, Some(said(1, 1, 1, Delivery::Written)));
    let loaded = store.load(session_id(1)).await.unwrap().unwrap();
    assert!(loaded.waiting.is_empty());
}

async fn s14_a_client_key_finds_its_message_and_is_taken_once(store: &dyn Store) {
    put(store, add_session(session(2))).await;
    let mut changeset = add_session(session(1));
    changeset.messages = vec![said(1, 1, 1, Delivery::Accepted)];
    put(store, changeset).await;
    let find = async |session, key: &str| {
        let found = store.message_by_client_key(session_id(session), key).await;
        found.unwrap().map(|message| message.id)
    };
    assert_eq!(find(1, "key 1").await, Some(message_id(1)));
    assert_eq!(find(1, "key 2").await, None);
    assert_eq!(find(2, "key 1").await, None);
    assert_eq!(find(1, "").await, None);
    let mut other = said(2, 1, 2, Delivery::Accepted);
    other.sent.as_mut().unwrap().client_key = "key 1".to_owned();
    let mut changeset = changes();
    changeset.messages = vec![other];
    let refused = commit(store, changeset).await;
    assert_eq!(refused, Err(Conflict::KeyTaken));
}

async fn r8_a_page_ends_where_texts_become_large(store: &dyn Store) {
    put(store, add_session(session(1))).await;
    let piece = "x".repeat(700 * 1024);
    for n in 1..=5 {
        let mut changeset = changes();
        let bytes = piece.len() as u64;
        changeset.messages = vec![growing(n, 1, bytes)];
        changeset.chunks = vec![chunk(n, 0, &piece)];
        put(store, changeset).await;
    }
    let mut seen = Vec::new();
    let mut token = None;
    loop {
        let page = store
            .messages(session_id(1), &page(0, token))
            .await
            .unwrap();
        assert!(!page.items.is_empty());
        assert!(page.items.len() <= 2, "{}", page.items.len());
        seen.extend(ids(&page.items));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5].map(message_id));
    let snapshot = store
        .session_snapshot(session_id(1), 100)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ids(&snapshot.messages), [4, 5].map(message_id));
}

async fn appending_does_not_disturb_paging(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.messages = (1..=3).map(|n| output(n, 1, u64::from(n), "x")).collect();
    put(store, changeset).await;
    let first = store.messages(session_id(1), &page(2, None)).await.unwrap();
    let mut changeset = changes();
    changeset.messages = vec![output(4, 1, 4, "x")];
    put(store, changeset).await;
    let second = page(2, first.next.clone());
    let second = store.messages(session_id(1), &second).await.unwrap();
    assert_eq!(ids(&first.items), [1, 2].map(message_id));
    assert_eq!(ids(&second.items), [3, 4].map(message_id));
}
