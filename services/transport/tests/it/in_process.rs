use std::time::Duration;

use muster_transport::{BoxIo, Dial as _, DialFault, in_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_stream::StreamExt as _;

use crate::soon;

async fn read(io: &mut BoxIo) -> std::io::Result<u8> {
    soon("a byte", io.read_u8()).await
}

#[tokio::test]
async fn faults_do_what_they_say() {
    let (dial, mut incoming) = in_process();
    let faults = dial.faults();
    let mut client = dial.dial().await.unwrap();
    let mut server = incoming.next().await.unwrap().unwrap();

    server.write_u8(1).await.unwrap();
    assert_eq!(read(&mut client).await.unwrap(), 1);

    // Held while the hole is open, delivered after it, in order.
    faults.black_hole(true);
    server.write_u8(2).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(20), client.read_u8()).await;
    assert!(early.is_err());
    let blocked = tokio::time::timeout(Duration::from_millis(20), client.write_u8(9)).await;
    assert!(blocked.is_err());
    faults.black_hole(false);
    assert_eq!(read(&mut client).await.unwrap(), 2);

    faults.delay(Duration::from_millis(5));
    server.write_u8(3).await.unwrap();
    assert_eq!(read(&mut client).await.unwrap(), 3);
    faults.delay(Duration::ZERO);

    // A cut resets what is open; later connections are whole.
    faults.cut();
    let error = read(&mut client).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let mut client = dial.dial().await.unwrap();
    let mut server = incoming.next().await.unwrap().unwrap();
    client.write_u8(4).await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), 4);

    faults.refuse(Some(DialFault::AuthFailed));
    let error = dial.dial().await.err().unwrap();
    assert_eq!(DialFault::of(&error), DialFault::AuthFailed);
    faults.refuse(None);
    drop(incoming);
    let error = dial.dial().await.err().unwrap();
    assert_eq!(DialFault::of(&error), DialFault::AgentDown);
}

#[tokio::test]
async fn a_cut_wakes_a_waiting_reader() {
    let (dial, mut incoming) = in_process();
    let mut client = dial.dial().await.unwrap();
    let _server = incoming.next().await.unwrap().unwrap();
    let faults = dial.faults();
    let (result, ()) = tokio::join!(read(&mut client), async {
        tokio::task::yield_now().await;
        faults.cut();
    });
    result.unwrap_err();
}
