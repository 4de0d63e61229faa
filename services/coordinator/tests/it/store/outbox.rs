//! Outbox, heads, pruning, the workspace's snapshot.

use muster_coordinator::store::{Bounds, Error, Keep, Row, Store};
use muster_domain::{
    Timestamp, WorkspaceId,
    changeset::Conflict,
    feed::{Audience, Change, Event},
};

use super::kit::*;

mod each {
    super::super::conformance! {
        f11_events_are_read_after_a_revision,
        a_changeset_without_events_moves_no_revision,
        a_batch_is_bounded_in_bytes,
        heads_follow_commits,
        f11_pruning_keeps_the_newest,
        pruning_by_age,
        r9_a_snapshot_comes_in_pages,
        a_snapshot_hides_what_lists_hide,
        an_unknown_workspace_has_nothing,
        a_closed_store_says_so,
    }
}

async fn f11_events_are_read_after_a_revision(store: &dyn Store) {
    let mut two = tell(1);
    two.events.push(event(2));
    assert_eq!(put(store, two).await, 1);
    assert_eq!(put(store, tell(3)).await, 2);
    let batch = store.outbox(&main(), 0, 10).await.unwrap();
    assert_eq!(batch.commits[0].events, [event(1), event(2)]);
    assert_eq!(batch.commits[1].revision, 2);
    let bounds = Bounds {
        compacted: 0,
        head: 2,
    };
    assert_eq!(batch.bounds, bounds);
    assert_eq!(store.bounds(&main()).await.unwrap(), bounds);
    let batch = store.outbox(&main(), 1, 10).await.unwrap();
    assert_eq!(batch.commits.len(), 1);
    assert!(
        store
            .outbox(&main(), 2, 10)
            .await
            .unwrap()
            .commits
            .is_empty()
    );
    let beyond = store.outbox(&main(), u64::MAX, 10).await.unwrap();
    assert!(beyond.commits.is_empty());
    let one = store.outbox(&main(), 0, 1).await.unwrap();
    assert_eq!(one.commits.len(), 1);
}

async fn a_changeset_without_events_moves_no_revision(store: &dyn Store) {
    assert_eq!(put(store, add_task(task(1))).await, 0);
    put(store, tell(1)).await;
    assert_eq!(put(store, add_task(task(2))).await, 1);
}

async fn a_batch_is_bounded_in_bytes(store: &dyn Store) {
    for n in 0..4 {
        let mut changeset = changes();
        changeset.events = vec![Event {
            audience: Audience::Session(session_id(1)),
            change: Change::MessageDelta {
                message: message_id(1),
                from: n,
                text: "x".repeat(900 * 1024),
            },
        }];
        put(store, changeset).await;
    }
    let batch = store.outbox(&main(), 0, 100).await.unwrap();
    assert_eq!(batch.commits.len(), 2);
    assert_eq!(batch.bounds.head, 4);
}

async fn heads_follow_commits(store: &dyn Store) {
    let mut heads = store.heads(&main());
    put(store, tell(1)).await;
    heads.wait_for(|head| *head == 1).await.unwrap();
    put(store, tell(2)).await;
    heads.wait_for(|head| *head == 2).await.unwrap();
    let batch = store.outbox(&main(), 1, 10).await.unwrap();
    assert_eq!(batch.commits.len(), 1);
}

async fn f11_pruning_keeps_the_newest(store: &dyn Store) {
    for n in 0..5 {
        put(store, tell(n)).await;
    }
    let keep = Keep {
        rows: 2,
        since: Timestamp::from_micros(0),
    };
    assert_eq!(store.prune(&main(), keep).await.unwrap(), 3);
    assert_eq!(store.prune(&main(), keep).await.unwrap(), 0);
    let batch = store.outbox(&main(), 0, 10).await.unwrap();
    let bounds = Bounds {
        compacted: 3,
        head: 5,
    };
    assert_eq!(batch.bounds, bounds);
    assert_eq!(batch.commits[0].revision, 4);
    assert_eq!(put(store, tell(9)).await, 6);
}

async fn pruning_by_age(store: &dyn Store) {
    put(store, tell(1)).await;
    let keep = |since| Keep {
        rows: 100,
        since: Timestamp::from_micros(since),
    };
    assert_eq!(store.prune(&main(), keep(1)).await.unwrap(), 0);
    assert_eq!(store.prune(&main(), keep(i64::MAX)).await.unwrap(), 1);
    let bounds = Bounds {
        compacted: 1,
        head: 1,
    };
    assert_eq!(store.bounds(&main()).await.unwrap(), bounds);
}

async fn r9_a_snapshot_comes_in_pages(store: &dyn Store) {
    let mut changeset = add_session(session(1));
    changeset.hosts = vec![host(1, "a")];
    changeset.events = vec![event(1)];
    put(store, changeset).await;
    for n in 1..=3 {
        put(store, add_task(task(n))).await;
    }
    put(store, add_session(session(2))).await;
    let mut rows = Vec::new();
    let mut from = None;
    loop {
        let page = store.snapshot(&main(), from.as_ref(), 2).await.unwrap();
        assert_eq!(page.revision, 1);
        assert!(page.rows.len() <= 2);
        rows.extend(page.rows);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    let expected = [
        Row::Host(host(1, "a")),
        Row::Task(task(1)),
        Row::Task(task(2)),
        Row::Task(task(3)),
        Row::Session(Box::new(session(1))),
        Row::Session(Box::new(session(2))),
    ];
    assert_eq!(rows, expected);
    let whole = store.snapshot(&main(), None, 0).await.unwrap();
    assert_eq!((whole.rows.len(), whole.next), (6, None));
}

async fn a_snapshot_hides_what_lists_hide(store: &dyn Store) {
    let mut internal = session(1);
    internal.spec.internal = true;
    let mut archived = session(2);
    archived.archived = true;
    for state in [internal, archived] {
        put(store, add_session(state)).await;
    }
    let page = store.snapshot(&main(), None, 10).await.unwrap();
    assert!(page.rows.is_empty());
}

async fn an_unknown_workspace_has_nothing(store: &dyn Store) {
    let other = WorkspaceId::parse("other").unwrap();
    let mut changeset = tell(1);
    changeset.workspace = other.clone();
    let refused = commit(store, changeset).await;
    assert!(matches!(refused, Err(Conflict::Unavailable(_))));
    let batch = store.outbox(&other, 0, 10).await.unwrap();
    assert_eq!((batch.commits.len(), batch.bounds), (0, Bounds::default()));
    put(store, add_session(session(1))).await;
    let none = store.sessions_by_prefix(&other, "", 10).await.unwrap();
    assert!(none.is_empty());
    assert!(store.live_sessions(&other).await.unwrap().is_empty());
}

async fn a_closed_store_says_so(store: &dyn Store) {
    store.close().await;
    let refused = commit(store, tell(1)).await;
    assert!(matches!(refused, Err(Conflict::Unavailable(_))));
    let read = store.hosts().await;
    assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
    let keep = Keep {
        rows: 1,
        since: Timestamp::from_micros(0),
    };
    let pruned = store.prune(&main(), keep).await;
    assert!(matches!(pruned, Err(Error::Unavailable(_))));
}
