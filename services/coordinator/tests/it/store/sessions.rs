//! Sessions: versions, keys, loading, lists, prefixes.

use muster_coordinator::store::{SessionFilter, Store};
use muster_domain::{
    Timestamp, changeset::Conflict, delivery::Progress, message::Delivery, session::Process,
};

use super::kit::*;

mod each {
    super::super::conformance! {
        a_stored_session_is_read_back,
        a_version_that_has_moved_on_is_a_conflict,
        a_client_key_is_taken_once,
        r2_loading_gives_what_an_actor_needs,
        deliveries_keep_their_bytes,
        a_prefix_finds_ids_in_order,
        lists_show_the_newest_first_in_pages,
        paging_is_not_disturbed_by_inserts,
        lists_filter,
        a_token_of_another_filter_is_refused,
        live_sessions_are_those_that_have_not_ended,
        turns_are_replaced_by_id,
        r9_a_snapshot_of_a_session_is_as_of_a_revision,
        rows_of_a_session_that_is_not_there_are_refused,
    }
}

async fn a_stored_session_is_read_back(store: &dyn Store) {
    let state = session(1);
    put(store, add_session(state.clone())).await;
    assert_eq!(
        store.session(session_id(1)).await.unwrap(),
        Some(state.clone())
    );
    assert_eq!(store.session(session_id(2)).await.unwrap(), None);
    let found = store.session_by_client_key(&main(), "key 1").await.unwrap();
    assert_eq!(found, Some(state));
    let none = store.session_by_client_key(&main(), "key 2").await.unwrap();
    assert_eq!(none, None);
}

async fn a_version_that_has_moved_on_is_a_conflict(store: &dyn Store) {
    put(store, add_session(session(1))).await;
    put(store, move_session(session(1), 1)).await;
    let version = |expected, found| {
        Err(Conflict::Version {
            what: "session",
            expected,
            found,
        })
    };
    assert_eq!(
        commit(store, move_session(session(1), 1)).await,
        version(1, 2)
    );
    assert_eq!(commit(store, add_session(session(1))).await, version(0, 2));
    assert_eq!(
        commit(store, move_session(session(9), 3)).await,
        version(3, 0)
    );
    let stored = store.session(session_id(1)).await.unwrap().unwrap();
    assert_eq!(stored.version, 2);
}

async fn a_client_key_is_taken_once(store: &dyn Store) {
    put(store, add_session(session(1))).await;
    let mut same = session(2);
    same.spec.client_key = "key 1".to_owned();
    assert_eq!(
        commit(store, add_session(same.clone())).await,
        Err(Conflict::KeyTaken)
    );
    for n in [3, 4] {
        let mut without = session(n);
        without.spec.client_key = String::new();
        put(store, add_session(without)).await;
    }
    let none = store.session_by_client_key(&main(), "").await.unwrap();
    assert_eq!(none, None);
}

async fn r2_loading_gives_what_an_actor_needs(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.messages = vec![
        said(12, 1, 2, Delivery::Accepted),
        said(11, 1, 1, Delivery::Held),
        said(10, 1, 3, Delivery::Written),
        growing(20, 1, 6),
    ];
    changeset.chunks = vec![chunk(20, 3, "def"), chunk(20, 0, "abc")];
    changeset.deliveries = vec![
        delivery(31, 1, Progress::Committed),
        delivery(30, 1, Progress::Delivered),
    ];
    put(store, changeset.clone()).await;
    let loaded = store.load(session_id(1)).await.unwrap().unwrap();
    assert_eq!(loaded.state, session(1));
    let waiting: Vec<_> = loaded.waiting.iter().map(|message| message.id).collect();
    assert_eq!(waiting, [message_id(11), message_id(12)]);
    assert_eq!(loaded.deliveries, [delivery(31, 1, Progress::Committed)]);
    let growing = loaded.growing.unwrap();
    assert_eq!(growing.id, message_id(20));
    assert_eq!(
        growing.body,
        muster_domain::message::Body::Text("abcdef".to_owned())
    );
    assert!(store.load(session_id(2)).await.unwrap().is_none());
}

