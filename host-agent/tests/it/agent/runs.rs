use muster_domain::Reason;
use muster_proto::agent::*;

use super::*;

pub(super) fn spawn_request(
    session: &str,
    run: u32,
    argv: &[&str],
    mode: StdinMode,
) -> SpawnRequest {
    SpawnRequest {
        mutation: mutation("spawn"),
        run: Some(RunRef {
            session_id: session.to_owned(),
            run,
        }),
        argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
        cwd: "~".into(),
        env: Vec::new(),
        stdin_mode: mode.into(),
    }
}

pub(super) fn id() -> String {
    uuid::Uuid::new_v4().to_string()
}

pub(super) async fn spawn(
    clients: &Clients,
    session: &str,
    argv: &[&str],
    mode: StdinMode,
) -> RunFacts {
    let request = spawn_request(session, 1, argv, mode);
    said(clients.processes().spawn(request).await)
        .unwrap()
        .facts
        .unwrap()
}

pub(super) fn run(session: &str) -> Option<RunRef> {
    Some(RunRef {
        session_id: session.to_owned(),
        run: 1,
    })
}

pub(super) async fn get(clients: &Clients, session: &str) -> RunFacts {
    let request = GetRunRequest {
        run: run(session),
        process: None,
    };
    said(clients.processes().get(request).await)
        .unwrap()
        .facts
        .unwrap()
}

