use std::{fs, time::Duration};

use muster_host_agent::{
    keeper_client::{KeeperClient, KeeperError},
    proc::Identity,
    run_dir::{EndKind, JournalRecord},
};
use muster_proto::keeper::{
    self as wire, Deliver, FailureReason, Outcome, OutcomeKind, StdinMode, deliver::Payload,
};

use super::kit::{PATIENCE, Run, eventually, inline};

/// More than a pipe holds.
const BIG: usize = 100_000;
/// Waits for a file before it reads anything.
const PATIENT_CAT: &str = "echo up; until test -e go; do sleep 0.02; done; cat";

fn line(length: usize) -> String {
    let mut line = "x".repeat(length - 1);
    line.push('\n');
    line
}

async fn send(run: &Run, call: Deliver) -> Outcome {
    run.client().await.deliver(call, PATIENCE).await.unwrap()
}

async fn refusal(run: &Run, call: Deliver) -> FailureReason {
    match run.client().await.deliver(call, PATIENCE).await {
        Err(KeeperError::Refused(failure)) => failure.reason(),
        other => panic!("{other:?}"),
    }
}

async fn ask(run: &Run, id: &str) -> Outcome {
    let client = run.client().await;
    client.get_delivery(id, PATIENCE).await.unwrap()
}

fn starts(run: &Run) -> usize {
    let records = run.journal().into_iter();
    records
        .filter(|record| matches!(record, JournalRecord::Start { .. }))
        .count()
}

#[tokio::test]
async fn s17_what_was_delivered_is_written_once_however_often_it_is_sent() {
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    run.start();
    run.says("up").await;
    let before = ask(&run, "one").await;
    assert_eq!(before.kind(), OutcomeKind::Unknown);
    let first = run.deliver("one", "hello\n").await;
    assert_eq!(first.kind(), OutcomeKind::Delivered);
    assert_eq!((first.bytes_written, first.already), (6, false));
    assert_eq!(first.stream_size_before, 3);
    assert!(first.stream_size_after >= 3);
    let again = run.deliver("one", "hello\n").await;
    let expected = Outcome {
        already: true,
        ..first
    };
    assert_eq!(again, expected);
    assert_eq!(ask(&run, "one").await, expected);
    run.deliver("two", "end\n").await;
    run.says("end").await;
    assert_eq!(run.text("stream.jsonl"), "up\nhello\nend\n");
}

#[tokio::test]
async fn s17_many_at_once_with_one_id_write_one() {
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    run.start();
    run.says("up").await;
    let calls = (0..12).map(|_| run.deliver("same", "once\n"));
    let outcomes = futures_util::future::join_all(calls).await;
    let kinds = outcomes.iter().map(Outcome::kind);
    assert!(kinds.into_iter().all(|kind| kind == OutcomeKind::Delivered));
    let fresh = outcomes.iter().filter(|outcome| !outcome.already).count();
    assert_eq!(fresh, 1);
    assert_eq!(starts(&run), 1);
    run.deliver("last", "last\n").await;
    run.says("last").await;
    assert_eq!(run.text("stream.jsonl"), "up\nonce\nlast\n");
}

#[tokio::test]
async fn a_full_pipe_means_retry_and_the_same_id_may_try_again() {
    let mut run = Run::script(StdinMode::Held, PATIENT_CAT);
    run.start();
    run.says("up").await;
    let full = send(&run, inline("full", &line(65_536), 0)).await;
    assert_eq!(full.kind(), OutcomeKind::Delivered);
    for _ in 0..2 {
        let late = send(&run, inline("late", "late\n", 20)).await;
        assert_eq!((late.kind(), late.bytes_written), (OutcomeKind::Retry, 0));
    }
    assert_eq!(ask(&run, "late").await.kind(), OutcomeKind::Retry);
    fs::write(run.home.path().join("go"), "").unwrap();
    let late = run.deliver("late", "late\n").await;
    assert_eq!(late.kind(), OutcomeKind::Delivered);
    run.says("late").await;
    assert_eq!(run.text("stream.jsonl").matches("late").count(), 1);
}

