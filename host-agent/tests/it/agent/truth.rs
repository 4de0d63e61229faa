//! What the agent says of ends that nobody recorded, or whose record is gone or damaged.

use muster_host_agent::proc::{Identity, find_marked};
use muster_proto::agent::*;
use rustix::process::Signal;

use super::{ending::*, runs::*, *};

fn run_folder(agent: &Agent, session: &str) -> PathBuf {
    agent.home().join(format!("sessions/{session}/runs/1"))
}

fn living(facts: &RunFacts) -> Vec<ProcessIdentity> {
    facts.survivors.clone().unwrap_or_default().processes
}

async fn get_told(
    clients: &Clients,
    session: &str,
    process: Option<ProcessIdentity>,
) -> Result<RunFacts, Fault> {
    let request = GetRunRequest {
        run: run(session),
        process,
    };
    let answer = said(clients.processes().get(request).await)?;
    Ok(answer.facts.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn s33_the_end_of_survivors_is_told_also_by_an_agent_that_started_anew() {
    let (mut agent, clients) = Agent::start().await;
    let session = id();
    let child = "setsid sleep 600 </dev/null >/dev/null 2>&1 &";
    let script = format!("{child} {child} sleep 0.2");
    let argv = ["sh", "-c", script.as_str()];
    spawn(&clients, &session, &argv, StdinMode::Closable).await;
    let facts = until(&clients, &session, RunState::Exited).await;
    let recorded = facts.exit.clone().unwrap().survivors;
    assert_eq!((recorded.len(), living(&facts)), (2, recorded.clone()));
    let mut events = watch(&clients).await;
    kill(recorded[0].pid, Signal::KILL);
    watch_until(&mut events, |event| {
        is_facts(event, |facts| living(facts) == recorded[1..])
    })
    .await;
    agent.kill();
    let clients = agent.run().await;
    let mut events = watch(&clients).await;
    kill(recorded[1].pid, Signal::KILL);
    watch_until(&mut events, |event| {
        is_facts(event, |facts| living(facts).is_empty())
    })
    .await;
    let facts = get(&clients, &session).await;
    assert_eq!(living(&facts), []);
    assert_eq!(facts.exit.unwrap().survivors, recorded, "the record stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_a_run_folder_that_is_deleted_under_a_living_program_is_told_and_it_can_be_stopped() {
    let (agent, clients) = Agent::start().await;
    let session = id();
    let script = "trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM; while :; do sleep 1; done' & \
                  while :; do sleep 0.1; done";
    spawn(
        &clients,
        &session,
        &["sh", "-c", script],
        StdinMode::Closable,
    )
    .await;
    let before = until(&clients, &session, RunState::Alive).await;
    let mut events = watch(&clients).await;
    std::fs::remove_dir_all(run_folder(&agent, &session)).unwrap();
    watch_until(&mut events, |event| {
        is_facts(event, |facts| {
            facts.folder_missing && facts.state() == RunState::Alive
        })
    })
    .await;
    let facts = get(&clients, &session).await;
    assert!(facts.folder_missing && facts.keeper.is_none());
    assert_eq!(facts.process, before.process);
    let stopped = stop(&clients, stop_request(&session)).await;
    assert!(!stopped.already_ended);
    watch_until(&mut events, |event| {
        is_facts(event, |facts| {
            facts.state() == RunState::Lost && facts.lost_reason() == LostReason::Folder
        })
    })
    .await;
    assert!(find_marked(&session, None).unwrap().is_empty());
    let gone = get_told(&clients, &session, before.process).await;
    assert_eq!(gone.unwrap_err().reason(), Reason::RunNotFound);
    assert_eq!(
        reason(clients.processes().stop(stop_request(&session)).await),
        Reason::RunNotFound
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_a_program_without_marker_and_folder_is_found_by_the_identity_that_was_told() {
    let (mut agent, clients) = Agent::start().await;
    let session = id();
    let argv = ["sh", "-c", "exec env -i sleep 600"];
    spawn(&clients, &session, &argv, StdinMode::Closable).await;
    let before = until(&clients, &session, RunState::Alive).await;
    let process = before.process.clone();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !find_marked(&session, None).unwrap().is_empty() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    std::fs::remove_dir_all(run_folder(&agent, &session)).unwrap();
    agent.kill();
    let clients = agent.run().await;
    let unknown = get_told(&clients, &session, None).await;
    assert_eq!(unknown.unwrap_err().reason(), Reason::RunNotFound);
    let recycled = process.clone().map(|process| ProcessIdentity {
        start_ticks: process.start_ticks - 1,
        ..process
    });
    let other = get_told(&clients, &session, recycled).await;
    assert_eq!(other.unwrap_err().reason(), Reason::RunNotFound);
    let facts = get_told(&clients, &session, process.clone()).await.unwrap();
    assert_eq!(
        (facts.state(), facts.process),
        (RunState::Alive, process.clone())
    );
    // From then on it is watched.
    let mut events = watch(&clients).await;
    let request = StopRequest {
        process: process.clone(),
        ..stop_request(&session)
    };
    assert!(!stop(&clients, request).await.already_ended);
    watch_until(&mut events, |event| {
        is_facts(event, |facts| facts.lost_reason() == LostReason::Folder)
    })
    .await;
    let process = process.unwrap();
    let identity = Identity {
        pid: process.pid,
        start_ticks: process.start_ticks,
    };
    assert!(!identity.is_alive().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn s29_a_damaged_exit_record_is_told_as_damaged() {
    let (mut agent, clients) = Agent::start().await;
    let live = id();
    spawn(&clients, &live, &["sleep", "600"], StdinMode::Closable).await;
    until(&clients, &live, RunState::Alive).await;
    let record = |session: &str| run_folder(&agent, session).join("exit.json");
    std::fs::write(record(&live), "garbage").unwrap();
    let facts = get(&clients, &live).await;
    assert_eq!((facts.state(), facts.exit_damaged), (RunState::Alive, true));
    let ended = id();
    let argv = ["sh", "-c", "echo out; exit 3"];
    spawn(&clients, &ended, &argv, StdinMode::Closable).await;
    until(&clients, &ended, RunState::Exited).await;
    let keeper = muster_host_agent::run_dir::RunDir::open(run_folder(&agent, &ended)).unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while keeper.lock_state().unwrap() == muster_host_agent::run_dir::LockState::Held {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for damaged in ["", "{\"code\":3,\"stre", "{}", "\u{fffd}"] {
        std::fs::write(record(&ended), damaged).unwrap();
        let facts = get(&clients, &ended).await;
        assert_eq!(facts.state(), RunState::Lost, "{damaged}");
        assert_eq!(facts.lost_reason(), LostReason::Keeper);
        assert!(facts.exit_damaged && facts.exit.is_none());
        assert_eq!(facts.stream_size, 4);
    }
    agent.kill();
    let clients = agent.run().await;
    let mut events = said(clients.processes().watch(WatchRunsRequest {}).await).unwrap();
    watch_until(&mut events, |event| {
        is_facts(event, |facts| {
            facts.exit_damaged && facts.state() == RunState::Lost
        })
    })
    .await;
    // The end of the living one is recorded over the garbage.
    assert!(!stop(&clients, stop_request(&live)).await.already_ended);
    let facts = until(&clients, &live, RunState::Exited).await;
    assert!(!facts.exit_damaged && facts.exit.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn s29_a_keeper_killed_while_it_stops_the_tree_takes_no_exit_code_with_it() {
    let (agent, clients) = Agent::start().await;
    let session = id();
    let stubborn = "trap '' INT TERM; echo up; while :; do sleep 0.1; done";
    let script = format!("setsid sh -c \"{stubborn}\" & read -r line; exit 7");
    let argv = ["sh", "-c", script.as_str()];
    spawn(&clients, &session, &argv, StdinMode::Closable).await;
    let facts = until(&clients, &session, RunState::Alive).await;
    let mut request = stop_request(&session);
    request.rungs = vec![Rung {
        action: Some(rung::Action::CloseStdin(true)),
        wait: Some(muster_proto::convert::time::duration(PATIENCE)),
    }];
    stop(&clients, request).await;
    let journal = run_folder(&agent, &session).join("journal.jsonl");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&journal)
        .unwrap()
        .contains("program_ended")
    {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // It works on the rest of the tree; there is no record yet.
    kill(facts.keeper.unwrap().pid, Signal::KILL);
    let facts = until(&clients, &session, RunState::Exited).await;
    let exit = facts.exit.clone().unwrap();
    assert_eq!((exit.unknown, exit.code), (false, Some(7)));
    assert!(exit.stop_requested);
    assert!(!living(&facts).is_empty(), "whoever is left is named");
    let request = StopRequest {
        survivors: true,
        ..stop_request(&session)
    };
    stop(&clients, request).await;
    let mut events = watch(&clients).await;
    watch_until(&mut events, |event| {
        is_facts(event, |facts| living(facts).is_empty())
    })
    .await;
}
