use std::time::Duration;

use muster_runtime::{Clock, Elapsed, Tasks};

use crate::LONG;

#[tokio::test]
async fn a_manual_clock_moves_by_hand_alone() {
    let (clock, hand) = Clock::manual();
    let tasks = Tasks::new("test");
    let (sleeper, start) = (clock.clone(), clock.boottime());
    let (done, mut is_done) = tokio::sync::oneshot::channel();
    tasks.spawn("sleep", async move {
        sleeper.sleep(Duration::from_secs(3600)).await;
        let _ = done.send(sleeper.boottime());
    });
    hand.wait_for_sleepers(1).await;
    hand.advance(Duration::from_secs(3599));
    tokio::task::yield_now().await;
    assert!(is_done.try_recv().is_err());
    let wall = clock.now_micros();
    hand.advance(Duration::from_secs(1));
    assert_eq!(is_done.await.unwrap(), start + Duration::from_secs(3600));
    assert_eq!(clock.now_micros(), wall + 1_000_000);
    hand.set_wall(0);
    assert_eq!(clock.now_micros(), 0);
    tasks.shutdown(LONG).await.unwrap();
}

#[tokio::test]
async fn timeouts_follow_the_clock() {
    let (clock, hand) = Clock::manual();
    assert_eq!(clock.timeout(Duration::ZERO, async { 7 }).await, Ok(7));
    let waits = clock.timeout(Duration::from_secs(5), std::future::pending::<()>());
    let moves = async {
        hand.wait_for_sleepers(1).await;
        hand.advance(Duration::from_secs(5));
    };
    let (result, ()) = tokio::join!(waits, moves);
    assert_eq!(result, Err(Elapsed));
}

#[tokio::test]
async fn the_system_clock_runs() {
    let clock = Clock::system();
    let (boot, wall) = (clock.boottime(), clock.now_micros());
    clock.sleep(Duration::from_millis(5)).await;
    assert!(clock.boottime() >= boot + Duration::from_millis(5));
    assert!(wall > 1_700_000_000_000_000);
    let late = clock.timeout(Duration::from_millis(1), std::future::pending::<()>());
    assert_eq!(late.await, Err(Elapsed));
}
