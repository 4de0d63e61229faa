use std::time::Duration;

use muster_domain::Reason;
use muster_proto::agent::{
    self as pb, FollowRequest, FollowResponse, Framing, follow_request::Start,
    follow_request::Target, follow_response::Event,
};
use tonic::Streaming;

use super::*;

/// A tail as its reader sees it.
pub(super) struct Tail(Streaming<FollowResponse>);

impl Tail {
    pub(super) async fn open(clients: &Clients, request: FollowRequest) -> Self {
        Self(clients.tails().follow(request).await.unwrap().into_inner())
    }

    /// The next event but `progress`.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.0.message());
            let event = next.await.expect("no event").unwrap()?.event.unwrap();
            if !matches!(event, Event::Progress(_)) {
                return Some(event);
            }
        }
    }

    /// Reads until `bytes` bytes of data came, checks that they follow each other.
    pub(super) async fn read(&mut self, bytes: usize) -> (Vec<u8>, pb::Cursor) {
        let mut text = Vec::new();
        let mut cursor = pb::Cursor::default();
        let mut offset = None;
        while text.len() < bytes {
            match self.next().await.expect("the tail ended") {
                Event::Data(data) => {
                    assert!(offset.is_none_or(|offset| offset == data.offset));
                    offset = Some(data.offset + data.bytes.len() as u64);
                    assert!(data.bytes.len() <= 256 * 1024);
                    text.extend_from_slice(&data.bytes);
                    cursor = data.next.unwrap();
                }
                Event::Opened(_) => {}
                other => panic!("{other:?}"),
            }
        }
        (text, cursor)
    }
}

