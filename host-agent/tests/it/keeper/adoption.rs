use std::{fs, process::Stdio};

use muster_host_agent::{
    keeper::Launcher,
    proc::{Identity, find_marked},
    run_dir::{Meta, PROC, StdinKind},
};
use muster_proto::keeper::{
    self as wire, Outcome, OutcomeKind, SpawnFailureReason as Reason, StdinMode,
};

use super::kit::{PATIENCE, Run, binary, eventually, inline, signal_rung};

fn failing_at(place: &str) -> Launcher {
    Launcher::of(binary()).env("MUSTER_FAILPOINT", place)
}

/// Starts a keeper that dies at `place` and, when it is passed in a delivery, lets it.
async fn dies_in_delivery(place: &str, script: &str, text: &str) -> (Run, Identity) {
    let mut run = Run::script(StdinMode::Held, script);
    let status = run.start_with(&failing_at(place)).unwrap().unwrap();
    run.says("up").await;
    let client = run.client().await;
    let died = client.deliver(inline("one", text, 0), PATIENCE).await;
    assert!(died.is_err(), "{place}: {died:?}");
    let keeper: Identity = status.keeper.unwrap().into();
    eventually("the keeper's death", || {
        (!keeper.is_alive().unwrap()).then_some(())
    })
    .await;
    let program: Identity = status.process.unwrap().into();
    assert!(program.is_alive().unwrap());
    (run, program)
}

async fn ask(run: &Run, id: &str) -> Outcome {
    let client = run.client().await;
    client.get_delivery(id, PATIENCE).await.unwrap()
}

