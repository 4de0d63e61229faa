//! Tails over cuts: every byte once, and only the real end is an end.

use std::time::Duration;

use futures_util::StreamExt as _;
use muster_client::{Fault, Reason, TailEvent, TailFile, TailFrom, TailRequest, api::Session};
use muster_proto::public::tail_request::Start;

use crate::{LONG, fake::Fake, soon};

fn fake(bytes: usize) -> Fake {
    let fake = Fake::start();
    let mut state = fake.state();
    state.sessions.push(Session {
        id: "session".to_owned(),
        run: 3,
        ..Session::default()
    });
    state.output.content = (0..=u8::MAX).cycle().take(bytes).collect();
    drop(state);
    fake
}

fn request(from: TailFrom) -> TailRequest {
    TailRequest {
        session: "sess".to_owned(),
        run: None,
        file: TailFile::Stdout,
        from,
        follow: true,
        late_bytes: false,
        patience: LONG,
    }
}

/// What was read, with the number of cuts and how it ended.
async fn read(fake: &Fake, request: TailRequest) -> (Vec<u8>, u32, Result<u64, Fault>) {
    let mut tail = fake.client().tail(request).boxed();
    let (mut bytes, mut cuts) = (Vec::new(), 0);
    let end = loop {
        match soon("the next event", tail.next()).await {
            Some(Ok(TailEvent::Data {
                bytes: piece, run, ..
            })) => {
                assert_eq!(run, 3);
                bytes.extend_from_slice(&piece);
            }
            Some(Ok(TailEvent::Reconnecting { .. })) => cuts += 1,
            Some(Ok(TailEvent::End { offset, .. })) => break Ok(offset),
            Some(Ok(TailEvent::Progress { .. } | TailEvent::Gap { .. })) => {}
            Some(Err(fault)) => break Err(fault),
            None => panic!("it ended without an end"),
        }
    };
    assert!(tail.next().await.is_none());
    (bytes, cuts, end)
}

#[tokio::test]
async fn every_byte_once_wherever_it_is_cut() {
    for hang_up in [false, true] {
        let fake = fake(100);
        for cut in 0..18 {
            for second in [0, 1, 5] {
                {
                    let mut state = fake.state();
                    state.output.cuts = [cut, second].into();
                    state.output.hang_up = hang_up;
                }
                let (bytes, cuts, end) = read(&fake, request(TailFrom::Beginning)).await;
                assert_eq!(bytes, fake.state().output.content, "{cut} {second}");
                assert_eq!(end, Ok(100));
                assert!(cut > 16 || cuts > 0, "{cut} {second}");
            }
        }
        fake.stop().await;
    }
}

#[tokio::test]
async fn the_end_of_now_is_pinned_before_a_cut_could_move_it() {
    let fake = fake(50);
    // The opening that asks for the end works; the one that follows is cut at once.
    fake.state().output.cuts = [99, 0].into();
    let (bytes, _, end) = read(&fake, request(TailFrom::LastBytes(20))).await;
    assert_eq!(bytes, fake.state().output.content[30..]);
    assert_eq!(end, Ok(50));
    let starts = fake.state().output.starts.clone();
    assert_eq!(
        starts,
        [Start::End(true), Start::Offset(30), Start::Offset(30)]
    );
    let (bytes, _, end) = read(&fake, request(TailFrom::End)).await;
    assert_eq!((bytes.len(), end), (0, Ok(50)));
    fake.stop().await;
}

#[tokio::test]
async fn bytes_that_do_not_follow_are_refused() {
    let fake = fake(50);
    fake.state().output.skip = 3;
    let (bytes, _, end) = read(&fake, request(TailFrom::Beginning)).await;
    assert_eq!(bytes, fake.state().output.content[..7]);
    assert_eq!(end.unwrap_err().reason(), Reason::Internal);
    fake.stop().await;
}

#[tokio::test]
async fn an_end_before_the_last_byte_is_no_end() {
    let fake = fake(50);
    fake.state().output.false_end = Some(60);
    let (bytes, _, end) = read(&fake, request(TailFrom::Beginning)).await;
    assert_eq!(bytes.len(), 50);
    assert_eq!(end.unwrap_err().reason(), Reason::Internal);
    fake.stop().await;
}

#[tokio::test]
async fn patience_ends_with_the_cause() {
    let fake = fake(50);
    fake.state().output.refuse = Some(Fault::new(Reason::HostUnreachable, "no link"));
    let short = TailRequest {
        patience: Duration::from_millis(50),
        ..request(TailFrom::Beginning)
    };
    let (_, cuts, end) = read(&fake, short).await;
    assert_eq!(end.unwrap_err().reason(), Reason::HostUnreachable);
    assert!(cuts > 0);
    fake.state().output.refuse = Some(Fault::new(Reason::RunNotFound, "no such run"));
    let (_, cuts, end) = read(&fake, request(TailFrom::Beginning)).await;
    assert_eq!(end.unwrap_err().reason(), Reason::RunNotFound);
    assert_eq!(cuts, 0);
    fake.stop().await;
}
