use std::time::Duration;

use muster_host_agent::{
    proc::{Identity, find_marked},
    run_dir::{JournalRecord, RungAction},
};
use muster_proto::keeper::{self as wire, StdinMode, rung::Action};

use super::kit::{PATIENCE, Run, eventually, inline, signal_rung};

/// Long enough that only the wait for the tree ends it.
const LONG: u32 = 60_000;

fn actions(run: &Run) -> Vec<RungAction> {
    let records = run.journal().into_iter();
    records
        .filter_map(|record| match record {
            JournalRecord::Rung { action, .. } => Some(action),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_ladder_goes_no_further_than_it_has_to() {
    let mut run = Run::script(StdinMode::Held, "echo up; cat");
    run.start();
    run.says("up").await;
    let rungs = vec![signal_rung(15, LONG), signal_rung(9, LONG)];
    assert!(!run.stop(rungs).await.already_ended);
    let exit = run.exit().await;
    assert_eq!((exit.code, exit.signal), (None, Some(15)));
    assert!(exit.stop_requested);
    assert_eq!(actions(&run), [RungAction::Signal(15)]);
    let first = run.journal().into_iter().find(|record| {
        matches!(
            record,
            JournalRecord::Stop { .. } | JournalRecord::Rung { .. } | JournalRecord::Signal { .. }
        )
    });
    assert!(matches!(
        first,
        Some(JournalRecord::Stop {
            requested: true,
            ..
        })
    ));
}

#[tokio::test]
async fn h13_a_ladder_reaches_what_ignores_signals_and_left_for_a_session_of_its_own() {
    let script = "trap '' INT TERM; \
                  setsid sh -c \"trap '' INT TERM; echo far; while :; do sleep 1; done\" & \
                  (setsid setsid sleep 600 &); \
                  echo near; while :; do sleep 1; done";
    let mut run = Run::script(StdinMode::Held, script);
    run.start();
    run.says("far").await;
    run.says("near").await;
    let rungs = vec![
        signal_rung(2, 50),
        signal_rung(15, 50),
        signal_rung(9, LONG),
    ];
    run.stop(rungs).await;
    let exit = run.exit().await;
    assert_eq!(exit.signal, Some(9));
    eventually("the end of the whole tree", || {
        find_marked(&run.session, None)
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .await;
    let expected = [2, 15, 9].map(RungAction::Signal);
    assert_eq!(actions(&run), expected);
}

#[tokio::test]
async fn s29_the_end_is_recorded_when_the_whole_ladder_is_through_and_not_before() {
    let script = "setsid sh -c \"trap 'echo hit' TERM; echo far; while :; do sleep 0.1; done\" & \
                  echo near; wait";
    let mut run = Run::script(StdinMode::Held, script);
    let status = run.start();
    let program: Identity = status.process.unwrap().into();
    run.says("far").await;
    run.says("near").await;
    run.stop(vec![signal_rung(15, LONG), signal_rung(9, LONG)])
        .await;
    eventually("the program's end", || {
        (!program.is_alive().unwrap()).then_some(())
    })
    .await;
    run.says("hit").await;
    let status = run.status().await;
    assert!(!status.alive && status.stopping);
    assert_eq!(run.dir.exit().unwrap(), None, "its tree is being stopped");
    // A stop while one works joins it: nothing has ended yet.
    let joined = run.stop(vec![signal_rung(9, LONG)]).await;
    assert!(!joined.already_ended);
    let far = find_marked(&run.session, None).unwrap();
    for found in far {
        run.kill(found.identity).await;
    }
    let exit = run.exit().await;
    assert_eq!(exit.signal, Some(15));
    assert_eq!(exit.survivors, []);
    assert!(exit.stop_requested);
    // What the tree printed while it was being stopped is the run's output.
    assert_eq!(exit.stream_size, run.text("stream.jsonl").len() as u64);
    let left = run.journal().into_iter().find_map(|record| match record {
        JournalRecord::StopEnded { left, .. } => Some(left),
        _ => None,
    });
    assert_eq!(left, Some(Vec::new()));
}

#[tokio::test]
async fn a_survivor_is_climbed_for_after_the_program_has_gone() {
    let script = "setsid sh -c \"trap '' TERM; echo far; while :; do sleep 1; done\" & \
                  echo near; wait";
    let mut run = Run::script(StdinMode::Held, script);
    run.start();
    run.says("far").await;
    run.says("near").await;
    run.stop(vec![signal_rung(15, 1_000), signal_rung(9, LONG)])
        .await;
    let exit = run.exit().await;
    assert_eq!(exit.signal, Some(15));
    assert_eq!(exit.survivors, []);
    assert!(find_marked(&run.session, None).unwrap().is_empty());
    assert_eq!(actions(&run), [15, 9].map(RungAction::Signal));
}

#[tokio::test]
async fn the_polite_end_is_a_delivery_and_its_failure_ends_its_rung_at_once() {
    let polite = |wait_ms| wire::Rung {
        action: Some(Action::EndLine(inline("the-end", "bye\n", 0))),
        wait_ms,
    };
    let mut run = Run::script(StdinMode::Held, "echo up; read line; echo \"said $line\"");
    run.start();
    run.says("up").await;
    run.stop(vec![polite(LONG), signal_rung(9, LONG)]).await;
    let exit = run.exit().await;
    assert_eq!(exit.code, Some(0));
    assert_eq!(actions(&run), [RungAction::EndLine("the-end".into())]);
    assert!(run.text("stream.jsonl").ends_with("said bye\n"));

    let mut run = Run::script(StdinMode::Closable, "exec <&-; echo up; sleep 600");
    run.start();
    run.says("up").await;
    let rungs = vec![
        wire::Rung {
            action: Some(Action::CloseStdin(true)),
            wait_ms: 10,
        },
        polite(LONG),
        signal_rung(9, LONG),
    ];
    run.stop(rungs).await;
    assert_eq!(run.exit().await.signal, Some(9));
}

#[tokio::test]
async fn closing_stdin_is_the_polite_end_of_a_closable_program() {
    let mut run = Run::script(StdinMode::Closable, "echo up; cat; echo end");
    run.start();
    run.says("up").await;
    let close = wire::Rung {
        action: Some(Action::CloseStdin(true)),
        wait_ms: LONG,
    };
    run.stop(vec![close, signal_rung(9, LONG)]).await;
    let exit = run.exit().await;
    assert_eq!(exit.code, Some(0));
    assert!(run.text("stream.jsonl").ends_with("end\n"));
}

#[tokio::test]
async fn a_second_stop_joins_and_one_after_the_end_says_so() {
    let mut run = Run::script(
        StdinMode::Held,
        "trap '' TERM; echo up; while :; do sleep 1; done",
    );
    run.start();
    run.says("up").await;
    run.stop(vec![signal_rung(15, 100), signal_rung(9, LONG)])
        .await;
    run.stop(vec![signal_rung(15, 100), signal_rung(9, LONG)])
        .await;
    assert!(run.status().await.stopping);
    run.exit().await;
    let rungs = actions(&run);
    assert_eq!(rungs, [15, 9].map(RungAction::Signal));
}

#[tokio::test]
async fn one_signal_goes_to_the_whole_tree_and_an_odd_one_is_refused() {
    let script = "setsid sh -c \"trap 'echo far-hit; exit' USR1; echo far; while :; do sleep 0.1; done\" & \
                  trap 'echo near-hit' USR1; echo near; while :; do sleep 0.1; done";
    let mut run = Run::script(StdinMode::Held, script);
    let status = run.start();
    run.says("far").await;
    run.says("near").await;
    let signal = |signal| wire::Signal {
        signal,
        request_id: "sig".into(),
    };
    let client = run.client().await;
    let signalled = client.signal(signal(10), PATIENCE).await.unwrap();
    let program: Identity = status.process.unwrap().into();
    assert_eq!(Identity::from(signalled.targets[0]), program);
    assert!(signalled.targets.len() >= 2);
    run.says("far-hit").await;
    for odd in [0, -9, 99] {
        let client = run.client().await;
        assert!(
            client
                .signal(signal(odd), Duration::from_secs(60))
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn h13_a_keeper_started_inside_a_session_and_its_run_are_no_part_of_it() {
    use muster_proto::keeper::EnvVar;
    let mut inner = Run::script(StdinMode::Held, "echo up; exec sleep 600");
    let spec = muster_host_agent::keeper::frame::encode(&inner.spec);
    let script = "env -i $BIN keeper --stage1 <spec >answer; echo up; sleep 600 & wait";
    let mut outer = Run::script(StdinMode::Held, script);
    std::fs::write(outer.home.path().join("spec"), spec).unwrap();
    outer.spec.env.push(EnvVar {
        name: "BIN".into(),
        value: super::kit::binary().into(),
    });
    outer.start();
    outer.says("up").await;
    inner.says("up").await;
    let record = eventually("the inner run", || inner.dir.proc().unwrap()).await;
    inner.keepers.push(record.keeper);
    // Its keeper dies: the program comes to the outer keeper, and is still not of its tree.
    inner.kill(record.keeper).await;
    inner.adopt().unwrap();
    outer.stop(vec![signal_rung(9, LONG)]).await;
    let exit = outer.exit().await;
    assert_eq!(exit.survivors, []);
    eventually("the end of the outer tree", || {
        let left = find_marked(&outer.session, None).unwrap();
        left.is_empty().then_some(())
    })
    .await;
    assert!(record.process.is_alive().unwrap());
    assert!(inner.status().await.alive);
}
