use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_runtime::{
    Tasks,
    tasks::{OnFailure, Unfinished},
};

use crate::LONG;

async fn panics() {
    panic!("on purpose");
}

#[tokio::test]
async fn shutdown_cancels_and_waits() {
    let tasks = Tasks::new("root");
    let ended = Arc::new(AtomicBool::new(false));
    let (token, flag) = (tasks.token(), ended.clone());
    tasks.spawn("polite", async move {
        token.cancelled().await;
        tokio::task::yield_now().await;
        flag.store(true, Ordering::SeqCst);
    });
    tasks.shutdown(LONG).await.unwrap();
    assert!(ended.load(Ordering::SeqCst));
    assert!(tasks.is_empty());
}

#[tokio::test]
async fn shutdown_names_and_aborts_what_still_runs() {
    let tasks = Tasks::new("root");
    let child = tasks.child("sub");
    let dropped = Arc::new(());
    let held = dropped.clone();
    child.spawn("stubborn", async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    tasks.spawn("other", std::future::pending::<()>());
    let names = tasks.shutdown(Duration::from_millis(10)).await;
    assert_eq!(
        names,
        Err(Unfinished {
            names: vec!["root/other".into(), "root/sub/stubborn".into()]
        })
    );
    assert_eq!(Arc::strong_count(&dropped), 1, "the future was dropped");
    assert!(tasks.is_empty());
}

#[tokio::test]
async fn a_child_ends_alone() {
    let tasks = Tasks::new("root");
    let child = tasks.child("sub");
    let token = child.token();
    child.spawn("one", async move { token.cancelled().await });
    let parent_task = tasks.spawn("two", std::future::pending::<()>());
    child.shutdown(LONG).await.unwrap();
    assert!(!tasks.is_cancelled());
    assert!(!parent_task.is_finished());
    assert_eq!(tasks.len(), 1);
    assert!(tasks.shutdown(Duration::ZERO).await.is_err());
}

#[tokio::test]
async fn failures_follow_the_policy() {
    let log_only = Tasks::new("log");
    log_only.spawn("error", async { Err::<(), _>("broken") });
    log_only.spawn("panic", panics());
    let strict = Tasks::with_policy("strict", OnFailure::Shutdown);
    let token = strict.token();
    strict.spawn("panic", panics());
    tokio::time::timeout(LONG, token.cancelled()).await.unwrap();
    strict.shutdown(LONG).await.unwrap();
    while !log_only.is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!log_only.is_cancelled());
}

#[tokio::test]
async fn nothing_starts_after_the_end() {
    let tasks = Tasks::new("root");
    tasks.shutdown(LONG).await.unwrap();
    let late = tasks.child("sub").spawn("late", panics());
    assert!(late.is_finished());
    assert!(tasks.is_empty());
}

#[tokio::test]
async fn blocking_work_is_waited_for() {
    let tasks = Tasks::new("root");
    assert_eq!(tasks.spawn_blocking("sum", || 1 + 1).await.unwrap(), 2);
    let failed = tasks.spawn_blocking("panic", || -> u32 { panic!("on purpose") });
    assert!(failed.await.unwrap_err().to_string().contains("root/panic"));
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    drop(tasks.spawn_blocking("waits", move || receiver.recv()));
    let unfinished = tasks.shutdown(Duration::from_millis(1)).await.unwrap_err();
    assert_eq!(unfinished.names, ["root/waits"]);
    drop(sender);
}
