//! The edge: limits, health, what is not a call of ours.

use muster_domain::{Reason, limits};
use muster_proto::public as pb;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::world::{World, eventually, fault};

#[tokio::test(flavor = "multi_thread")]
async fn h20_streams_of_one_connection_have_a_limit_that_answers() {
    let mut world = World::new();
    let coordinator = world.coordinator_unreached().await;
    let mut open = Vec::new();
    for _ in 0..limits::ADMITTED_STREAMS {
        let (commands, queue) = tokio::sync::mpsc::channel(1);
        let opened = coordinator
            .feed()
            .subscribe(ReceiverStream::new(queue))
            .await;
        open.push((commands, opened.unwrap()));
    }
    let refused = coordinator.feed().subscribe(tokio_stream::pending()).await;
    let said = fault(&refused.unwrap_err());
    assert_eq!(said.reason(), Reason::StreamLimit);
    // Calls go on beside them, and a place that was given back is free again.
    coordinator.host().await;
    open.pop();
    eventually("a place is free", async || {
        let again = coordinator.feed().subscribe(tokio_stream::pending()).await;
        again.is_ok()
    })
    .await;
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h20_what_is_too_large_is_refused_and_the_connection_goes_on() {
    let mut world = World::new();
    let coordinator = world.coordinator_unreached().await;
    let request = pb::CreateTaskRequest {
        client_key: "k".to_owned(),
        title: "t".to_owned(),
        description: "x".repeat(2 * limits::GRPC_DECODE_BYTES),
        ..pb::CreateTaskRequest::default()
    };
    let status = coordinator.tasks().create_task(request).await.unwrap_err();
    // The library's own refusal, as a tool without our client sees it.
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(muster_proto::fault::is_answer(&status), "{status}");
    assert_eq!(fault(&status).reason(), Reason::TooLarge);
    let large = pb::CreateTaskRequest {
        client_key: "k".to_owned(),
        title: "t".to_owned(),
        description: "x".repeat(limits::TASK_TEXT_BYTES + 1),
        ..pb::CreateTaskRequest::default()
    };
    let status = coordinator.tasks().create_task(large).await.unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::TooLarge);
    coordinator.host().await;
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_version_does_not_offer_is_said_to_be_unsupported() {
    let mut world = World::new();
    let coordinator = world.coordinator_unreached().await;
    let upload = coordinator.messages().upload(tokio_stream::empty()).await;
    let status = upload.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(fault(&status).reason(), Reason::Unsupported);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_a_question_survives_a_link_that_breaks_under_it() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    for _ in 0..5 {
        world.agent.faults().cut();
        let request = pb::ListFilesRequest {
            host: "local".to_owned(),
            path: "/".to_owned(),
            ..pb::ListFilesRequest::default()
        };
        coordinator.files().list_files(request).await.unwrap();
    }
    coordinator.end().await;
}
