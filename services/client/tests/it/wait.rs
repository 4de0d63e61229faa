//! Waiting for sessions and messages, over cuts.

use std::time::Duration;

use muster_client::{
    Fault, Reason, WaitFor, WaitMessage,
    api::{FeedEvent, Message, ProcessState, Session, SessionStatus, feed_event::Event},
};
use muster_proto::public::SessionChanged;

use crate::{
    LONG,
    fake::{Fake, Step},
    soon,
};

fn session(status: SessionStatus, process: ProcessState) -> Session {
    Session {
        id: "session".to_owned(),
        status: status.into(),
        process: process.into(),
        ..Session::default()
    }
}

fn fake() -> Fake {
    let fake = Fake::start();
    let running = session(SessionStatus::Running, ProcessState::Alive);
    {
        let mut state = fake.state();
        state.sessions.push(running.clone());
        state.outbox.snapshot.push(running);
        state.outbox.snapshot_at = 10;
    }
    fake
}

fn ends(fake: &Fake) {
    let ended = session(SessionStatus::Exited, ProcessState::Exited);
    fake.state().outbox.events.push(FeedEvent {
        revision: Some(11),
        session_id: String::new(),
        event: Some(Event::SessionChanged(SessionChanged {
            session: Some(ended),
        })),
    });
}

#[tokio::test]
async fn the_end_is_seen_wherever_it_is_cut() {
    for cut in 0..8 {
        let fake = fake();
        ends(&fake);
        fake.state().outbox.cuts = [cut].into();
        let client = fake.client();
        let waited = client.wait_session("sess", WaitFor::Exit, Some(LONG));
        let ended = soon("the end", waited).await.unwrap();
        assert_eq!(ended.status(), SessionStatus::Exited);
        fake.stop().await;
    }
}

#[tokio::test]
async fn a_session_that_goes_on_is_a_timeout() {
    let fake = fake();
    let short = Some(Duration::from_millis(50));
    let client = fake.client();
    let waited = client.wait_session("sess", WaitFor::Exit, short);
    let fault = soon("the timeout", waited).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::WaitTimeout);
    let unknown = client.wait_session("nobody", WaitFor::Exit, Some(LONG));
    let fault = soon("the refusal", unknown).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::SessionNotFound);
    fake.stop().await;
}

#[tokio::test]
async fn a_message_is_waited_for_over_cuts() {
    let fake = fake();
    fake.state().messages.push(Message {
        id: "m".to_owned(),
        ..Message::default()
    });
    fake.plan(&[
        Step::CutBefore,
        Step::RefuseDial,
        Step::Refuse(Fault::new(Reason::WaitTimeout, "not yet")),
        Step::CutAfter,
    ]);
    let client = fake.client();
    let waited = client.wait_message("m", WaitMessage::Written, LONG);
    assert_eq!(soon("the message", waited).await.unwrap().id, "m");
    fake.plan(&[Step::Refuse(Fault::unsupported("waiting for an echo"))]);
    let refused = client.wait_message("m", WaitMessage::Seen, LONG);
    let fault = soon("the refusal", refused).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::Unsupported);
    fake.stop().await;
}
