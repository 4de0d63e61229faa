use std::{io, sync::Mutex, time::Duration};

use hyper_util::rt::TokioIo;
use muster_runtime::Clock;
use muster_transport::{
    Connection, Dial as _, DialFault, InProcess, Profile, SERVER_WINDOWS, channel::ConnectError,
    in_process,
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, transport::Endpoint};

use crate::{
    LONG,
    service::{Served, echo, flood, slow},
    soon, until,
};

async fn open(dial: &InProcess, profile: Profile) -> Connection {
    let cut = CancellationToken::new();
    Connection::open(dial, profile, &Clock::system(), LONG, &cut)
        .await
        .expect("a connection")
}

#[test]
fn every_profile_holds_the_window_rule() {
    for profile in Profile::ALL {
        assert!(profile.windows().is_freeze_free(), "{profile:?}");
        assert!(profile.windows().streams < SERVER_WINDOWS.max_streams);
    }
    assert!(SERVER_WINDOWS.is_freeze_free());
}

/// Opens as many floods as the profile allows beside one call, reads none, and calls.
async fn unread_streams_do_not_freeze_calls(profile: Profile, unread: usize) {
    let (dial, incoming) = in_process();
    let served = Served::new(incoming);
    let connection = open(&dial, profile).await;
    let mut streams = Vec::new();
    for _ in 0..unread {
        streams.push(
            soon("a stream", flood(connection.channel()))
                .await
                .expect("a stream"),
        );
    }
    let full = u64::from(profile.windows().stream) * unread as u64;
    until("full windows", || served.bytes.flooded() >= full).await;
    for number in 0..20 {
        let text = format!("call {number}");
        let answer = soon("an answer", echo(connection.channel(), &text)).await;
        assert_eq!(answer.expect("an answer"), text);
    }
    drop(streams);
    served.stop().await;
}

#[tokio::test]
async fn three_unread_control_streams_do_not_freeze_calls() {
    unread_streams_do_not_freeze_calls(Profile::Control, 3).await;
}

#[tokio::test]
async fn all_but_one_control_streams_unread_do_not_freeze_calls() {
    unread_streams_do_not_freeze_calls(Profile::Control, 63).await;
}

#[tokio::test]
async fn h21_255_unread_tails_do_not_freeze_calls() {
    unread_streams_do_not_freeze_calls(Profile::Tails, 255).await;
}

#[tokio::test]
async fn three_unread_reads_of_files_do_not_freeze_calls() {
    unread_streams_do_not_freeze_calls(Profile::Files, 3).await;
}

/// The counter-proof: with the libraries' default windows the same thing hangs. If this
/// fails, the defaults have changed and the test above proves nothing any more.
#[tokio::test]
async fn default_windows_freeze() {
    let (dial, incoming) = in_process();
    let served = Served::new(incoming);
    let io = Mutex::new(Some(TokioIo::new(dial.dial().await.unwrap())));
    let connector = tower::service_fn(move |_| {
        let io = io.lock().unwrap().take();
        async move { io.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)) }
    });
    let endpoint = Endpoint::from_static("http://agent");
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(flood(channel.clone()).await.unwrap());
    }
    until("a full window", || {
        served.bytes.flooded() >= 5 * 1024 * 1024
    })
    .await;
    let call = echo(channel.clone(), "frozen");
    let frozen = tokio::time::timeout(Duration::from_millis(500), call).await;
    assert!(frozen.is_err());
    drop(streams);
    served.stop().await;
}

#[tokio::test]
async fn bytes_are_counted_both_ways() {
    let (dial, incoming) = in_process();
    let served = Served::new(incoming);
    let (clock, hand) = Clock::manual();
    let cut = CancellationToken::new();
    let connection = Connection::open(&dial, Profile::Files, &clock, LONG, &cut)
        .await
        .unwrap();
    let text = "x".repeat(100_000);
    echo(connection.channel(), &text).await.unwrap();
    let traffic = connection.traffic();
    assert!(traffic.inbound() > 100_000 && traffic.outbound() > 100_000);
    assert_eq!(traffic.last_inbound(), Some(clock.boottime()));
    hand.advance(Duration::from_secs(3));
    assert_eq!(
        traffic.last_inbound(),
        Some(clock.boottime() - Duration::from_secs(3))
    );
    echo(connection.channel(), "again").await.unwrap();
    assert_eq!(traffic.last_inbound(), Some(clock.boottime()));
    served.stop().await;
}

