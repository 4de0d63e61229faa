//! Tasks and hosts.

use muster_coordinator::store::Store;
use muster_domain::{
    changeset::{Conflict, Versioned},
    task::Phase,
};

use super::kit::*;

mod each {
    super::super::conformance! {
        a_stored_task_is_read_back,
        task_versions_and_keys_conflict,
        t0_a_prefix_finds_tasks,
        lists_of_tasks_page_and_filter,
        t3_an_unknown_phase_is_kept,
        hosts_are_replaced_by_id_and_have_one_name,
        a_conflict_leaves_nothing_of_its_changeset,
    }
}

async fn a_stored_task_is_read_back(store: &dyn Store) {
    put(store, add_task(task(1))).await;
    assert_eq!(store.task(task_id(1)).await.unwrap(), Some(task(1)));
    assert_eq!(store.task(task_id(2)).await.unwrap(), None);
    let found = store.task_by_client_key(&main(), "key 1").await.unwrap();
    assert_eq!(found, Some(task(1)));
}

async fn task_versions_and_keys_conflict(store: &dyn Store) {
    put(store, add_task(task(1))).await;
    let again = commit(store, add_task(task(1))).await;
    let expected = Conflict::Version {
        what: "task",
        expected: 0,
        found: 1,
    };
    assert_eq!(again, Err(expected));
    let mut same_key = task(2);
    same_key.client_key = "key 1".to_owned();
    let taken = commit(store, add_task(same_key)).await;
    assert_eq!(taken, Err(Conflict::KeyTaken));
    let mut moved = task(1);
    moved.version = 2;
    moved.title = "moved".to_owned();
    let mut changeset = changes();
    changeset.tasks = vec![Versioned {
        expected: 1,
        row: moved.clone(),
    }];
    put(store, changeset.clone()).await;
    assert!(commit(store, changeset).await.is_err());
    assert_eq!(store.task(task_id(1)).await.unwrap(), Some(moved));
}

async fn t0_a_prefix_finds_tasks(store: &dyn Store) {
    for n in [0x1100, 0x1101] {
        put(store, add_task(task(n))).await;
    }
    let find = async |prefix: &str| store.tasks_by_prefix(&main(), prefix, 5).await.unwrap();
    assert_eq!(find("000011").await, [0x1100, 0x1101].map(task_id));
    assert_eq!(find("00001101").await, [task_id(0x1101)]);
    assert!(find("2").await.is_empty());
}

async fn lists_of_tasks_page_and_filter(store: &dyn Store) {
    for n in 1..=4 {
        let mut task = task(n);
        if n % 2 == 0 {
            task.phase = Phase::InProgress;
        }
        put(store, add_task(task)).await;
    }
    let list = async |phase: Option<Phase>, size, token| {
        let page = store
            .tasks(&main(), phase.as_ref(), &page(size, token))
            .await;
        let page = page.unwrap();
        let ids: Vec<_> = page.items.iter().map(|task| task.id).collect();
        (ids, page.next)
    };
    assert_eq!(list(None, 0, None).await.0, [4, 3, 2, 1].map(task_id));
    let (ids, next) = list(None, 3, None).await;
    assert_eq!(ids, [4, 3, 2].map(task_id));
    assert_eq!(list(None, 3, next).await, ([1].map(task_id).to_vec(), None));
    let (ids, next) = list(Some(Phase::InProgress), 1, None).await;
    assert_eq!(ids, [task_id(4)]);
    let (ids, next) = list(Some(Phase::InProgress), 1, next).await;
    assert_eq!((ids, next), (vec![task_id(2)], None));
}

async fn t3_an_unknown_phase_is_kept(store: &dyn Store) {
    let mut odd = task(1);
    odd.phase = Phase::Other("PONDERING".to_owned());
    put(store, add_task(odd.clone())).await;
    assert_eq!(store.task(task_id(1)).await.unwrap(), Some(odd));
}

async fn hosts_are_replaced_by_id_and_have_one_name(store: &dyn Store) {
    let mut changeset = changes();
    changeset.hosts = vec![host(2, "b"), host(1, "a")];
    put(store, changeset).await;
    let mut renamed = host(2, "c");
    renamed.epoch = 7;
    let mut changeset = changes();
    changeset.hosts = vec![renamed.clone()];
    put(store, changeset).await;
    let hosts = store.hosts().await.unwrap();
    assert_eq!(hosts, [host(1, "a"), renamed.clone()]);
    assert_eq!(store.host(renamed.id).await.unwrap(), Some(renamed.clone()));
    assert_eq!(store.host_by_name("c").await.unwrap(), Some(renamed));
    assert_eq!(store.host_by_name("b").await.unwrap(), None);
    let mut changeset = changes();
    changeset.hosts = vec![host(3, "a")];
    let taken = commit(store, changeset).await;
    assert_eq!(taken, Err(Conflict::KeyTaken));
}

async fn a_conflict_leaves_nothing_of_its_changeset(store: &dyn Store) {
    put(store, add_task(task(1))).await;
    let mut spoilt = add_session(session(1));
    spoilt.messages = vec![output(1, 1, 0, "x")];
    spoilt.events = vec![event(1)];
    spoilt.hosts = vec![host(1, "a")];
    spoilt.tasks = vec![Versioned {
        expected: 5,
        row: task(1),
    }];
    let mut good = add_task(task(2));
    good.events = vec![event(2)];
    let mut results = store.commit(vec![tell(3), spoilt, good]).await.into_iter();
    assert_eq!(results.next().unwrap().unwrap().revision, 1);
    assert!(matches!(
        results.next(),
        Some(Err(Conflict::Version { .. }))
    ));
    assert_eq!(results.next().unwrap().unwrap().revision, 2);
    assert_eq!(store.session(session_id(1)).await.unwrap(), None);
    assert_eq!(store.message(message_id(1)).await.unwrap(), None);
    assert!(store.hosts().await.unwrap().is_empty());
    let batch = store.outbox(&main(), 0, 10).await.unwrap();
    let revisions: Vec<_> = batch.commits.iter().map(|commit| commit.revision).collect();
    assert_eq!(revisions, [1, 2]);
}
