use muster_proto::agent::{rung::Action, *};

use super::{runs::*, *};

fn rung(action: Action, millis: u64) -> Rung {
    Rung {
        action: Some(action),
        wait: Some(Duration::from_millis(millis).try_into().unwrap()),
    }
}

fn ladder() -> Vec<Rung> {
    vec![
        rung(Action::CloseStdin(true), 100),
        rung(Action::Signal(2), 100),
        rung(Action::Signal(15), 100),
        rung(Action::Signal(9), 10_000),
    ]
}

pub(super) fn stop_request(session: &str) -> StopRequest {
    StopRequest {
        mutation: mutation("stop"),
        run: run(session),
        rungs: ladder(),
        survivors: false,
        process: None,
    }
}

pub(super) async fn stop(clients: &Clients, request: StopRequest) -> StopResponse {
    said(clients.processes().stop(request).await).unwrap()
}

pub(super) fn kill(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Events of the process watch until one of them is wanted.
pub(super) async fn watch_until(
    events: &mut tonic::Streaming<WatchRunsResponse>,
    wanted: impl Fn(&watch_runs_response::Event) -> bool,
) {
    let mut sequence = None;
    loop {
        let event = tokio::time::timeout(PATIENCE, events.message()).await;
        let event = event.expect("no event").unwrap().unwrap();
        assert!(sequence.is_none_or(|sequence| event.sequence == sequence + 1));
        sequence = Some(event.sequence);
        if wanted(&event.event.unwrap()) {
            return;
        }
    }
}

pub(super) async fn watch(clients: &Clients) -> tonic::Streaming<WatchRunsResponse> {
    let mut events = said(clients.processes().watch(WatchRunsRequest {}).await).unwrap();
    watch_until(&mut events, |event| {
        matches!(event, watch_runs_response::Event::SnapshotEnd(_))
    })
    .await;
    events
}

pub(super) fn is_facts(
    event: &watch_runs_response::Event,
    wanted: impl Fn(&RunFacts) -> bool,
) -> bool {
    matches!(event, watch_runs_response::Event::Facts(facts) if wanted(facts))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_climbs_and_is_told_as_requested() {
    let (_agent, clients) = Agent::start().await;
    let session = id();
    // Deaf to everything polite.
    let script = "trap '' INT TERM; while :; do sleep 0.05; done";
    spawn(
        &clients,
        &session,
        &["sh", "-c", script],
        StdinMode::Closable,
    )
    .await;
    let mut events = watch(&clients).await;
    assert!(!stop(&clients, stop_request(&session)).await.already_ended);
    watch_until(&mut events, |event| {
        is_facts(event, |facts| facts.state() == RunState::Exited)
    })
    .await;
    let facts = get(&clients, &session).await;
    let exit = facts.exit.unwrap();
    assert_eq!(exit.signal, Some(9));
    assert!(exit.stop_requested);
    assert!(stop(&clients, stop_request(&session)).await.already_ended);
    let unknown = stop_request(&id());
    assert_eq!(
        reason(clients.processes().stop(unknown).await),
        Reason::RunNotFound
    );
    let no_rungs = StopRequest {
        rungs: Vec::new(),
        ..stop_request(&session)
    };
    assert_eq!(
        reason(clients.processes().stop(no_rungs).await),
        Reason::MissingField
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_the_tree_and_only_listed_ones_are_sent() {
    let (_agent, clients) = Agent::start().await;
    let session = id();
    spawn(
        &clients,
        &session,
        &["sh", "-c", "sleep 600 & wait"],
        StdinMode::Held,
    )
    .await;
    until(&clients, &session, RunState::Alive).await;
    let signal = |signal| SignalRequest {
        mutation: mutation("signal"),
        run: run(&session),
        signal,
    };
    for bad in [0, -9, 19, 64, 1000] {
        assert_eq!(
            reason(clients.processes().signal(signal(bad)).await),
            Reason::Invalid
        );
    }
    let sent = said(clients.processes().signal(signal(15)).await).unwrap();
    assert!(!sent.targets.is_empty());
    until(&clients, &session, RunState::Exited).await;
    let late = said(clients.processes().signal(signal(15)).await).unwrap();
    assert_eq!(late.targets, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn s33_survivors_are_listed_and_ended_by_identity() {
    let (_agent, clients) = Agent::start().await;
    let session = id();
    let script = "setsid sleep 600 </dev/null >/dev/null 2>&1 & sleep 0.2";
    spawn(
        &clients,
        &session,
        &["sh", "-c", script],
        StdinMode::Closable,
    )
    .await;
    let exit = until(&clients, &session, RunState::Exited)
        .await
        .exit
        .unwrap();
    assert_eq!(exit.survivors.len(), 1, "{exit:?}");
    let request = FindProcessesRequest {
        session_id: session.clone(),
    };
    let found = said(clients.processes().find(request.clone()).await).unwrap();
    assert_eq!(found.processes[0].identity, Some(exit.survivors[0].clone()));
    assert_eq!(
        (found.processes[0].run, found.processes[0].name.as_str()),
        (1, "sleep")
    );
    let survivors = StopRequest {
        survivors: true,
        ..stop_request(&session)
    };
    let stopped = stop(&clients, survivors).await;
    assert_eq!(stopped.survivors, exit.survivors);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !said(clients.processes().find(request.clone()).await)
        .unwrap()
        .processes
        .is_empty()
    {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_keeper_is_replaced_and_a_dead_pair_is_lost() {
    let (_agent, clients) = Agent::start().await;
    let session = id();
    spawn(&clients, &session, &["sleep", "600"], StdinMode::Held).await;
    let facts = until(&clients, &session, RunState::Alive).await;
    let mut events = watch(&clients).await;
    kill(
        facts.keeper.clone().unwrap().pid,
        rustix::process::Signal::KILL,
    );
    watch_until(&mut events, |event| {
        is_facts(event, |now| {
            now.adopted && now.keeper.is_some() && now.keeper != facts.keeper
        })
    })
    .await;
    let now = get(&clients, &session).await;
    assert_eq!(now.process, facts.process);
    assert_eq!(now.state(), RunState::Alive);
    kill(now.process.unwrap().pid, rustix::process::Signal::KILL);
    let exit = until(&clients, &session, RunState::Exited)
        .await
        .exit
        .unwrap();
    assert!(exit.unknown, "{exit:?}");

    // Both at once: nobody can record the end.
    let session = id();
    let stopped = ["sh", "-c", "kill -STOP $$"];
    spawn(&clients, &session, &stopped, StdinMode::Held).await;
    let facts = until(&clients, &session, RunState::Alive).await;
    kill(facts.keeper.unwrap().pid, rustix::process::Signal::STOP);
    kill(
        facts.process.as_ref().unwrap().pid,
        rustix::process::Signal::KILL,
    );
    let keeper = get(&clients, &session).await.keeper.unwrap().pid;
    kill(keeper, rustix::process::Signal::KILL);
    let lost = until(&clients, &session, RunState::Lost).await;
    assert_eq!(lost.lost_reason(), LostReason::Keeper);
    let outcome = deliver(&clients, &session, "d", "x\n").await;
    assert_eq!(outcome.kind(), OutcomeKind::NoKeeper);
    assert!(stop(&clients, stop_request(&session)).await.already_ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_a_keeper_that_says_nothing_is_not_called_dead() {
    let (agent, clients) = Agent::start().await;
    let session = id();
    spawn(&clients, &session, ECHO, StdinMode::Held).await;
    let facts = until(&clients, &session, RunState::Alive).await;
    let keeper = facts.keeper.unwrap().pid;
    kill(keeper, rustix::process::Signal::STOP);
    let request = || DeliverRequest {
        mutation: mutation("d"),
        run: run(&session),
        payload: "x\n".to_owned().into(),
        wait: None,
        single_line: true,
    };
    let silent = said(clients.processes().deliver(request()).await).unwrap_err();
    assert_eq!(silent.reason(), muster_domain::Reason::NotReady);
    kill(keeper, rustix::process::Signal::CONT);
    let outcome = deliver(&clients, &session, "d", "x\n").await;
    assert_eq!(outcome.kind(), OutcomeKind::Delivered);
    let again = deliver(&clients, &session, "d", "x\n").await;
    assert!(again.already, "{again:?}");
    stop(&clients, stop_request(&session)).await;
    until(&clients, &session, RunState::Exited).await;
    let folder = format!("sessions/{session}/runs/1/stream.jsonl");
    let printed = std::fs::read_to_string(agent.home().join(folder)).unwrap();
    assert_eq!(printed, "got x\n", "written once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_another_boot_is_lost_and_never_signalled() {
    let (mut agent, clients) = Agent::start().await;
    let session = id();
    spawn(&clients, &session, &["sleep", "600"], StdinMode::Held).await;
    let facts = until(&clients, &session, RunState::Alive).await;
    agent.kill();
    kill(facts.keeper.unwrap().pid, rustix::process::Signal::KILL);
    let record = agent
        .home()
        .join(format!("sessions/{session}/runs/1/proc.json"));
    let text = std::fs::read_to_string(&record).unwrap();
    let boot = facts.process.as_ref().unwrap().boot_id.clone();
    std::fs::write(&record, text.replace(&boot, "an-earlier-boot")).unwrap();
    let clients = agent.run().await;
    let lost = until(&clients, &session, RunState::Lost).await;
    assert_eq!(lost.lost_reason(), LostReason::Boot);
    stop(&clients, stop_request(&session)).await;
    let pid = facts.process.unwrap().pid;
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    kill(pid, rustix::process::Signal::KILL);
}

#[tokio::test(flavor = "multi_thread")]
async fn s33_a_vanished_working_directory_is_told() {
    let (agent, clients) = Agent::start().await;
    std::fs::create_dir(agent.user().join("work")).unwrap();
    let session = id();
    let mut request = spawn_request(&session, 1, &["sleep", "600"], StdinMode::Held);
    request.cwd = "~/work".into();
    said(clients.processes().spawn(request).await).unwrap();
    until(&clients, &session, RunState::Alive).await;
    let mut events = watch(&clients).await;
    std::fs::remove_dir(agent.user().join("work")).unwrap();
    watch_until(&mut events, |event| {
        is_facts(event, |facts| !facts.cwd_exists)
    })
    .await;
    std::fs::create_dir(agent.user().join("work")).unwrap();
    watch_until(&mut events, |event| {
        is_facts(event, |facts| facts.cwd_exists)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_deliveries_are_told_on_the_watch_and_runs_are_paged() {
    let (_agent, clients) = Agent::start().await;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let session = id();
        spawn(&clients, &session, &["cat"], StdinMode::Held).await;
        sessions.push(session);
    }
    let mut events = watch(&clients).await;
    for session in &sessions {
        deliver(&clients, session, "told", "x\n").await;
        watch_until(&mut events, |event| match event {
            watch_runs_response::Event::DeliveryEnded(ended) => {
                let outcome = ended.outcome.as_ref().unwrap();
                ended.run == run(session)
                    && outcome.delivery_id == "told"
                    && outcome.kind() == OutcomeKind::Delivered
            }
            _ => false,
        })
        .await;
    }
    let mut seen = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListRunsRequest {
            page_size: 2,
            page_token,
            session_id: String::new(),
        };
        let page = said(clients.processes().list(request).await).unwrap();
        seen.extend(
            page.runs
                .into_iter()
                .map(|facts| facts.run.unwrap().session_id),
        );
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    sessions.sort();
    assert_eq!(seen, sessions);
    let bad = ListRunsRequest {
        page_token: "x".into(),
        ..ListRunsRequest::default()
    };
    assert_eq!(
        reason(clients.processes().list(bad).await),
        Reason::BadPageToken
    );
}