#[tokio::test]
async fn a_cut_connection_fails_its_calls_and_never_comes_back() {
    let (dial, incoming) = in_process();
    let served = Served::new(incoming);
    let connection = open(&dial, Profile::Control).await;
    let other = open(&dial, Profile::Control).await;
    let mut stream = flood(connection.channel()).await.unwrap();
    assert!(!connection.is_ended());
    connection.cut();
    soon("the end", connection.ended()).await;
    assert!(connection.is_ended());
    let end = soon("the end of the stream", async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                end => break end,
            }
        }
    });
    end.await.unwrap_err();
    for _ in 0..3 {
        let error = soon("an error", echo(connection.channel(), "late"))
            .await
            .unwrap_err();
        assert!(
            matches!(error.code(), Code::Unavailable | Code::Unknown),
            "{error}"
        );
    }
    assert_eq!(echo(other.channel(), "other").await.unwrap(), "other");
    served.stop().await;
    soon("the other's end", other.ended()).await;
}

#[tokio::test]
async fn permits_are_as_many_as_the_profile_says() {
    let (dial, incoming) = in_process();
    let _served = Served::new(incoming);
    let connection = open(&dial, Profile::Files).await;
    let mut permits: Vec<_> = std::iter::from_fn(|| connection.try_permit()).collect();
    assert_eq!(permits.len(), 4);
    permits.pop();
    assert!(connection.permit().await.is_some());
    permits.push(connection.permit().await.unwrap());
    connection.cut();
    assert!(soon("the end", connection.permit()).await.is_none());
}

#[tokio::test]
async fn a_dial_has_a_deadline_and_a_kind_of_failure() {
    let (dial, _incoming) = in_process();
    let (clock, cut) = (Clock::system(), CancellationToken::new());
    dial.faults().refuse(Some(DialFault::HostKeyRefused));
    let error = Connection::open(&dial, Profile::Control, &clock, LONG, &cut)
        .await
        .unwrap_err();
    assert_eq!(error.fault(), DialFault::HostKeyRefused);
    dial.faults().refuse(None);
    dial.faults().black_hole(true);
    let short = Duration::from_millis(50);
    let error = Connection::open(&dial, Profile::Control, &clock, short, &cut)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut), "{error}");
}

#[tokio::test]
async fn h20_the_257th_stream_of_a_connection_is_refused_not_hung() {
    let (dial, incoming) = in_process();
    let served = Served::new(incoming);
    let connection = open(&dial, Profile::Tails).await;
    let mut streams = Vec::new();
    for _ in 0..256 {
        streams.push(soon("a stream", flood(connection.channel())).await.unwrap());
    }
    let refused = soon("an answer", flood(connection.channel()))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(
        echo(connection.channel(), "beside").await.unwrap(),
        "beside"
    );
    // Another connection has places of its own.
    let other = open(&dial, Profile::Tails).await;
    soon("a stream", flood(other.channel())).await.unwrap();
    // A stream that the client drops gives its place back.
    streams.pop();
    soon("a place", async {
        while flood(connection.channel()).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    served.stop().await;
}

#[tokio::test]
async fn a_stopping_server_lets_a_running_call_end() {
    let (dial, incoming) = in_process();
    let served = Served::with_drain(incoming, LONG);
    let connection = open(&dial, Profile::Control).await;
    let call = slow(connection.channel(), "in time");
    let stops = async {
        until("the call", || served.bytes.slow() == 1).await;
        served.tasks.token().cancel();
        tokio::task::yield_now().await;
        served.bytes.release();
    };
    let (answer, ()) = soon("the answer", async { tokio::join!(call, stops) }).await;
    assert_eq!(answer.unwrap(), "in time");
    served.tasks.shutdown(LONG).await.unwrap();
    soon("the end", connection.ended()).await;
}