#[tokio::test]
async fn s17_a_started_payload_is_finished_and_nothing_comes_between() {
    let mut run = Run::script(StdinMode::Held, PATIENT_CAT);
    run.start();
    run.says("up").await;
    let (_, mut events) = run.client().await.watch(PATIENCE).await.unwrap();
    let begun = send(&run, inline("big", &line(BIG), 20)).await;
    assert_eq!(begun.kind(), OutcomeKind::InFlight);
    assert_eq!(begun.bytes_written, 65_536);
    let other = send(&run, inline("other", "other\n", 20)).await;
    assert_eq!(other.kind(), OutcomeKind::Busy);
    assert_eq!(other.busy_with, "big");
    assert_eq!(run.status().await.in_flight_delivery_id, "big");
    assert_eq!(ask(&run, "big").await.kind(), OutcomeKind::InFlight);
    let changed = inline("big", &line(BIG - 1), 20);
    assert_eq!(refusal(&run, changed).await, FailureReason::Invalid);
    let again = send(&run, inline("big", &line(BIG), 20)).await;
    assert_eq!(again.kind(), OutcomeKind::InFlight);
    fs::write(run.home.path().join("go"), "").unwrap();
    let pushed = events.next().await.unwrap().unwrap().event.unwrap();
    let wire::event::Event::Outcome(outcome) = pushed else {
        panic!("{pushed:?}");
    };
    assert_eq!(outcome.kind(), OutcomeKind::Delivered);
    assert_eq!(outcome.bytes_written, u64::try_from(BIG).unwrap());
    run.deliver("other", "other\n").await;
    run.says("other").await;
    assert_eq!(
        run.text("stream.jsonl"),
        format!("up\n{}other\n", line(BIG))
    );
}

#[tokio::test]
async fn the_end_of_the_program_ends_the_delivery() {
    let mut run = Run::script(StdinMode::Closable, "echo up; exec sleep 600");
    let status = run.start();
    run.says("up").await;
    let begun = send(&run, inline("big", &line(BIG), 0)).await;
    assert_eq!(begun.kind(), OutcomeKind::InFlight);
    let (_, mut events) = run.client().await.watch(PATIENCE).await.unwrap();
    run.kill(status.process.unwrap().into()).await;
    let pushed = events.next().await.unwrap().unwrap().event.unwrap();
    let wire::event::Event::Outcome(outcome) = pushed else {
        panic!("{pushed:?}");
    };
    assert_eq!(outcome.kind(), OutcomeKind::Exited);
    assert_eq!(outcome.bytes_written, 65_536);
    let recorded = events.next().await.unwrap().unwrap().event.unwrap();
    assert_eq!(recorded, wire::event::Event::ExitRecorded(true));
    assert_eq!(events.next().await.unwrap(), None);
    let exit = run.exit().await;
    assert_eq!(exit.signal, Some(9));
    assert_eq!(exit.stdin_unread_bytes, Some(65_536));
    let gone = eventually("the keeper's end", || {
        (run.dir.size("keeper.sock").unwrap().is_none()).then_some(())
    });
    gone.await;
    let nobody = KeeperClient::connect(&run.dir, PATIENCE).await;
    assert!(matches!(nobody, Err(KeeperError::NoKeeper)));
}

#[tokio::test]
async fn a_program_that_closed_its_stdin_is_told_from_one_that_ended() {
    for mode in [StdinMode::Closable, StdinMode::Held] {
        let mut run = Run::script(mode, "exec </dev/null; echo up; sleep 600");
        run.start();
        run.says("up").await;
        let outcome = send(&run, inline("one", "hello\n", 2_000)).await;
        assert_eq!(outcome.kind(), OutcomeKind::StdinClosed, "{mode:?}");
        assert_eq!(outcome.bytes_written, 0);
    }
}