async fn deliveries_keep_their_bytes(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    let mut long = delivery(1, 1, Progress::Committed);
    long.payload = (0..=255).cycle().take(1024 * 1024).collect();
    changeset.deliveries = vec![long.clone()];
    put(store, changeset).await;
    let loaded = store.load(session_id(1)).await.unwrap().unwrap();
    assert_eq!(loaded.deliveries, [long.clone()]);
    let mut changeset = changes();
    long.progress = Progress::Unknown;
    changeset.deliveries = vec![long];
    put(store, changeset).await;
    let loaded = store.load(session_id(1)).await.unwrap().unwrap();
    assert!(loaded.deliveries.is_empty());
}

async fn a_prefix_finds_ids_in_order(store: &dyn Store) {
    for n in [0xab01, 0xab00, 0xac00] {
        put(store, add_session(session(n))).await;
    }
    let find = async |prefix: &str, limit| {
        store
            .sessions_by_prefix(&main(), prefix, limit)
            .await
            .unwrap()
    };
    assert_eq!(
        find("0000ab", 10).await,
        [session_id(0xab00), session_id(0xab01)]
    );
    assert_eq!(find("0000ab", 1).await, [session_id(0xab00)]);
    assert_eq!(find("0000ac00-", 10).await, [session_id(0xac00)]);
    assert_eq!(find("", 10).await.len(), 3);
    let whole = session_id(0xab01).to_string();
    assert_eq!(find(&whole, 10).await, [session_id(0xab01)]);
    for none in ["0000AB", "0000ad", "%", "0000ab_", "é", "../", "g"] {
        assert!(find(none, 10).await.is_empty(), "{none}");
    }
}

async fn lists_show_the_newest_first_in_pages(store: &dyn Store) {
    for n in 1..=5 {
        put(store, add_session(session(n))).await;
    }
    let mut seen = Vec::new();
    let mut token = None;
    loop {
        let asked = page(2, token);
        let page = store
            .sessions(&main(), SessionFilter::default(), &asked)
            .await
            .unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|state| state.spec.id));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(seen, [5, 4, 3, 2, 1].map(session_id));
}

async fn paging_is_not_disturbed_by_inserts(store: &dyn Store) {
    for n in [10, 20, 30] {
        put(store, add_session(session(n))).await;
    }
    let filter = SessionFilter::default();
    let first = store
        .sessions(&main(), filter, &page(2, None))
        .await
        .unwrap();
    for n in [40, 25, 15] {
        put(store, add_session(session(n))).await;
    }
    let second = page(2, first.next.clone());
    let second = store.sessions(&main(), filter, &second).await.unwrap();
    let ids = |page: &muster_domain::page::Page<_>| {
        let items: &Vec<muster_domain::session::State> = &page.items;
        items.iter().map(|state| state.spec.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), [30, 20].map(session_id));
    assert_eq!(ids(&second), [15, 10].map(session_id));
}

