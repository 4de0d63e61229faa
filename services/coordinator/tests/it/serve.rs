//! The process: where it may start, where it may not, and what it leaves.

use std::{os::unix::fs::PermissionsExt, path::Path};

use muster_coordinator::serve::{Config, StartError, run};
use muster_runtime::{Clock, Tasks};
use muster_transport::LinkConfig;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::world::within;

fn config(folder: &Path) -> Config {
    Config {
        data_dir: folder.join("data"),
        agent_home: folder.join("agent"),
        // No agent can be started here; a coordinator is ready nevertheless.
        agent_program: Some(folder.join("no-such-program")),
        agent_args: Vec::new(),
        agent_env: Vec::new(),
        link: LinkConfig::default(),
    }
}

async fn refused(config: Config) -> StartError {
    let tasks = Tasks::new("refused");
    let end = CancellationToken::new();
    let ran = run(config, Clock::system(), &tasks, end, |_| {
        panic!("it must not become ready")
    });
    within("it is refused", Box::pin(ran)).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_coordinator_per_data_folder_and_it_leaves_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    let first = config(folder.path());
    let socket = first.socket();
    let tasks = Tasks::new("first");
    let end = CancellationToken::new();
    let (ready, is_ready) = oneshot::channel();
    let (over, is_over) = oneshot::channel();
    let (owner, token) = (tasks.clone(), end.clone());
    tasks.spawn("first", async move {
        let told = |address: &str| ready.send(address.to_owned()).unwrap();
        let ran = run(first, Clock::system(), &owner, token, told);
        over.send(Box::pin(ran).await.map_err(|error| error.to_string()))
            .unwrap();
    });
    let address = within("the first is ready", is_ready).await.unwrap();
    assert_eq!(address, format!("unix:{}", socket.display()));
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let second = refused(config(folder.path())).await;
    let pid = std::process::id();
    assert!(matches!(second, StartError::Locked { pid: Some(holder), .. } if holder == pid));
    assert!(second.hint().unwrap().contains("muster down"));

    end.cancel();
    let ran = within("the first ends", is_over).await.unwrap();
    assert_eq!(ran, Ok(()));
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mode = |mode| std::fs::set_permissions(&data, PermissionsExt::from_mode(mode)).unwrap();

    mode(0o777);
    let open = refused(config(folder.path())).await;
    assert!(matches!(open, StartError::Folder { .. }), "{open}");
    assert!(open.hint().is_some());
    mode(0o700);

    let bound = muster_runtime::socket::bind(&data.join("coordinator.sock")).await;
    let (listener, guard) = bound.unwrap();
    let occupied = refused(config(folder.path())).await;
    assert!(matches!(occupied, StartError::Socket { .. }), "{occupied}");
    assert!(occupied.hint().is_some());
    drop((listener, guard));

    std::fs::write(data.join("coordinator.sock"), "a file").unwrap();
    let file = refused(config(folder.path())).await;
    assert!(matches!(file, StartError::Socket { .. }), "{file}");
    assert_eq!(
        std::fs::read_to_string(data.join("coordinator.sock")).unwrap(),
        "a file"
    );

    std::fs::remove_file(data.join("coordinator.sock")).unwrap();
    std::fs::write(data.join("muster.db"), "no database ".repeat(100)).unwrap();
    let damaged = refused(config(folder.path())).await;
    assert!(matches!(damaged, StartError::Store { .. }), "{damaged}");
    assert!(damaged.hint().is_some());
}
