//! Tasks, hosts, files, interactions, the coordinator itself.

use muster_domain::Reason;
use muster_proto::public as pb;
use tokio_stream::StreamExt as _;

use crate::{
    agent::HOME,
    world::{Coordinator, World, eventually, fault},
};

async fn create(coordinator: &Coordinator, key: &str, title: &str) -> pb::CreateTaskResponse {
    let request = pb::CreateTaskRequest {
        client_key: key.to_owned(),
        title: title.to_owned(),
        ..pb::CreateTaskRequest::default()
    };
    coordinator
        .tasks()
        .create_task(request)
        .await
        .unwrap()
        .into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn t1_tasks_are_made_once_found_by_prefix_and_changed_by_mask() {
    let mut world = World::new();
    let coordinator = world.coordinator_unreached().await;
    let made = create(&coordinator, "k", "first").await;
    let again = create(&coordinator, "k", "first").await;
    assert!(again.replayed && !made.replayed);
    let task = made.task.unwrap();
    assert_eq!(again.task.unwrap().id, task.id);
    create(&coordinator, "other", "second").await;

    let update = |paths: &[&str], expected: Option<u64>, task: pb::Task| pb::UpdateTaskRequest {
        task: Some(task),
        update_mask: Some(prost_types::FieldMask {
            paths: paths.iter().map(ToString::to_string).collect(),
        }),
        expected_version: expected,
    };
    let changed = pb::Task {
        id: task.id.clone(),
        title: "renamed".to_owned(),
        description: "not in the mask".to_owned(),
        phase: pb::TaskPhase::Complete.into(),
        ..pb::Task::default()
    };
    let request = update(&["title", "phase"], Some(task.version), changed.clone());
    let next = coordinator
        .tasks()
        .update_task(request)
        .await
        .unwrap()
        .into_inner()
        .task
        .unwrap();
    assert_eq!(
        (next.title.as_str(), next.description.as_str()),
        ("renamed", "")
    );
    assert_eq!(
        (next.phase(), next.status.as_str()),
        (pb::TaskPhase::Complete, "done")
    );
    assert!(next.completed_at.is_some());

    let refused = async |request: pb::UpdateTaskRequest| {
        fault(&coordinator.tasks().update_task(request).await.unwrap_err()).reason()
    };
    let stale = update(&["description"], Some(task.version), changed.clone());
    assert_eq!(refused(stale).await, Reason::VersionMismatch);
    let unknown = update(&["colour"], None, changed.clone());
    assert_eq!(refused(unknown).await, Reason::UnknownField);
    let untitled = pb::Task {
        title: String::new(),
        ..changed.clone()
    };
    assert_eq!(
        refused(update(&["title"], None, untitled)).await,
        Reason::MissingField
    );
    let unphased = pb::Task {
        phase: 99,
        ..changed
    };
    assert_eq!(
        refused(update(&["phase"], None, unphased)).await,
        Reason::InvalidPhase
    );

    let get = |id: &str| pb::GetTaskRequest { id: id.to_owned() };
    let found = coordinator.tasks().get_task(get(&task.id[..35])).await;
    let several = coordinator
        .tasks()
        .get_task(get(&task.id[..2]))
        .await
        .unwrap_err();
    assert_eq!(fault(&several).reason(), Reason::AmbiguousId);
    assert!(fault(&several).metadata()["candidates"].contains(&task.id));
    assert!(found.is_ok());
    let list = pb::ListTasksRequest {
        phase: pb::TaskPhase::Complete.into(),
        ..pb::ListTasksRequest::default()
    };
    let done = coordinator
        .tasks()
        .list_tasks(list)
        .await
        .unwrap()
        .into_inner()
        .tasks;
    assert_eq!(
        done.into_iter().map(|task| task.id).collect::<Vec<_>>(),
        [task.id]
    );
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_and_files_are_shown_as_their_agent_says() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let host = coordinator.host().await;
    assert_eq!((host.agent_pid, host.sessions), (77, 1));
    assert_eq!(host.boot_id, "boot");
    let list = pb::ListHostsRequest {
        page_size: 1,
        ..pb::ListHostsRequest::default()
    };
    let page = coordinator
        .hosts()
        .list_hosts(list)
        .await
        .unwrap()
        .into_inner();
    assert_eq!((page.hosts.len(), page.next_page_token.as_str()), (1, ""));
    let unknown = pb::GetHostRequest {
        name: "mars".to_owned(),
    };
    let status = coordinator.hosts().get_host(unknown).await.unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::HostNotFound);

    world.agent.print(session, b"0123456789");
    let path = format!("{HOME}/sessions/{session}/runs/1/stream.jsonl");
    let read = pb::ReadFileRequest {
        host: "local".to_owned(),
        path: path.clone(),
        offset: 2,
        length: Some(5),
    };
    let mut chunks = coordinator
        .files()
        .read_file(read)
        .await
        .unwrap()
        .into_inner();
    let chunk = chunks.next().await.unwrap().unwrap();
    assert_eq!((chunk.offset, &chunk.data[..]), (2, &b"23456"[..]));
    assert!(chunks.next().await.is_none());
    let stat = |path: &str| pb::StatFileRequest {
        host: "local".to_owned(),
        path: path.to_owned(),
    };
    let found = coordinator
        .files()
        .stat_file(stat(&path))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(found.file.unwrap().size_bytes, 10);
    let status = coordinator
        .files()
        .stat_file(stat("/nowhere"))
        .await
        .unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::NotFound);
    let list = |page_token: &str| pb::ListFilesRequest {
        host: "local".to_owned(),
        path: "/".to_owned(),
        page_token: page_token.to_owned(),
        ..pb::ListFilesRequest::default()
    };
    let first = coordinator
        .files()
        .list_files(list(""))
        .await
        .unwrap()
        .into_inner();
    let second = coordinator
        .files()
        .list_files(list(&first.next_page_token))
        .await
        .unwrap();
    assert_eq!(first.files[0].name, "file 0");
    assert_eq!(second.into_inner().files[1].name, "file 3");
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_a_call_to_a_host_that_is_away_says_why() {
    let mut world = World::new();
    let faults = world.agent.faults();
    faults.refuse(Some(muster_transport::DialFault::Refused));
    let coordinator = world.coordinator_unreached().await;
    let request = pb::StatFileRequest {
        host: "local".to_owned(),
        path: "/".to_owned(),
    };
    let status = coordinator.files().stat_file(request).await.unwrap_err();
    let said = fault(&status);
    assert_eq!(said.reason(), Reason::HostUnreachable);
    assert_eq!(said.metadata()["cause"], "refused");
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_an_agent_that_obeys_a_later_coordinator_is_not_called_wedged() {
    let mut world = World::new();
    world.agent.obey(1_000);
    let coordinator = world.coordinator_unreached().await;
    eventually("the cause is the epoch", async || {
        coordinator.host().await.cause == "epoch_stale"
    })
    .await;
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_asks_yet_and_the_end_is_in_good_order() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let list = pb::ListInteractionsRequest::default();
    let none = coordinator
        .interactions()
        .list_interactions(list)
        .await
        .unwrap();
    assert!(none.into_inner().interactions.is_empty());
    let answer = pb::AnswerInteractionRequest {
        id: session.to_string(),
        client_key: "k".to_owned(),
        choice: "allow".to_owned(),
        ..pb::AnswerInteractionRequest::default()
    };
    let status = coordinator
        .interactions()
        .answer_interaction(answer)
        .await
        .unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::InteractionNotFound);

    let status = coordinator
        .system()
        .get_status(pb::GetStatusRequest {})
        .await
        .unwrap();
    assert_eq!(status.into_inner().workspace_id, "main");
    // A stream that is open does not keep it from ending.
    let open = coordinator
        .feed()
        .subscribe(tokio_stream::pending())
        .await
        .unwrap();
    let request = pb::ShutdownRequest {
        stop_sessions: true,
        stop_agent: true,
    };
    let stopped = coordinator
        .system()
        .shutdown(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(stopped.stopped_sessions, 1);
    assert_eq!(world.agent.calls("drain"), 1);
    let mut open = open.into_inner();
    let last = open.next().await.unwrap().unwrap_err();
    assert_eq!(fault(&last).reason(), Reason::ShuttingDown);
    coordinator.ended().await;
}
