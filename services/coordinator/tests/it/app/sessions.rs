//! Starts, ends, control, raw output.

use muster_domain::{Fault, Reason};
use muster_proto::public::{
    self as pb, SessionStatus as Status, tail_request::Start, tail_response::Event,
};
use tokio_stream::StreamExt as _;

use crate::world::{World, eventually, fault, id, start, within};

#[tokio::test(flavor = "multi_thread")]
async fn s7_a_session_starts_prints_and_ends() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let shown = coordinator.session(session).await;
    assert_eq!(shown.status(), Status::Running);
    assert_eq!((shown.pid, shown.keeper_pid, shown.run), (1_000, 999, 1));
    assert_eq!(
        (shown.host.as_str(), shown.title.as_str()),
        ("local", "program")
    );
    let run = world
        .agent
        .with_run(session, |run| (run.argv.clone(), run.env.clone()));
    let (argv, env) = run.unwrap();
    assert_eq!(argv, ["program", "argument"]);
    assert_eq!(env["MUSTER_ADDR"], "in-process");

    world.agent.print(session, b"one\ntwo\n");
    world.agent.exit(session, 3);
    let ended = coordinator.until(session, Status::Failed).await;
    assert_eq!(ended.exit_code, Some(3));
    assert_eq!(coordinator.output(session).await, "one\ntwo\n");
    let request = pb::GetTaskRequest { id: ended.task_id };
    let task = coordinator
        .tasks()
        .get_task(request)
        .await
        .unwrap()
        .into_inner()
        .task
        .unwrap();
    assert_eq!(task.phase(), pb::TaskPhase::AwaitHumanAction);
    assert!(task.needs_attention);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_what_is_missing_is_named() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let refused = async |request: pb::StartSessionRequest| {
        let status = coordinator
            .sessions()
            .start_session(request)
            .await
            .unwrap_err();
        fault(&status)
    };
    let no_cwd = pb::StartSessionRequest {
        cwd: String::new(),
        ..start("k")
    };
    let said = refused(no_cwd).await;
    assert_eq!(said.reason(), Reason::CwdRequired);
    assert!(said.hint().unwrap().contains("--cwd"));
    let relative = pb::StartSessionRequest {
        cwd: "work".to_owned(),
        ..start("k")
    };
    assert_eq!(refused(relative).await.reason(), Reason::InvalidPath);
    let no_host = pb::StartSessionRequest {
        host: "mars".to_owned(),
        ..start("k")
    };
    assert_eq!(refused(no_host).await.reason(), Reason::HostNotFound);
    let no_program = pb::StartSessionRequest {
        argv: Vec::new(),
        ..start("k")
    };
    assert_eq!(refused(no_program).await.reason(), Reason::MissingField);
    let no_key = start("");
    assert_eq!(refused(no_key).await.reason(), Reason::MissingField);
    let ours = pb::StartSessionRequest {
        env: [("MUSTER_RUN".to_owned(), "1".to_owned())].into(),
        ..start("k")
    };
    assert_eq!(refused(ours).await.reason(), Reason::Invalid);
    let other = pb::StartSessionRequest {
        adapter: "claude".to_owned(),
        ..start("k")
    };
    assert_eq!(refused(other).await.reason(), Reason::Unsupported);
    let readonly = pb::StartSessionRequest {
        access: pb::AccessLevel::Readonly.into(),
        ..start("k")
    };
    assert_eq!(refused(readonly).await.reason(), Reason::Unsupported);
    let no_task = pb::StartSessionRequest {
        task_id: "0123".to_owned(),
        ..start("k")
    };
    assert_eq!(refused(no_task).await.reason(), Reason::TaskNotFound);
    assert_eq!(world.agent.spawned(), 0);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_the_same_client_key_starts_once() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let first = coordinator.start("k").await;
    let again = coordinator
        .sessions()
        .start_session(start("k"))
        .await
        .unwrap()
        .into_inner();
    assert!(again.replayed);
    assert_eq!(id(&again.session.unwrap()), first);
    let other = pb::StartSessionRequest {
        argv: vec!["other".to_owned()],
        ..start("k")
    };
    let status = coordinator
        .sessions()
        .start_session(other)
        .await
        .unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::KeyReused);

    let (mut one, mut two) = (coordinator.sessions(), coordinator.sessions());
    let both = tokio::join!(one.start_session(start("j")), two.start_session(start("j")));
    let both = [both.0, both.1].map(|answer| answer.unwrap().into_inner().session.unwrap().id);
    assert_eq!(both[0], both[1]);
    assert_eq!(world.agent.spawned(), 2);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_a_slot_has_one_occupant_until_it_ends() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let created = coordinator
        .tasks()
        .create_task(pb::CreateTaskRequest {
            client_key: "t".to_owned(),
            title: "work".to_owned(),
            ..pb::CreateTaskRequest::default()
        })
        .await
        .unwrap();
    let task_id = created.into_inner().task.unwrap().id;
    let in_slot = |key: &str| pb::StartSessionRequest {
        task_id: task_id[..13].to_owned(),
        slot: "exec".to_owned(),
        ..start(key)
    };
    let first = coordinator
        .sessions()
        .start_session(in_slot("a"))
        .await
        .unwrap();
    let first = id(&first.into_inner().session.unwrap());
    let status = coordinator
        .sessions()
        .start_session(in_slot("b"))
        .await
        .unwrap_err();
    let said = fault(&status);
    assert_eq!(said.reason(), Reason::SlotOccupied);
    assert_eq!(said.metadata()["occupant"], first.to_string());
    world.agent.exit(first, 0);
    coordinator.until(first, Status::Exited).await;
    coordinator
        .sessions()
        .start_session(in_slot("b"))
        .await
        .unwrap();
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_refused_start_leaves_a_session_that_says_why() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let refusal = Fault::new(Reason::ProgramNotFound, "`program` is not in the PATH");
    world.agent.refuse_spawn(Some(refusal));
    let session = coordinator.start("k").await;
    let shown = coordinator.until(session, Status::Failed).await;
    assert_eq!(shown.failure_reason, "PROGRAM_NOT_FOUND");
    assert!(shown.failure_text.contains("PATH"));

    world.agent.refuse_spawn(None);
    let resume = pb::ResumeSessionRequest {
        id: session.to_string(),
        client_key: "r".to_owned(),
    };
    coordinator.sessions().resume_session(resume).await.unwrap();
    let shown = coordinator.until(session, Status::Running).await;
    assert_eq!(shown.run, 2);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s39_a_stop_ends_and_a_second_one_says_so() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let stop = || pb::StopSessionRequest {
        id: session.to_string(),
        survivors: false,
    };
    coordinator.sessions().stop_session(stop()).await.unwrap();
    coordinator.until(session, Status::Stopped).await;
    let again = coordinator
        .sessions()
        .stop_session(stop())
        .await
        .unwrap()
        .into_inner();
    assert!(again.already_ended);
    let interrupt = pb::InterruptSessionRequest {
        id: session.to_string(),
    };
    let answer = coordinator
        .sessions()
        .interrupt_session(interrupt)
        .await
        .unwrap();
    assert!(answer.into_inner().already_ended);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_explain_names_facts_and_rules() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let request = pb::ExplainSessionRequest {
        id: session.to_string(),
    };
    let said = coordinator
        .sessions()
        .explain_session(request)
        .await
        .unwrap()
        .into_inner();
    let process = said
        .facts
        .iter()
        .find(|fact| fact.name == "process")
        .unwrap();
    assert_eq!(
        (process.value.as_str(), process.source.as_str()),
        ("alive", "process")
    );
    assert!(process.observed_at.is_some() && !process.rule.is_empty());
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_by_prefix_and_listed_newest_first() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        ids.push(coordinator.start(key).await.to_string());
    }
    let get = async |id: &str| {
        let request = pb::GetSessionRequest { id: id.to_owned() };
        coordinator.sessions().get_session(request).await
    };
    assert_eq!(
        get(&ids[1]).await.unwrap().into_inner().session.unwrap().id,
        ids[1]
    );
    assert_eq!(
        fault(&get("0").await.unwrap_err()).reason(),
        Reason::AmbiguousId
    );
    for (text, reason) in [
        ("", Reason::MissingField),
        ("..", Reason::InvalidId),
        ("ffff", Reason::SessionNotFound),
        (
            "ffffffff-ffff-7fff-8fff-ffffffffffff",
            Reason::SessionNotFound,
        ),
    ] {
        assert_eq!(
            fault(&get(text).await.unwrap_err()).reason(),
            reason,
            "{text:?}"
        );
    }
    let mut listed = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListSessionsRequest {
            page_size: 2,
            page_token,
            ..pb::ListSessionsRequest::default()
        };
        let page = coordinator
            .sessions()
            .list_sessions(request)
            .await
            .unwrap()
            .into_inner();
        listed.extend(page.sessions.into_iter().map(|session| session.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    ids.reverse();
    assert_eq!(listed, ids);
    let bad = pb::ListSessionsRequest {
        page_token: "nonsense".to_owned(),
        ..pb::ListSessionsRequest::default()
    };
    let status = coordinator.sessions().list_sessions(bad).await.unwrap_err();
    assert_eq!(fault(&status).reason(), Reason::BadPageToken);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_output_goes_by_offset_over_a_cut_link_to_the_real_end() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let whole: String = (0..2_000).map(|line| format!("line {line}\n")).collect();
    let (first, second) = whole.split_at(9_000);
    world.agent.print(session, first.as_bytes());
    let request = pb::TailRequest {
        session_id: session.to_string(),
        file: pb::TailFile::Stdout.into(),
        start: Some(Start::Offset(5)),
        follow: true,
        ..pb::TailRequest::default()
    };
    let mut events = coordinator
        .sessions()
        .tail(request)
        .await
        .unwrap()
        .into_inner();
    let (mut got, mut cut) = (Vec::new(), false);
    let end = within("the tail ends", async {
        loop {
            match events.next().await.unwrap().unwrap().event.unwrap() {
                Event::Data(data) => {
                    assert_eq!(data.offset, 5 + got.len() as u64);
                    got.extend_from_slice(&data.bytes);
                    if !cut && got.len() > 4_000 {
                        cut = true;
                        world.agent.faults().cut();
                        world.agent.print(session, second.as_bytes());
                        world.agent.exit(session, 0);
                    }
                }
                Event::End(end) => return end.offset,
                Event::Gap(gap) => panic!("{gap:?}"),
                Event::Progress(_) => {}
            }
        }
    })
    .await;
    assert!(events.next().await.is_none());
    assert_eq!(end, whole.len() as u64);
    assert_eq!(String::from_utf8(got).unwrap(), whole[5..]);

    let refused = async |run: u32, offset: u64| {
        let request = pb::TailRequest {
            session_id: session.to_string(),
            run,
            file: pb::TailFile::Stdout.into(),
            start: Some(Start::Offset(offset)),
            ..pb::TailRequest::default()
        };
        fault(&coordinator.sessions().tail(request).await.unwrap_err()).reason()
    };
    assert_eq!(refused(2, 0).await, Reason::RunNotFound);
    assert_eq!(refused(1, 1_000_000).await, Reason::BadCursor);
    coordinator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s31_unreachable_is_not_dead() {
    let mut world = World::new();
    let coordinator = world.coordinator().await;
    let session = coordinator.start("k").await;
    let faults = world.agent.faults();
    faults.refuse(Some(muster_transport::DialFault::Refused));
    faults.cut();
    let shown = coordinator.until(session, Status::Unreachable).await;
    assert_eq!(shown.task_phase(), pb::TaskPhase::InProgress);
    assert_eq!(shown.process(), pb::ProcessState::Unknown);
    eventually("the cause is shown", async || {
        coordinator.host().await.cause == "refused"
    })
    .await;
    world.agent.print(session, b"meanwhile\n");
    faults.refuse(None);
    coordinator.until(session, Status::Running).await;
    eventually("its output is read on", async || {
        coordinator.output(session).await == "meanwhile\n"
    })
    .await;
    assert_eq!(world.agent.spawned(), 1);
    coordinator.end().await;
}