#[tokio::test]
async fn closing_a_closable_stdin_is_idempotent_and_a_held_one_is_refused() {
    let mut run = Run::script(StdinMode::Closable, "echo up; cat; echo end; sleep 600");
    run.start();
    run.says("up").await;
    let close = async || run.client().await.close_stdin(PATIENCE).await;
    assert!(!close().await.unwrap().already);
    run.says("end").await;
    assert!(close().await.unwrap().already);
    assert!(run.status().await.stdin_closed);
    let late = run.deliver("late", "late\n").await;
    assert_eq!(late.kind(), OutcomeKind::StdinClosed);

    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    run.start();
    let refused = run.client().await.close_stdin(PATIENCE).await;
    let Err(KeeperError::Refused(failure)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(failure.reason(), FailureReason::StdinHeld);
}

#[tokio::test]
async fn closing_waits_behind_a_started_payload() {
    let mut run = Run::script(StdinMode::Closable, PATIENT_CAT);
    run.start();
    run.says("up").await;
    send(&run, inline("big", &line(BIG), 0)).await;
    let client = run.client().await;
    assert!(!client.close_stdin(PATIENCE).await.unwrap().already);
    fs::write(run.home.path().join("go"), "").unwrap();
    let exit = run.exit().await;
    assert_eq!(exit.code, Some(0));
    assert_eq!(exit.stdin_unread_bytes, Some(0));
    assert_eq!(run.text("stream.jsonl"), format!("up\n{}", line(BIG)));
}

#[tokio::test]
async fn what_is_no_line_is_never_written() {
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    run.start();
    let single = |text: &str| Deliver {
        single_line: true,
        ..inline("one", text, 0)
    };
    let spool = |name: &str| Deliver {
        payload: Some(Payload::SpoolFile(name.into())),
        ..inline("one", "", 0)
    };
    let invalid = FailureReason::Invalid;
    let not_a_line = FailureReason::NotALine;
    assert_eq!(refusal(&run, inline("one", "no end", 0)).await, not_a_line);
    assert_eq!(refusal(&run, inline("one", "", 0)).await, not_a_line);
    assert_eq!(refusal(&run, single("two\nlines\n")).await, not_a_line);
    assert_eq!(refusal(&run, inline("", "x\n", 0)).await, invalid);
    let none = Deliver {
        payload: None,
        ..inline("one", "", 0)
    };
    assert_eq!(refusal(&run, none).await, invalid);
    for name in ["", "../x", "/etc/passwd", "absent", ".", "stdin.fifo"] {
        assert_eq!(refusal(&run, spool(name)).await, invalid, "{name}");
    }
    let large = inline("one", &line(256 * 1024 + 1), 0);
    assert_eq!(refusal(&run, large).await, FailureReason::TooLarge);
    assert_eq!(starts(&run), 0);
}

#[tokio::test]
async fn a_large_payload_comes_as_a_spool_file() {
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    run.start();
    run.says("up").await;
    let text = line(1_000_000);
    fs::write(run.path("spool-1"), &text).unwrap();
    let call = Deliver {
        payload: Some(Payload::SpoolFile("spool-1".into())),
        single_line: true,
        ..inline("one", "", 2_000)
    };
    let outcome = send(&run, call).await;
    let started = [OutcomeKind::Delivered, OutcomeKind::InFlight];
    assert!(started.contains(&outcome.kind()));
    // The keeper holds the file: its name may go.
    fs::remove_file(run.path("spool-1")).unwrap();
    eventually("all of it", || {
        (run.text("stream.jsonl").len() == 3 + text.len()).then_some(())
    })
    .await;
    assert_eq!(ask(&run, "one").await.bytes_written, 1_000_000);
}

#[tokio::test]
async fn a_peer_that_speaks_something_else_is_hung_up_on_and_harms_nobody() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    run.start();
    let path = run.dir.short_path("keeper.sock");
    for garbage in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0xff; 64]] {
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut said = Vec::new();
        let read = stream.read_to_end(&mut said);
        let _ = tokio::time::timeout(PATIENCE, read).await.unwrap();
    }
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(tokio::net::UnixStream::connect(&path).await.unwrap());
    }
    drop(idle);
    let connected = eventually_connects(&run).await;
    assert!(connected.status(PATIENCE).await.unwrap().alive);
}

async fn eventually_connects(run: &Run) -> KeeperClient {
    let tries = async {
        loop {
            if let Ok(client) = KeeperClient::connect(&run.dir, PATIENCE).await {
                return client;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, tries).await.unwrap()
}

#[tokio::test]
async fn the_journal_tells_every_step_in_order() {
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    let status = run.start();
    run.says("up").await;
    run.deliver("one", "hello\n").await;
    let keeper: Identity = status.keeper.unwrap().into();
    let journal = run.journal();
    assert!(matches!(
        &journal[0],
        JournalRecord::Spawning { keeper: by, .. } if *by == keeper
    ));
    assert!(matches!(
        &journal[1],
        JournalRecord::Start { id, bytes: 6, .. } if id == "one"
    ));
    assert!(matches!(
        &journal[2],
        JournalRecord::End {
            outcome: EndKind::Delivered,
            written: 6,
            ..
        }
    ));
    assert_eq!(journal.len(), 3);
}

#[tokio::test]
async fn a_keeper_stays_small_whatever_passes_through_it() {
    let mut run = Run::script(StdinMode::Held, "echo up; exec cat");
    let status = run.start();
    run.says("up").await;
    fs::write(run.path("spool-1"), line(4_000_000)).unwrap();
    let spooled = Deliver {
        payload: Some(Payload::SpoolFile("spool-1".into())),
        ..inline("spooled", "", 2_000)
    };
    send(&run, spooled).await;
    eventually("all of it", || {
        (run.text("stream.jsonl").len() == 3 + 4_000_000).then_some(())
    })
    .await;
    for number in 0..300 {
        let text = line(if number % 10 == 0 { 200_000 } else { 100 });
        loop {
            let outcome = send(&run, inline(&format!("d{number}"), &text, 2_000)).await;
            if outcome.kind() == OutcomeKind::Delivered {
                break;
            }
        }
    }
    let keeper: Identity = status.keeper.unwrap().into();
    let smaps = fs::read_to_string(format!("/proc/{}/smaps_rollup", keeper.pid)).unwrap();
    let anonymous = smaps
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = anonymous.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    // What it allocated; its program text is shared with all others.
    assert!(kib.unwrap() < 3_000, "{kib:?} KiB");
}