async fn ends_by_ladder(run: &Run) {
    run.stop(vec![signal_rung(15, 50), signal_rung(9, 60_000)])
        .await;
    let exit = run.exit().await;
    assert_eq!((exit.code, exit.signal, exit.unknown), (None, None, true));
    assert!(exit.stop_requested);
    eventually("the end of the tree", || {
        let left = find_marked(&run.session, None).unwrap();
        left.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn killed_before_the_start_record_nothing_happened_and_it_may_be_sent() {
    let (mut run, program) = dies_in_delivery("keeper.before_start", "echo up; cat", "a\n").await;
    let adopted = run.adopt().unwrap();
    assert_eq!(Identity::from(adopted.process.unwrap()), program);
    assert_eq!(ask(&run, "one").await.kind(), OutcomeKind::Unknown);
    let outcome = run.deliver("one", "a\n").await;
    assert_eq!(
        (outcome.kind(), outcome.already),
        (OutcomeKind::Delivered, false)
    );
    run.says("a\n").await;
    assert_eq!(run.text("stream.jsonl"), "up\na\n");
    ends_by_ladder(&run).await;
}

#[tokio::test]
async fn killed_between_start_and_end_nothing_follows_half_a_line() {
    let big = format!("{}\n", "x".repeat(99_999));
    for (place, text) in [
        ("keeper.after_start", "a\n"),
        ("keeper.half_written", big.as_str()),
        ("keeper.all_written", "a\n"),
    ] {
        let script = "echo up; while :; do sleep 1; done";
        let (mut run, _) = dies_in_delivery(place, script, text).await;
        let status = run.adopt().unwrap();
        assert!(status.stdin_closed, "{place}");
        assert_eq!(status.in_flight_delivery_id, "one");
        let torn = run.deliver("one", text).await;
        assert_eq!(torn.kind(), OutcomeKind::InFlight, "{place}");
        let other = run.deliver("two", "b\n").await;
        assert_eq!(other.kind(), OutcomeKind::StdinClosed, "{place}");
        ends_by_ladder(&run).await;
        let unread = run.exit().await.stdin_unread_bytes.unwrap();
        let expected = match place {
            "keeper.after_start" => 0,
            "keeper.half_written" => 65_536,
            _ => 2,
        };
        assert_eq!(unread, expected, "{place}");
    }
}

#[tokio::test]
async fn killed_after_the_end_record_the_outcome_is_known() {
    let (mut run, _) = dies_in_delivery("keeper.after_end", "echo up; cat", "a\n").await;
    run.adopt().unwrap();
    let outcome = run.deliver("one", "a\n").await;
    assert_eq!(
        (outcome.kind(), outcome.already),
        (OutcomeKind::Delivered, true)
    );
    run.deliver("two", "b\n").await;
    run.says("b\n").await;
    assert_eq!(run.text("stream.jsonl"), "up\na\nb\n");
    ends_by_ladder(&run).await;
}

#[tokio::test]
async fn killed_around_proc_json_the_program_is_found_and_not_started_twice() {
    for place in ["keeper.before_proc", "keeper.after_proc"] {
        let mut run = Run::script(StdinMode::Held, "echo up; sleep 600 & cat");
        let meta = Meta {
            session_id: run.session.clone(),
            run: 1,
            stdin: StdinKind::Held,
            ..Meta::default()
        };
        run.dir.write("meta.json", &meta).unwrap();
        let died = run.start_with(&failing_at(place));
        assert!(died.is_err(), "{place}: {died:?}");
        run.says("up").await;
        let refused = run.try_start().unwrap_err().reason();
        assert_eq!(refused, Reason::StartedBefore, "{place}");
        let status = run.adopt().unwrap();
        assert!(status.alive);
        run.deliver("one", "a\n").await;
        run.says("a\n").await;
        ends_by_ladder(&run).await;
    }
}

#[tokio::test]
async fn killed_around_exit_json_the_end_is_known() {
    let mut run = Run::script(StdinMode::Held, "echo up; exit 4");
    let started = run.start_with(&failing_at("keeper.before_exit")).unwrap();
    let keeper: Identity = started.unwrap().keeper.unwrap().into();
    eventually("the keeper's death", || {
        (!keeper.is_alive().unwrap()).then_some(())
    })
    .await;
    assert_eq!(run.dir.exit().unwrap(), None);
    run.adopt().unwrap();
    let exit = run.exit().await;
    assert_eq!((exit.unknown, exit.code), (false, Some(4)));
    assert_eq!(exit.stream_size, 3);

    let mut run = Run::script(StdinMode::Held, "echo up; exit 4");
    run.start_with(&failing_at("keeper.after_exit"))
        .unwrap()
        .unwrap();
    assert_eq!(run.exit().await.code, Some(4));
    let refused = eventually("the lock", || {
        let reason = run.adopt().unwrap_err().reason();
        (reason != Reason::Locked).then_some(reason)
    });
    assert_eq!(refused.await, Reason::StartedBefore);
}

#[tokio::test]
async fn a_closable_program_has_seen_the_end_of_its_input() {
    let script = "echo up; cat; echo end; while :; do sleep 1; done";
    let mut run = Run::script(StdinMode::Closable, script);
    let status = run.start();
    run.says("up").await;
    run.kill(status.keeper.unwrap().into()).await;
    run.says("end").await;
    let adopted = run.adopt().unwrap();
    assert!(adopted.stdin_closed);
    let outcome = run.deliver("one", "a\n").await;
    assert_eq!(outcome.kind(), OutcomeKind::StdinClosed);
    let refused = run.try_start().unwrap_err().reason();
    assert_eq!(refused, Reason::Locked);
    ends_by_ladder(&run).await;
}

#[tokio::test]
async fn an_adopted_program_may_end_by_itself_and_lose_its_second_keeper() {
    let mut run = Run::script(StdinMode::Held, "echo up; read line; echo $line");
    let status = run.start();
    run.says("up").await;
    run.kill(status.keeper.unwrap().into()).await;
    let second = run.adopt().unwrap();
    run.kill(second.keeper.unwrap().into()).await;
    run.adopt().unwrap();
    let (_, mut events) = run.client().await.watch(PATIENCE).await.unwrap();
    run.deliver("one", "a\n").await;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        seen.push(event.event.unwrap());
    }
    assert_eq!(seen.last(), Some(&wire::event::Event::ExitRecorded(true)));
    let exit = run.exit().await;
    assert!(exit.unknown);
    assert_eq!(exit.stdin_unread_bytes, Some(0));
    assert_eq!(run.text("stream.jsonl"), "up\na\n");
}

struct Bystander(std::process::Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn h13_a_recycled_pid_and_another_boot_are_never_signalled() {
    let mut sleep = std::process::Command::new("sleep");
    let bystander = Bystander(sleep.arg("600").stdin(Stdio::null()).spawn().unwrap());
    let pid = i32::try_from(bystander.0.id()).unwrap();
    let identity = Identity::of(pid).unwrap().unwrap();
    let mut run = Run::script(StdinMode::Held, "echo up; exec cat");
    let status = run.start();
    run.says("up").await;
    run.kill(status.keeper.unwrap().into()).await;
    run.kill(status.process.unwrap().into()).await;

    let mut record = run.dir.proc().unwrap().unwrap();
    record.process = identity;
    record.boot_id = "another".into();
    run.dir.write(PROC, &record).unwrap();
    assert_eq!(run.adopt().unwrap_err().reason(), Reason::SpawnFailed);

    record.boot_id = muster_host_agent::proc::boot_id().unwrap();
    record.process.start_ticks -= 1;
    run.dir.write(PROC, &record).unwrap();
    run.adopt().unwrap();
    let exit = run.exit().await;
    assert!(exit.unknown);
    assert_eq!(exit.survivors, []);
    assert!(identity.is_alive().unwrap());
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!environ.is_empty());
}

#[tokio::test]
async fn a_run_that_was_never_started_cannot_be_adopted() {
    let mut run = Run::script(StdinMode::Held, "cat");
    assert_eq!(run.adopt().unwrap_err().reason(), Reason::SpawnFailed);
    run.start();
    assert!(run.status().await.alive);
}