pub(super) fn of_path(path: &Path) -> FollowRequest {
    FollowRequest {
        target: Some(Target::Path(path.to_str().unwrap().to_owned())),
        framing: Framing::Lines.into(),
        start: Some(Start::Beginning(true)),
        ..FollowRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_growing_file_is_followed_and_resumed() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("log");
    append(&path, b"one\ntwo\n");
    let mut tail = Tail::open(&clients, of_path(&path)).await;
    assert!(matches!(tail.next().await, Some(Event::Opened(_))));
    assert_eq!(tail.read(8).await.0, b"one\ntwo\n");
    append(&path, b"thr");
    append(&path, b"ee\n");
    let (text, cursor) = tail.read(6).await;
    assert_eq!(text, b"three\n");
    drop(tail);
    append(&path, b"four\n");
    let request = FollowRequest {
        start: Some(Start::Cursor(cursor)),
        ..of_path(&path)
    };
    let mut tail = Tail::open(&clients, request.clone()).await;
    assert_eq!(tail.read(5).await.0, b"four\n");
    std::fs::write(&path, "other\n").unwrap();
    assert!(matches!(tail.next().await, Some(Event::Truncated(_))));
    assert_eq!(tail.read(6).await.0, b"other\n");
    let mut tail = Tail::open(&clients, request).await;
    assert!(matches!(tail.next().await, Some(Event::Opened(_))));
    match tail.next().await {
        Some(Event::Gap(gap)) => assert_eq!(gap.reason(), pb::GapReason::Shorter),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_removal_and_creation_are_told() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("log");
    assert_eq!(
        reason(clients.tails().follow(of_path(&path)).await),
        Reason::NotFound
    );
    let request = FollowRequest {
        await_creation: true,
        ..of_path(&path)
    };
    let mut tail = Tail::open(&clients, request).await;
    append(&path, b"a\n");
    assert_eq!(tail.read(2).await.0, b"a\n");
    std::fs::rename(&path, agent.user().join("log.1")).unwrap();
    append(&agent.user().join("log.1"), b"late\n");
    append(&path, b"b\n");
    assert_eq!(tail.read(5).await.0, b"late\n");
    assert!(matches!(tail.next().await, Some(Event::Replaced(_))));
    assert_eq!(tail.read(2).await.0, b"b\n");
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(tail.next().await, Some(Event::Removed(_))));
    append(&path, b"c\n");
    assert_eq!(tail.read(2).await.0, b"c\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_64_mib_is_a_reference() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("log");
    let mut text = vec![b'x'; 64 * 1024 * 1024];
    text.push(b'\n');
    text.extend_from_slice(b"next\n");
    std::fs::write(&path, &text).unwrap();
    let mut tail = Tail::open(&clients, of_path(&path)).await;
    assert!(matches!(tail.next().await, Some(Event::Opened(_))));
    match tail.next().await {
        Some(Event::LongLine(line)) => {
            assert_eq!((line.offset, line.length), (0, 64 * 1024 * 1024 + 1));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(tail.read(5).await.0, b"next\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_below_the_limit_comes_in_pieces() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("log");
    let mut text = vec![b'x'; 1024 * 1024 - 1];
    text.push(b'\n');
    std::fs::write(&path, &text).unwrap();
    let mut tail = Tail::open(&clients, of_path(&path)).await;
    let (read, cursor) = tail.read(text.len()).await;
    assert_eq!(read, text);
    assert_eq!(cursor.offset, text.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn h20_unread_tails_do_not_stop_other_calls() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("log");
    let line = format!("{}\n", "x".repeat(999));
    std::fs::write(&path, line.repeat(4000)).unwrap();
    let mut tails = Vec::new();
    for _ in 0..120 {
        tails.push(Tail::open(&clients, of_path(&path)).await);
    }
    for _ in 0..50 {
        let hello = tokio::time::timeout(PATIENCE, clients.hello());
        hello.await.expect("a call hangs").unwrap();
    }
    let mut last = tails.pop().unwrap();
    assert_eq!(last.read(4_000_000).await.0.len(), 4_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_256_streams_are_refused_and_idle_ones_end() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("log");
    append(&path, b"a\n");
    let mut tails = Vec::new();
    for _ in 0..256 {
        tails.push(Tail::open(&clients, of_path(&path)).await);
    }
    let refused = clients.tails().follow(of_path(&path)).await;
    assert_eq!(reason(refused), Reason::StreamLimit);
    for tail in &mut tails {
        tail.read(2).await;
    }
    append(&path, b"b\n");
    for tail in &mut tails {
        assert_eq!(tail.read(2).await.0, b"b\n");
    }
    drop(tails);
    // The places of tails on an idle file come back although nothing happens to the file.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while clients.tails().follow(of_path(&path)).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused_by_name() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("log");
    append(&path, b"a\n");
    let follow = |request| async { reason(clients.tails().follow(request).await) };
    let cursor = pb::Cursor {
        offset: 2,
        ..pb::Cursor::default()
    };
    let bad = FollowRequest {
        start: Some(Start::Cursor(cursor)),
        ..of_path(&path)
    };
    assert_eq!(follow(bad).await, Reason::BadCursor);
    let run = |session: &str| FollowRequest {
        target: Some(Target::Run(pb::RunTarget {
            run: Some(pb::RunRef {
                session_id: session.to_owned(),
                run: 1,
            }),
            file: pb::RunFile::Stdout.into(),
        })),
        ..of_path(&path)
    };
    let unknown = uuid::Uuid::new_v4().to_string();
    assert_eq!(follow(run(&unknown)).await, Reason::RunNotFound);
    for no_id in ["../../etc", "", "x", &unknown.to_uppercase()] {
        let refused = follow(run(no_id)).await;
        assert!(
            matches!(refused, Reason::InvalidId | Reason::MissingField),
            "{no_id}: {refused:?}"
        );
    }
    assert_eq!(
        follow(of_path(Path::new("/etc/passwd"))).await,
        Reason::OutsideRoots
    );
    assert_eq!(follow(of_path(&agent.user())).await, Reason::NotAFile);
    let no_framing = FollowRequest {
        framing: 0,
        ..of_path(&path)
    };
    assert_eq!(follow(no_framing).await, Reason::MissingField);
}
