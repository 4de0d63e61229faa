use std::{io, os::unix::fs::PermissionsExt, path::PathBuf};

use muster_runtime::socket::{BindError, bind, connect};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::folder;

#[tokio::test]
async fn h15_the_socket_is_private_and_removed_at_the_end() {
    let folder = folder();
    let path = folder.path().join("run/agent.sock");
    let (listener, guard) = bind(&path).await.unwrap();
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.clone()), 0o600);
    assert_eq!(mode(folder.path().join("run")), 0o700);
    let (client, server) = tokio::join!(connect(&path), listener.accept());
    let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
    client.write_all(b"hi").await.unwrap();
    let mut bytes = [0; 2];
    server.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hi");
    assert_eq!(guard.path(), path);
    drop(guard);
    assert!(!path.exists());
    let error = connect(&path).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_living_socket_is_occupied_and_a_stale_one_replaced() {
    let folder = folder();
    let path = folder.path().join("run/agent.sock");
    let (listener, guard) = bind(&path).await.unwrap();
    let error = bind(&path).await.unwrap_err();
    assert!(matches!(error, BindError::Occupied { .. }), "{error}");
    drop(listener);
    let error = connect(&path).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let (_listener, _second) = bind(&path).await.unwrap();
    // The first owner ends late: the name is another's now.
    drop(guard);
    connect(&path).await.unwrap();
}

#[tokio::test]
async fn of_two_starters_on_a_stale_socket_one_wins() {
    let folder = folder();
    let path = folder.path().join("run/agent.sock");
    let (listener, guard) = bind(&path).await.unwrap();
    guard.keep();
    drop(listener);
    let (one, two) = tokio::join!(bind(&path), bind(&path));
    assert!(one.is_ok() != two.is_ok());
    connect(&path).await.unwrap();
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("run/agent.sock");
    std::fs::create_dir(folder.path().join("run")).unwrap();
    std::fs::set_permissions(folder.path().join("run"), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let error = bind(&path).await.unwrap_err();
    assert!(matches!(error, BindError::NotASocket { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[tokio::test]
async fn an_open_folder_is_refused() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("run")).unwrap();
    std::fs::set_permissions(folder.path().join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    let error = bind(&folder.path().join("run/agent.sock"))
        .await
        .unwrap_err();
    assert!(matches!(error, BindError::Folder(_)), "{error}");
}

#[tokio::test]
async fn a_path_longer_than_an_address_works() {
    let folder = folder();
    let long = folder.path().join("d".repeat(120)).join("e".repeat(120));
    let path = long.join("agent.sock");
    let (listener, guard) = bind(&path).await.unwrap();
    let (client, server) = tokio::join!(connect(&path), listener.accept());
    client.unwrap();
    server.unwrap();
    assert!(matches!(bind(&path).await, Err(BindError::Occupied { .. })));
    drop(guard);
    assert!(!path.exists());
}
