//! Uncertain sends (F20).

use std::time::Duration;

use muster_client::{Fault, Reason, SendMessage, StartSession, Unsettled, new_key};

use crate::{
    LONG,
    fake::{Fake, Step},
    soon,
};

const SHORT: Duration = Duration::from_millis(200);

fn message(key: &str) -> SendMessage {
    SendMessage {
        session: "s".to_owned(),
        client_key: key.to_owned(),
        text: "hello".to_owned(),
        ..SendMessage::default()
    }
}

/// Every plan of `length` steps.
fn plans(length: usize) -> Vec<Vec<Step>> {
    let steps = [
        Step::RefuseDial,
        Step::CutBefore,
        Step::CutAfter,
        Step::Pass,
        Step::Refuse(Fault::new(Reason::NotReady, "starting")),
    ];
    let mut plans = vec![Vec::new()];
    for _ in 0..length {
        plans = plans
            .iter()
            .flat_map(|plan| {
                steps.iter().map(|step| {
                    let mut plan = plan.clone();
                    plan.push(step.clone());
                    plan
                })
            })
            .collect();
    }
    plans
}

#[tokio::test]
async fn f20_one_message_is_stored_whatever_is_cut() {
    let fake = Fake::start();
    for plan in plans(3) {
        let client = fake.client();
        fake.plan(&plan);
        let key = new_key();
        let sent = client.send_message(message(&key), LONG);
        let sent = soon("the answer", sent).await.unwrap();
        let state = fake.state();
        let stored: Vec<_> = state
            .messages
            .iter()
            .filter(|m| m.client_key == key)
            .collect();
        assert_eq!(stored.len(), 1, "{plan:?}");
        assert_eq!(stored[0].id, sent.id, "{plan:?}");
    }
    fake.stop().await;
}

#[tokio::test]
async fn f20_one_session_is_started_whatever_is_cut() {
    let fake = Fake::start();
    for plan in plans(2) {
        let client = fake.client();
        fake.plan(&plan);
        let start = StartSession {
            client_key: new_key(),
            ..StartSession::default()
        };
        let key = start.client_key.clone();
        soon("the answer", client.start_session(start, LONG))
            .await
            .unwrap();
        let starts = fake.state().starts.clone();
        let times = starts.iter().filter(|start| **start == key).count();
        assert_eq!(times, 1, "{plan:?}");
    }
    fake.stop().await;
}

#[tokio::test]
async fn f20_what_never_reached_a_coordinator_was_not_accepted() {
    let fake = Fake::start();
    fake.plan(&vec![Step::RefuseDial; 100_000]);
    let client = fake.client();
    let sent = client.send_message(message("k"), SHORT);
    match soon("the end of patience", sent).await.unwrap_err() {
        Unsettled::NotAccepted(fault) => {
            assert_eq!(fault.reason(), Reason::CoordinatorUnreachable);
        }
        other => panic!("{other:?}"),
    }
    fake.stop().await;
}

#[tokio::test]
async fn f20_what_was_sent_and_not_answered_is_unknown_with_its_id() {
    let fake = Fake::start();
    fake.plan(&vec![Step::CutAfter; 100_000]);
    let client = fake.client();
    let sent = client.send_message(message("k"), SHORT);
    let unsettled = soon("the end of patience", sent).await.unwrap_err();
    assert!(matches!(&unsettled, Unsettled::Unknown { id, .. } if id == "k"));
    let fault = Fault::from(unsettled);
    assert_eq!(fault.reason(), Reason::CoordinatorUnreachable);
    assert_eq!(fault.metadata()["outcome"], "unknown");
    assert_eq!(fault.metadata()["id"], "k");
    assert_eq!(fake.state().messages.len(), 1);
    fake.stop().await;
}

#[tokio::test]
async fn a_coordinator_that_hangs_leaves_it_unknown() {
    let fake = Fake::start();
    let client = fake.client();
    client.reach().await.unwrap();
    fake.faults().black_hole(true);
    let sent = client.send_message(message("k"), SHORT);
    let unsettled = soon("the end of patience", sent).await.unwrap_err();
    assert!(
        matches!(unsettled, Unsettled::Unknown { .. }),
        "{unsettled:?}"
    );
    fake.faults().black_hole(false);
    fake.stop().await;
}

#[tokio::test]
async fn a_refusal_is_final() {
    let fake = Fake::start();
    fake.plan(&[Step::Refuse(
        Fault::new(Reason::RunEnded, "it has ended").with_hint("resume it"),
    )]);
    let client = fake.client();
    let sent = client.send_message(message("k"), LONG);
    let refused = soon("the refusal", sent).await.unwrap_err();
    let Unsettled::Refused(fault) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(fault.reason(), Reason::RunEnded);
    assert_eq!(fault.hint(), Some("resume it"));
    assert!(fake.state().messages.is_empty());
    fake.stop().await;
}
