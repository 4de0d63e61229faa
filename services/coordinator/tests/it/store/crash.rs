//! What was acknowledged is there after the writer was killed (R3).

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use muster_domain::changeset::Chunk;

use super::kit::*;

/// Path of the database, for the process that is to be killed.
const CHILD: &str = "MUSTER_TEST_STORE_CHILD";

/// Ends with its test, however that ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn r3_what_was_acknowledged_survives_kill_9() {
    for acknowledged in [1, 40, 300] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("muster.db");
        let last = kill_after(&path, acknowledged);
        let store = open(&path).await;
        let head = store.bounds(&main()).await.unwrap().head;
        assert!(head >= last, "{head} revisions, {last} acknowledged");
        let state = store.session(session_id(1)).await.unwrap().unwrap();
        assert_eq!(state.version, head);
        let text = format!("{:?}", store.message(message_id(1)).await.unwrap());
        assert!(text.contains(&"x".repeat(usize::try_from(head).unwrap())));
        let mut after = 0;
        loop {
            let batch = store.outbox(&main(), after, 1000).await.unwrap();
            for commit in &batch.commits {
                assert_eq!(commit.revision, after + 1);
                after = commit.revision;
            }
            if batch.commits.is_empty() {
                break;
            }
        }
        assert_eq!(after, head);
        put(&*store, tell(1)).await;
        store.close().await;
    }
}

/// Kills a committing process after so many acknowledgements; gives the last one read.
fn kill_after(path: &std::path::Path, acknowledged: usize) -> u64 {
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "store::crash::commits_until_killed",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let last = lines
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("revision ")?.parse().ok())
        .nth(acknowledged - 1);
    child.0.kill().unwrap();
    last.expect("the child ended by itself")
}

/// The other side: does nothing unless it is the process that is to be killed.
#[tokio::test]
async fn commits_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let store = open(path.as_ref()).await;
    for version in 0_u64.. {
        let mut changeset = if version == 0 {
            add_session(session(1))
        } else {
            move_session(session(1), version)
        };
        let mut message = growing(1, 1, version + 1);
        message.at.offset = 0;
        changeset.messages = vec![message];
        changeset.chunks = vec![Chunk {
            message: message_id(1),
            from: version,
            text: "x".to_owned(),
        }];
        changeset.events = vec![event(1)];
        let revision = put(&*store, changeset).await;
        println!("\nrevision {revision}");
    }
}
