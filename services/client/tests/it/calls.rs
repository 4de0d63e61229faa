//! Plain calls.

use futures_util::{StreamExt as _, TryStreamExt as _};
use muster_client::{Client, Reason, pages};

use crate::{
    fake::{Fake, Step},
    soon,
};

#[tokio::test]
async fn a_read_goes_over_a_connection_that_died_in_the_meantime() {
    let fake = Fake::start();
    let client = fake.client();
    client.reach().await.unwrap();
    fake.plan(&[Step::CutBefore]);
    let found = soon("the answer", client.find_message("s", "k")).await;
    assert_eq!(found, Ok(None));
    fake.stop().await;
}

#[tokio::test]
async fn what_is_made_once_is_not_made_twice() {
    let fake = Fake::start();
    let client = fake.client();
    client.reach().await.unwrap();
    fake.plan(&[Step::CutBefore, Step::Pass]);
    let fault = soon("the error", client.cancel_message("m"))
        .await
        .unwrap_err();
    assert_eq!(fault.reason(), Reason::CoordinatorUnreachable);
    assert_eq!(fake.state().plan.len(), 1);
    fake.stop().await;
}

#[tokio::test]
async fn nobody_there_is_said_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("x".repeat(120)).join("coordinator.sock");
    let address = format!("unix:{}", long.display());
    let fault = Client::connect(&address).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::CoordinatorUnreachable);
    assert!(fault.message().contains("coordinator.sock"), "{fault}");
    assert!(fault.hint().unwrap().contains("muster up"));
    for wrong in ["", "unix:", "tcp:1.2.3.4:5", "host"] {
        let fault = Client::new(wrong).unwrap_err();
        assert_eq!(fault.reason(), Reason::Invalid, "{wrong}");
    }
}

#[tokio::test]
async fn all_pages_of_a_list_one_after_the_other() {
    let fake = Fake::start();
    let messages = (0..5).map(|at| muster_client::api::Message {
        id: at.to_string(),
        ..Default::default()
    });
    fake.state().messages = messages.collect();
    let client = fake.client();
    let rows = pages(|page| client.list_messages("s", page)).map_ok(|message| message.id);
    let ids: Vec<String> = soon("the list", rows.boxed().try_collect()).await.unwrap();
    assert_eq!(ids, ["0", "1", "2", "3", "4"]);
    fake.stop().await;
}

#[tokio::test]
async fn futures_and_streams_may_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let client = Client::new("/nowhere").unwrap();
    is_send(&client.get_session("s"));
    is_send(&client.send_message(Default::default(), crate::LONG));
    is_send(&client.wait_session("s", muster_client::WaitFor::Exit, None));
    is_send(&client.watch(crate::LONG).next());
    is_send(&client.read_file("h", "p", 0, None));
}
