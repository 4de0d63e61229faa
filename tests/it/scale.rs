//! Many at once: tails of which some are never read, and sessions that a new coordinator takes up again.

use std::time::Duration;

use muster_e2e::api::{Api, next_data};
use muster_e2e::wait::now;
use muster_e2e::{World, eventually, knob};
use muster_proto::public::GetSessionRequest;
use tokio::task::JoinSet;

use crate::world;

const TAILS: usize = 256;
const UNREAD: usize = 32;
const FLOOD: u64 = 3 << 20;

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// How long `count` reads of a session take, each, in order of length.
async fn unary(api: &Api, session: &str, count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..count {
        let start = now();
        let request = GetSessionRequest {
            id: session.to_owned(),
        };
        let mut sessions = api.sessions();
        let answer = tokio::time::timeout(Duration::from_secs(30), sessions.get_session(request));
        answer
            .await
            .expect("a call is not frozen by unread tails")
            .unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    times
}

#[test]
fn tails_that_nobody_reads_freeze_nothing() {
    let world = world();
    let flood = FLOOD.to_string();
    let id = world.detached([world.program(), "flood", &flood, "print", "", "serve"]);
    runtime().block_on(async {
        let control = Api::connect(&world).await;
        let crowded = Api::connect(&world).await;
        let idle = unary(&crowded, &id, 50).await;
        let mut unread = Vec::new();
        for _ in 0..UNREAD {
            unread.push(crowded.follow(&id).await);
        }
        let mut readers = JoinSet::new();
        // One below the limit, so that a call finds room on the same connection.
        for _ in UNREAD..TAILS - 1 {
            let mut tail = crowded.follow(&id).await;
            readers.spawn(async move {
                let mut seen = 0;
                while let Some(data) = next_data(&mut tail).await {
                    seen = data.offset + data.bytes.len() as u64;
                    if data.bytes.ends_with(b"got 1 to all\n") {
                        break;
                    }
                }
                seen
            });
        }
        let elsewhere = unary(&control, &id, 50).await;
        let beside = unary(&crowded, &id, 50).await;
        eprintln!(
            "unary p50/p99: idle {:?}/{:?}, {TAILS} tails beside it {:?}/{:?}, on the same connection {:?}/{:?}",
            idle[25], idle[49], elsewhere[25], elsewhere[49], beside[25], beside[49]
        );
        let sent = world.muster(["send", &id, "to all"]).output();
        let _ = sent.ok();
        while let Some(seen) = readers.join_next().await {
            assert_eq!(seen.unwrap(), FLOOD + 1 + "got 1 to all\n".len() as u64);
        }
        // Those that nobody read are behind, not broken.
        for mut tail in unread {
            let data = next_data(&mut tail).await.expect("the first bytes are there");
            assert_eq!(data.offset, 0);
        }
    });
}

#[test]
fn sessions_are_taken_up_again_by_the_next_coordinator() {
    let sessions = usize::try_from(knob("MUSTER_SCALE_SESSIONS", 30)).unwrap();
    let world = world();
    world.up();
    runtime().block_on(reattach(&world, sessions));
}

async fn reattach(world: &World, sessions: usize) {
    let api = Api::connect(world).await;
    let home = world.home().to_string_lossy().into_owned();
    let mut starts = JoinSet::new();
    let mut ids = Vec::new();
    for number in 0..sessions {
        let (api, home) = (api.clone(), home.clone());
        let script = format!("read -r l; echo \"$l {number}\"; read -r l");
        starts.spawn(async move {
            api.start(&format!("s{number}"), &home, &["bash", "-c", &script])
                .await
                .id
        });
        if starts.len() == 8 {
            ids.push(starts.join_next().await.unwrap().unwrap());
        }
    }
    ids.extend(starts.join_all().await);
    assert_eq!(ids.len(), sessions);
    drop(api);

    let coordinator = world.coordinator_pid().unwrap();
    assert!(world.kill(coordinator));
    let start = now();
    world.up();
    let api = Api::connect(world).await;
    let deadline = start + muster_e2e::DEADLINE;
    loop {
        let live = api.live_sessions().await;
        let attached = live
            .iter()
            .filter(|session| session.process() == muster_proto::public::ProcessState::Alive);
        if attached.count() == sessions {
            break;
        }
        assert!(
            now() < deadline,
            "not all {sessions} sessions are alive again: {} are listed",
            live.len()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eprintln!(
        "{sessions} sessions re-attached after {:?}",
        start.elapsed()
    );

    // Attached means: input goes in and output comes out.
    for id in ids.iter().step_by(sessions.div_ceil(20)) {
        let _ = world.muster(["send", id, "hello"]).output().ok();
        eventually("the program answers", || {
            let tail = world
                .muster(["tail", id, "--raw", "--from", "start"])
                .output()
                .ok();
            tail.text().starts_with("hello ").then_some(())
        });
    }
}
