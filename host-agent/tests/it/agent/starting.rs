use std::os::unix::fs::PermissionsExt as _;

use muster_proto::agent::*;

use super::{runs::*, *};

async fn try_spawn(clients: &Clients, request: SpawnRequest) -> Result<SpawnResponse, Fault> {
    said(clients.processes().spawn(request).await)
}

fn held(session: &str, argv: &[&str]) -> SpawnRequest {
    spawn_request(session, 1, argv, StdinMode::Held)
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_starts_are_typed_recorded_and_may_be_tried_again() {
    let (agent, clients) = Agent::start().await;
    let plain = agent.user().join("plain");
    append(&plain, b"no program\n");
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o600)).unwrap();
    let session = id();
    let nowhere = SpawnRequest {
        cwd: "~/nowhere".into(),
        ..held(&session, ECHO)
    };
    let cases = [
        (nowhere, Reason::CwdMissing),
        (
            held(&session, &["no-such-program-here"]),
            Reason::ProgramNotFound,
        ),
        (
            held(&session, &["/no/such/program"]),
            Reason::ProgramNotFound,
        ),
        (
            held(&session, &[plain.to_str().unwrap()]),
            Reason::NotExecutable,
        ),
    ];
    for (request, expected) in cases {
        let fault = try_spawn(&clients, request).await.unwrap_err();
        assert_eq!(fault.reason(), expected, "{fault}");
    }
    let facts = get(&clients, &session).await;
    assert_eq!(facts.state(), RunState::NeverStarted);
    assert_eq!(facts.start_failure_reason, "NOT_EXECUTABLE");
    let started = try_spawn(&clients, held(&session, ECHO)).await.unwrap();
    assert!(!started.replayed);
    let facts = until(&clients, &session, RunState::Alive).await;
    assert_eq!(facts.start_failure_reason, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_starts_make_nothing() {
    let (agent, clients) = Agent::start().await;
    let session = id();
    let good = || held(&session, ECHO);
    let var = |name: &str| EnvVar {
        name: name.into(),
        value: "x".into(),
    };
    let named = |session_id: &str, run| {
        Some(RunRef {
            session_id: session_id.into(),
            run,
        })
    };
    let cases: Vec<(&str, SpawnRequest, Reason)> = vec![
        (
            "no mutation",
            SpawnRequest {
                mutation: None,
                ..good()
            },
            Reason::MissingField,
        ),
        (
            "no argv",
            SpawnRequest {
                argv: vec![],
                ..good()
            },
            Reason::MissingField,
        ),
        (
            "no mode",
            SpawnRequest {
                stdin_mode: 0,
                ..good()
            },
            Reason::MissingField,
        ),
        (
            "run 0",
            SpawnRequest {
                run: named(&session, 0),
                ..good()
            },
            Reason::MissingField,
        ),
        (
            "dots",
            SpawnRequest {
                run: named("../../x", 1),
                ..good()
            },
            Reason::InvalidId,
        ),
        (
            "upper case",
            SpawnRequest {
                run: named(&session.to_uppercase(), 1),
                ..good()
            },
            Reason::InvalidId,
        ),
        (
            "ours",
            SpawnRequest {
                env: vec![var("MUSTER_RUN")],
                ..good()
            },
            Reason::Invalid,
        ),
        (
            "equals",
            SpawnRequest {
                env: vec![var("A=B")],
                ..good()
            },
            Reason::Invalid,
        ),
        (
            "relative",
            SpawnRequest {
                cwd: "x".into(),
                ..good()
            },
            Reason::InvalidPath,
        ),
    ];
    for (what, request, expected) in cases {
        let fault = try_spawn(&clients, request).await.unwrap_err();
        assert_eq!(fault.reason(), expected, "{what}: {fault}");
    }
    clients.hello_as(1, 1, 5).await.unwrap();
    let stale = try_spawn(&clients, good()).await.unwrap_err();
    assert_eq!(stale.reason(), Reason::EpochStale);
    assert_eq!(stale.metadata()["epoch"], "5");
    assert!(!agent.home().join("sessions").join(&session).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn h14_below_the_disk_floor_nothing_is_started() {
    let floor = u64::MAX.to_string();
    let (_agent, clients) = Agent::with(&["--disk-floor-bytes", &floor]).await;
    let fault = try_spawn(&clients, held(&id(), ECHO)).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::DiskFull);
    assert!(fault.metadata().contains_key("free_bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_start_at_once_starts_one_program() {
    let (agent, clients) = Agent::start().await;
    let session = id();
    let argv = ["sh", "-c", "echo started >>witness; read line"];
    let starts = (0..20).map(|_| try_spawn(&clients, held(&session, &argv)));
    let started = futures_util::future::join_all(starts).await;
    let fresh = started
        .into_iter()
        .filter(|start| !start.as_ref().unwrap().replayed);
    assert_eq!(fresh.count(), 1);
    assert_eq!(
        deliver(&clients, &session, "d", "x\n").await.kind(),
        OutcomeKind::Delivered
    );
    until(&clients, &session, RunState::Exited).await;
    let witness = std::fs::read_to_string(agent.user().join("witness")).unwrap();
    assert_eq!(witness, "started\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_programs_get_the_filtered_environment_and_their_markers() {
    let (agent, clients) = Agent::start().await;
    // A start-up file that talks and exports: the one must not disturb, the other must arrive.
    append(
        &agent.user().join(".profile"),
        b"echo noise\nexport CLAUDE_TEST=from-profile SECRET_OF_OTHERS=x\n",
    );
    let session = id();
    let mut request = spawn_request(&session, 1, &["env"], StdinMode::Closable);
    request.env = vec![EnvVar {
        name: "MUSTER_ADDR".into(),
        value: "unix:/there".into(),
    }];
    try_spawn(&clients, request).await.unwrap();
    until(&clients, &session, RunState::Exited).await;
    let stream = agent
        .home()
        .join(format!("sessions/{session}/runs/1/stream.jsonl"));
    let env = std::fs::read_to_string(stream).unwrap();
    for expected in [
        format!("MUSTER_SESSION_ID={session}"),
        "MUSTER_RUN=1".to_owned(),
        "MUSTER_ADDR=unix:/there".to_owned(),
        "CLAUDE_TEST=from-profile".to_owned(),
        format!("HOME={}", agent.user().display()),
    ] {
        assert!(
            env.lines().any(|line| line == expected),
            "{expected} in {env}"
        );
    }
    assert!(!env.contains("SECRET_OF_OTHERS"), "{env}");
    assert!(!env.contains("MUSTER_AGENT"), "{env}");
    let meta = agent
        .home()
        .join(format!("sessions/{session}/runs/1/meta.json"));
    let meta = std::fs::read_to_string(meta).unwrap();
    assert!(
        meta.contains("CLAUDE_TEST") && !meta.contains("from-profile"),
        "{meta}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_waits_for_a_run_that_comes_later() {
    let (_agent, clients) = Agent::start().await;
    let session = id();
    let request = FollowRequest {
        await_creation: true,
        ..tail_of(&session)
    };
    let mut tail = super::tails::Tail::open(&clients, request).await;
    spawn(&clients, &session, &["echo", "hello"], StdinMode::Closable).await;
    assert_eq!(tail.read(6).await.0, b"hello\n");
    assert!(matches!(
        tail.next().await,
        Some(follow_response::Event::End(_))
    ));
    assert_eq!(tail.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_of_every_size_arrive_once() {
    let (agent, clients) = Agent::start().await;
    let session = id();
    spawn(&clients, &session, &["cat"], StdinMode::Held).await;
    let mut tail = super::tails::Tail::open(&clients, tail_of(&session)).await;
    for (at, size) in [0, 1, 5_000, 70_000, 300_000, 1024 * 1024]
        .into_iter()
        .enumerate()
    {
        let text = format!("{}\n", "x".repeat(size));
        let id = format!("d{at}");
        loop {
            let outcome = deliver(&clients, &session, &id, &text).await;
            match outcome.kind() {
                OutcomeKind::Delivered => break,
                OutcomeKind::InFlight => {}
                other => panic!("{size}: {other:?}"),
            }
        }
        if size < 1024 * 1024 {
            assert_eq!(tail.read(text.len()).await.0, text.as_bytes());
        }
    }
    let run_folder = agent.home().join(format!("sessions/{session}/runs/1"));
    let spools = std::fs::read_dir(run_folder).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("spool")
    });
    assert_eq!(spools.count(), 0);
    for (payload, single_line, expected) in [
        ("no end", true, Reason::NotALine),
        ("two\nlines\n", true, Reason::NotALine),
        ("", false, Reason::NotALine),
        (
            &format!("{}\n", "x".repeat(1_200_000)),
            false,
            Reason::MessageTooLarge,
        ),
    ] {
        let request = DeliverRequest {
            mutation: mutation("bad"),
            run: run(&session),
            payload: payload.to_owned().into(),
            wait: None,
            single_line,
        };
        assert_eq!(reason(clients.processes().deliver(request).await), expected);
    }
    let unseen = GetDeliveryRequest {
        run: run(&session),
        delivery_id: "bad".into(),
    };
    let unseen = said(clients.processes().get_delivery(unseen).await).unwrap();
    assert_eq!(unseen.outcome.unwrap().kind(), OutcomeKind::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_32_waiting_deliveries_are_refused() {
    let (_agent, clients) = Agent::start().await;
    let mut sessions = Vec::new();
    for _ in 0..36 {
        let session = id();
        // It never reads: the pipe fills up and the delivery waits.
        spawn(&clients, &session, &["sleep", "600"], StdinMode::Held).await;
        sessions.push(session);
    }
    let text = format!("{}\n", "x".repeat(100_000));
    let calls = sessions.iter().map(|session| {
        let request = DeliverRequest {
            mutation: mutation("d"),
            run: run(session),
            payload: text.clone().into(),
            wait: None,
            single_line: true,
        };
        let clients = clients.clone();
        async move { said(clients.processes().deliver(request).await) }
    });
    let (mut waited, mut refused) = (0, 0);
    for answer in futures_util::future::join_all(calls).await {
        match answer {
            Ok(answer) => {
                assert_eq!(answer.outcome.unwrap().kind(), OutcomeKind::InFlight);
                waited += 1;
            }
            Err(fault) => {
                assert_eq!(fault.reason(), Reason::DeliveryLimit);
                refused += 1;
            }
        }
    }
    assert!(waited >= 32 && waited + refused == 36, "{waited} {refused}");
}