async fn lists_filter(store: &dyn Store) {
    let mut internal = session(1);
    internal.spec.internal = true;
    let mut ended = session(2);
    ended.run.process.value = Process::Exited;
    let mut tasked = session(3);
    tasked.spec.task = Some(task_id(7));
    let mut ended_tasked = session(4);
    ended_tasked.spec.task = Some(task_id(7));
    ended_tasked.run.process.value = Process::Exited;
    let mut archived = session(5);
    archived.archived = true;
    for state in [internal, ended, tasked, ended_tasked, archived] {
        put(store, add_session(state)).await;
    }
    let list = async |live, internal, task: Option<u32>| {
        let filter = SessionFilter {
            live,
            internal,
            task: task.map(task_id),
        };
        let page = store
            .sessions(&main(), filter, &page(0, None))
            .await
            .unwrap();
        let ids = page.items.iter().map(|state| state.spec.id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(list(false, false, None).await, [4, 3, 2].map(session_id));
    assert_eq!(list(false, true, None).await, [4, 3, 2, 1].map(session_id));
    assert_eq!(list(true, false, None).await, [3].map(session_id));
    assert_eq!(list(true, true, None).await, [3, 1].map(session_id));
    assert_eq!(list(false, false, Some(7)).await, [4, 3].map(session_id));
    assert_eq!(list(true, false, Some(7)).await, [3].map(session_id));
    assert!(list(false, false, Some(8)).await.is_empty());
}

async fn a_token_of_another_filter_is_refused(store: &dyn Store) {
    for n in 1..=3 {
        put(store, add_session(session(n))).await;
    }
    let filter = SessionFilter::default();
    let first = store
        .sessions(&main(), filter, &page(1, None))
        .await
        .unwrap();
    let live = SessionFilter {
        live: true,
        ..filter
    };
    let refused = store.sessions(&main(), live, &page(1, first.next)).await;
    assert_eq!(refused, Err(muster_coordinator::store::Error::BadToken));
    let nonsense = page(1, Some("nonsense".to_owned()));
    let refused = store.sessions(&main(), filter, &nonsense).await;
    assert_eq!(refused, Err(muster_coordinator::store::Error::BadToken));
}

async fn live_sessions_are_those_that_have_not_ended(store: &dyn Store) {
    for n in [3, 1, 2] {
        put(store, add_session(session(n))).await;
    }
    let mut ended = session(1);
    ended.run.process.value = Process::Exited;
    put(store, move_session(ended.clone(), 1)).await;
    let live = store.live_sessions(&main()).await.unwrap();
    assert_eq!(live, [2, 3].map(session_id));
    ended.run.process.value = Process::Alive;
    put(store, move_session(ended, 2)).await;
    assert_eq!(store.live_sessions(&main()).await.unwrap().len(), 3);
}

async fn turns_are_replaced_by_id(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.turns = vec![(session_id(1), turn(1, 0)), (session_id(1), turn(2, 9))];
    put(store, changeset).await;
    let mut ended = turn(1, 0);
    ended.ended_at = Some(Timestamp::from_micros(5));
    let mut changeset = changes();
    changeset.turns = vec![(session_id(1), ended.clone())];
    put(store, changeset).await;
    let turns = store.turns(session_id(1), 10).await.unwrap();
    assert_eq!(turns, [turn(2, 9), ended]);
    assert_eq!(store.turns(session_id(1), 1).await.unwrap(), [turn(2, 9)]);
}

async fn r9_a_snapshot_of_a_session_is_as_of_a_revision(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.messages = (1..=5).map(|n| output(n, 1, u64::from(n), "x")).collect();
    changeset.messages.push(growing(6, 1, 3));
    changeset.chunks = vec![chunk(6, 0, "abc")];
    changeset.events = vec![event(1)];
    put(store, changeset).await;
    put(store, tell(2)).await;
    let snapshot = store
        .session_snapshot(session_id(1), 3)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(snapshot.revision, 2);
    assert_eq!(snapshot.state, session(1));
    let ids: Vec<_> = snapshot.messages.iter().map(|message| message.id).collect();
    assert_eq!(ids, [4, 5, 6].map(message_id));
    let text = muster_domain::message::Body::Text("abc".to_owned());
    assert_eq!(snapshot.messages[2].body, text);
    let none = store.session_snapshot(session_id(2), 3).await.unwrap();
    assert_eq!(none, None);
}

async fn rows_of_a_session_that_is_not_there_are_refused(store: &dyn Store) {
    let mut message = changes();
    message.messages = vec![output(1, 9, 0, "x")];
    let mut turns = changes();
    turns.turns = vec![(session_id(9), turn(1, 0))];
    let mut deliveries = changes();
    deliveries.deliveries = vec![delivery(1, 9, Progress::Committed)];
    let mut chunks = changes();
    chunks.chunks = vec![chunk(9, 0, "x")];
    for changeset in [message, turns, deliveries, chunks] {
        let refused = commit(store, changeset).await;
        assert!(
            matches!(refused, Err(Conflict::Unavailable(_))),
            "{refused:?}"
        );
    }
    put(store, add_session(session(9))).await;
}