pub(super) async fn until(clients: &Clients, session: &str, state: RunState) -> RunFacts {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let facts = get(clients, session).await;
        if facts.state() == state {
            return facts;
        }
        assert!(tokio::time::Instant::now() < deadline, "{facts:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn deliver(
    clients: &Clients,
    session: &str,
    id: &str,
    text: &str,
) -> DeliveryOutcome {
    let request = DeliverRequest {
        mutation: mutation(id),
        run: run(session),
        payload: text.to_owned().into(),
        wait: None,
        single_line: true,
    };
    said(clients.processes().deliver(request).await)
        .unwrap()
        .outcome
        .unwrap()
}

pub(super) fn tail_of(session: &str) -> FollowRequest {
    FollowRequest {
        target: Some(follow_request::Target::Run(RunTarget {
            run: run(session),
            file: RunFile::Stdout.into(),
        })),
        framing: Framing::Lines.into(),
        start: Some(follow_request::Start::Beginning(true)),
        ..FollowRequest::default()
    }
}

pub(super) const ECHO: &[&str] = &["sh", "-c", "while read line; do echo \"got $line\"; done"];

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_started_spoken_to_followed_and_ended() {
    let (agent, clients) = Agent::start().await;
    let session = id();
    let facts = spawn(&clients, &session, ECHO, StdinMode::Closable).await;
    assert!(
        matches!(facts.state(), RunState::Alive | RunState::Starting),
        "{facts:?}"
    );
    let again = spawn_request(&session, 1, ECHO, StdinMode::Closable);
    assert!(
        said(clients.processes().spawn(again).await)
            .unwrap()
            .replayed
    );
    let other = spawn_request(&session, 2, ECHO, StdinMode::Closable);
    assert_eq!(
        reason(clients.processes().spawn(other).await),
        Reason::SessionAlive
    );

    let mut tail = super::tails::Tail::open(&clients, tail_of(&session)).await;
    let first = deliver(&clients, &session, "d1", "one\n").await;
    assert_eq!(first.kind(), OutcomeKind::Delivered);
    assert_eq!(tail.read(8).await.0, b"got one\n");
    let repeated = deliver(&clients, &session, "d1", "one\n").await;
    assert!(repeated.already);
    let asked = GetDeliveryRequest {
        run: run(&session),
        delivery_id: "d1".into(),
    };
    let asked = said(clients.processes().get_delivery(asked).await)
        .unwrap()
        .outcome
        .unwrap();
    assert_eq!(asked.kind(), OutcomeKind::Delivered);

    let close = CloseStdinRequest {
        mutation: mutation("close"),
        run: run(&session),
    };
    said(clients.processes().close_stdin(close).await).unwrap();
    let facts = until(&clients, &session, RunState::Exited).await;
    assert_eq!(facts.exit.unwrap().code, Some(0));
    match tail.next().await {
        Some(follow_response::Event::End(end)) => assert_eq!(end.cursor.unwrap().offset, 8),
        other => panic!("{other:?}"),
    }
    let late = deliver(&clients, &session, "d2", "two\n").await;
    assert_eq!(late.kind(), OutcomeKind::Exited);
    let audit = std::fs::read_to_string(agent.home().join("audit.jsonl")).unwrap();
    for line in [
        r#""method":"Processes.Spawn""#,
        r#""result":"SESSION_ALIVE""#,
        r#""request_id":"d1""#,
        r#""bytes":4"#,
        &format!("{session}/1"),
    ] {
        assert!(audit.contains(line), "{line} in {audit}");
    }
    assert!(
        !audit.contains("got $line"),
        "H19: names, no content: {audit}"
    );
    let old = deliver(&clients, &session, "d1", "one\n").await;
    assert_eq!((old.kind(), old.already), (OutcomeKind::Delivered, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_killed_agent_finds_all_runs_again() {
    let (mut agent, clients) = Agent::start().await;
    let sessions: Vec<_> = (0..20).map(|_| id()).collect();
    for (at, session) in sessions.iter().enumerate() {
        let script = format!("echo start; read line; exit {}", at + 10);
        spawn(&clients, session, &["sh", "-c", &script], StdinMode::Held).await;
    }
    let pids: Vec<_> = {
        let mut pids = Vec::new();
        for session in &sessions {
            pids.push(
                until(&clients, session, RunState::Alive)
                    .await
                    .process
                    .unwrap()
                    .pid,
            );
        }
        pids
    };
    // Some end while nobody looks.
    agent.kill();
    for pid in &pids[..2] {
        let pid = rustix::process::Pid::from_raw(*pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
    let clients = agent.run().await;
    for session in &sessions[..2] {
        let facts = until(&clients, session, RunState::Exited).await;
        assert_eq!(facts.exit.unwrap().signal, Some(15));
    }
    let mut events = said(clients.processes().watch(WatchRunsRequest {}).await).unwrap();
    let mut snapshot = 0;
    loop {
        let event = events.message().await.unwrap().unwrap();
        match event.event.unwrap() {
            watch_runs_response::Event::Facts(_) => snapshot += 1,
            watch_runs_response::Event::SnapshotEnd(_) => break,
            _ => {}
        }
    }
    assert_eq!(snapshot, 20);
    for (at, session) in sessions.iter().enumerate().skip(2) {
        assert_eq!(get(&clients, session).await.process.unwrap().pid, pids[at]);
        let outcome = deliver(&clients, session, "go", "go\n").await;
        assert_eq!(outcome.kind(), OutcomeKind::Delivered);
        let facts = until(&clients, session, RunState::Exited).await;
        assert_eq!(
            facts.exit.unwrap().code,
            Some(i32::try_from(at).unwrap() + 10)
        );
    }
    let mut exits = 0;
    while exits < 18 {
        let event = tokio::time::timeout(PATIENCE, events.message())
            .await
            .unwrap();
        if let Some(watch_runs_response::Event::Facts(facts)) = event.unwrap().unwrap().event {
            exits += u32::from(facts.state() == RunState::Exited);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h10_a_drained_agent_ends_although_streams_are_open() {
    let (mut agent, clients) = Agent::start().await;
    let session = id();
    spawn(&clients, &session, ECHO, StdinMode::Held).await;
    let mut tail = said(clients.tails().follow(tail_of(&session)).await).unwrap();
    let mut runs = said(clients.processes().watch(WatchRunsRequest {}).await).unwrap();
    let request = DrainRequest {
        mutation: mutation("drain"),
    };
    said(clients.host().drain(request).await).unwrap();
    let ended = loop {
        match tokio::time::timeout(PATIENCE, tail.message())
            .await
            .unwrap()
        {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the tail ended without a word"),
            Err(status) => break muster_proto::fault::from_agent(&status),
        }
    };
    assert_eq!(ended.reason(), Reason::Moved);
    let mut moved = false;
    while let Some(event) = tokio::time::timeout(PATIENCE, runs.message())
        .await
        .unwrap()
        .unwrap()
    {
        moved |= matches!(event.event, Some(watch_runs_response::Event::Moved(_)));
    }
    assert!(moved);
    assert!(agent.wait().success());
    let clients = agent.run().await;
    assert_eq!(get(&clients, &session).await.state(), RunState::Alive);
    assert_eq!(
        deliver(&clients, &session, "d", "x\n").await.kind(),
        OutcomeKind::Delivered
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_deeper_than_a_socket_address_are_fine() {
    let prefix = "a-long-name-".repeat(15);
    let (agent, clients) = Agent::below(&prefix, &[]).await;
    assert!(agent.home().as_os_str().len() > 107);
    let session = id();
    spawn(&clients, &session, ECHO, StdinMode::Held).await;
    let mut tail = super::tails::Tail::open(&clients, tail_of(&session)).await;
    assert_eq!(
        deliver(&clients, &session, "d", "x\n").await.kind(),
        OutcomeKind::Delivered
    );
    assert_eq!(tail.read(6).await.0, b"got x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_run_is_shown_to_its_end_and_late_bytes_on_wish() {
    let (agent, clients) = Agent::start().await;
    let session = id();
    let script = "printf 'one\\nrest'";
    spawn(
        &clients,
        &session,
        &["sh", "-c", script],
        StdinMode::Closable,
    )
    .await;
    until(&clients, &session, RunState::Exited).await;
    let stream = agent
        .home()
        .join(format!("sessions/{session}/runs/1/stream.jsonl"));
    append(&stream, b" late\n");
    for no_follow in [true, false] {
        let request = FollowRequest {
            no_follow,
            ..tail_of(&session)
        };
        let mut tail = super::tails::Tail::open(&clients, request).await;
        assert_eq!(tail.read(8).await.0, b"one\nrest");
        match tail.next().await {
            Some(follow_response::Event::End(end)) => assert_eq!(end.late_bytes, 6),
            other => panic!("{other:?}"),
        }
    }
    let request = FollowRequest {
        late_bytes: true,
        ..tail_of(&session)
    };
    let mut tail = super::tails::Tail::open(&clients, request).await;
    assert_eq!(tail.read(14).await.0, b"one\nrest late\n");
    assert!(matches!(
        tail.next().await,
        Some(follow_response::Event::End(_))
    ));
}
