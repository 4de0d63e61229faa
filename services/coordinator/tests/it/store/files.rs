//! What only a store in a file has: schema, modes, opening again, groups.

use std::os::unix::fs::PermissionsExt as _;

use muster_coordinator::store::{Error, SqliteStore};
use muster_runtime::Clock;
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};

use super::kit::*;

#[tokio::test]
async fn opening_again_finds_everything_and_migrates_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    for n in 1..=3 {
        let store = open(&path).await;
        assert_eq!(*store.heads(&main()).borrow(), u64::from(n) - 1);
        put(&*store, tell(n)).await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    open(&path).await.close().await;
    let options = SqliteConnectOptions::new().filename(&path);
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql("INSERT INTO schema_steps VALUES (7, 'later', 0)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let refused = SqliteStore::open(&path, Clock::system()).await;
    let error = refused.map(drop).unwrap_err();
    assert_eq!(error, Error::Newer { found: 7, known: 1 });
    let fault = muster_domain::Fault::from(error);
    assert!(fault.message().contains('7') && fault.message().contains('1'));
    assert!(fault.hint().is_some());
}

#[tokio::test]
async fn nobody_else_may_read_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("muster.db")).await;
    put(&*store, tell(1)).await;
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", file.path());
    }
    store.close().await;
}

#[tokio::test]
async fn a_place_that_cannot_hold_a_database_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing").join("muster.db");
    let text = dir.path().join("text");
    std::fs::write(
        &text,
        "no database, but long enough to have a header of one".repeat(50),
    )
    .unwrap();
    for path in [missing, text, dir.path().to_owned()] {
        let opened = SqliteStore::open(&path, Clock::system()).await.map(drop);
        assert!(matches!(opened, Err(Error::Unavailable(_))), "{opened:?}");
    }
}

#[tokio::test]
async fn many_callers_share_groups_and_each_gets_its_own_answer() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("muster.db")).await;
    let commits = (0..200).map(|n| {
        let store = store.clone();
        async move {
            // Every fourth key is taken by the one before it.
            let mut task = task(n);
            if n % 4 == 3 {
                task.client_key = format!("key {}", n - 1);
            }
            let mut changeset = add_task(task);
            changeset.events = vec![event(n)];
            commit(&*store, changeset).await
        }
    });
    let results = futures_util::future::join_all(commits).await;
    let mut revisions: Vec<_> = results.iter().flatten().map(|done| done.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=150).collect::<Vec<_>>());
    store.close().await;
}

#[tokio::test]
async fn one_row_that_cannot_be_read_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    let store = open(&path).await;
    for n in 1..=3 {
        put(&*store, add_session(session(n))).await;
    }
    let mut connection = SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    sqlx::query("UPDATE sessions SET doc = '{\"from\":\"the future\"}' WHERE id = $1")
        .bind(session_id(2).to_string())
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let listed = store
        .sessions(&main(), Default::default(), &page(0, None))
        .await;
    let ids: Vec<_> = listed
        .unwrap()
        .items
        .iter()
        .map(|row| row.spec.id)
        .collect();
    assert_eq!(ids, [3, 1].map(session_id));
    let damaged = store.session(session_id(2)).await;
    assert!(matches!(damaged, Err(Error::Damaged(_))), "{damaged:?}");
    store.close().await;
}
