//! The feed over cuts: no event is lost or comes twice.

use muster_client::{
    Fault, Reason, Topic, Watch, WatchEvent,
    api::{FeedEvent, Session, Task, feed_event::Event},
};
use muster_proto::public::TaskChanged;

use crate::{LONG, fake::Fake, soon};

/// Events whose tasks are numbered, at these revisions.
fn events(revisions: &[u64]) -> Vec<FeedEvent> {
    let events = revisions
        .iter()
        .enumerate()
        .map(|(at, revision)| FeedEvent {
            revision: Some(*revision),
            session_id: String::new(),
            event: Some(Event::TaskChanged(TaskChanged {
                task: Some(Task {
                    title: at.to_string(),
                    ..Task::default()
                }),
            })),
        });
    events.collect()
}

fn fake(revisions: &[u64]) -> Fake {
    let fake = Fake::start();
    {
        let mut state = fake.state();
        state.outbox.events = events(revisions);
        state.outbox.snapshot_at = 10;
        state.outbox.oldest = 10;
        state.outbox.snapshot = vec![Session::default(), Session::default()];
    }
    fake
}

/// Sessions of the last whole snapshot, and titles of the events since, until progress says
/// that this is all.
async fn all(watch: &mut Watch, head: u64) -> (usize, Vec<String>) {
    let (mut snapshot, mut titles) = (0, Vec::new());
    loop {
        match soon("the next event", watch.next()).await.unwrap() {
            WatchEvent::SnapshotBegin { .. } => {
                snapshot = 0;
                titles.clear();
            }
            WatchEvent::Item(_) => snapshot += 1,
            WatchEvent::Event(event) => match event.event {
                Some(Event::TaskChanged(changed)) => titles.push(changed.task.unwrap().title),
                other => panic!("{other:?}"),
            },
            WatchEvent::Progress { revision } if revision == head => {
                return (snapshot, titles);
            }
            WatchEvent::Refused { fault, .. } => panic!("{fault}"),
            WatchEvent::SnapshotEnd { .. }
            | WatchEvent::Progress { .. }
            | WatchEvent::Gap { .. }
            | WatchEvent::Reconnecting { .. } => {}
        }
    }
}

fn titles(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|at| at.to_string()).collect()
}

#[tokio::test]
async fn r9_state_then_stream_wherever_it_is_cut() {
    // Several events share a revision, and cuts fall between them.
    let revisions = [11, 11, 12, 13, 13, 13, 14];
    for first in 0..14 {
        for second in [0, 1, 3, 6] {
            let fake = fake(&revisions);
            fake.state().outbox.cuts = [first, second].into();
            let mut watch = fake.client().watch(LONG);
            watch.subscribe(Topic::Workspace, None);
            let seen = all(&mut watch, 14).await;
            assert_eq!(seen, (2, titles(0..7)), "{first} {second}");
            fake.stop().await;
        }
    }
}

#[tokio::test]
async fn f11_a_resume_begins_after_its_revision() {
    let fake = fake(&[11, 12, 13]);
    let mut watch = fake.client().watch(LONG);
    watch.subscribe(Topic::Workspace, Some(11));
    assert_eq!(all(&mut watch, 13).await, (0, titles(1..3)));
    assert_eq!(fake.state().outbox.resumed, [Some(11)]);
    fake.stop().await;
}

#[tokio::test]
async fn f11_history_that_is_gone_is_replaced_by_a_snapshot() {
    for end_when_compacted in [false, true] {
        let fake = fake(&[11, 12]);
        fake.state().outbox.end_when_compacted = end_when_compacted;
        let mut watch = fake.client().watch(LONG);
        watch.subscribe(Topic::Workspace, Some(3));
        assert_eq!(all(&mut watch, 12).await, (2, titles(0..2)));
        assert_eq!(fake.state().outbox.resumed, [Some(3), None]);
        fake.stop().await;
    }
}

#[tokio::test]
async fn f12_a_gap_is_told_and_filled() {
    let fake = fake(&[11, 12, 12, 13]);
    fake.state().outbox.gap_after = Some(11);
    let mut watch = fake.client().watch(LONG);
    watch.subscribe(Topic::Workspace, None);
    assert_eq!(all(&mut watch, 13).await, (2, titles(0..4)));
    assert_eq!(fake.state().outbox.resumed, [None, Some(11)]);
    fake.stop().await;
}

#[tokio::test]
async fn what_cannot_be_watched_is_told_and_the_rest_goes_on() {
    let fake = fake(&[11]);
    fake.state().outbox.refuse = Some(Fault::new(Reason::SessionNotFound, "no such session"));
    let mut watch = fake.client().watch(LONG);
    watch.subscribe(Topic::Workspace, None);
    let topic = Topic::Session {
        id: "s".to_owned(),
        tree: false,
    };
    watch.subscribe(topic, None);
    let (mut refused, mut progress) = (false, false);
    while !(refused && progress) {
        match soon("the next event", watch.next()).await.unwrap() {
            WatchEvent::Refused { session, fault } => {
                assert_eq!(session, "s");
                assert_eq!(fault.reason(), Reason::SessionNotFound);
                refused = true;
            }
            WatchEvent::Progress { .. } => progress = true,
            _ => {}
        }
    }
    fake.stop().await;
}

#[tokio::test]
async fn nothing_to_watch_is_said() {
    let fake = Fake::start();
    let fault = fake.client().watch(LONG).next().await.unwrap_err();
    assert_eq!(fault.reason(), Reason::Invalid);
    fake.stop().await;
}
