use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use futures_util::StreamExt as _;

use super::*;
use crate::files::{Roots, RootsConfig};

const PATIENCE: Duration = Duration::from_secs(60);

struct Place {
    folder: tempfile::TempDir,
    tails: Tails,
    tasks: Tasks,
    roots: Arc<Roots>,
}

impl Place {
    fn new(watcher: Option<Watcher>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let roots = Arc::new(Roots::open(&RootsConfig {
            user_home: folder.path().to_owned(),
            agent_home: folder.path().join("none"),
            ..RootsConfig::default()
        }));
        let tasks = Tasks::new("test");
        let mut tails = Tails::new(Clock::system(), &tasks);
        if let Some(watcher) = watcher {
            tails.watcher = watcher;
        }
        Self {
            folder,
            tails,
            tasks,
            roots,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn wanted(&self, name: &str) -> Wanted {
        Wanted {
            name: RootedName {
                roots: self.roots.clone(),
                path: self.path(name).to_str().unwrap().to_owned(),
            },
            framing: Framing::Lines,
            start: Start::Beginning,
            await_creation: false,
            no_follow: false,
            ending: None,
        }
    }
}

fn append(path: &Path, text: &[u8]) {
    let mut file = fs::File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(text).unwrap();
}

async fn read(
    tail: &mut (impl Stream<Item = Result<FollowResponse, Fault>> + Unpin),
    bytes: usize,
) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < bytes {
        let next = tokio::time::timeout(PATIENCE, tail.next()).await.unwrap();
        if let Some(Event::Data(data)) = next.unwrap().unwrap().event {
            text.extend_from_slice(&data.bytes);
        }
    }
    text
}

#[tokio::test]
async fn without_inotify_a_file_is_polled() {
    let place = Place::new(Some(Watcher::none()));
    append(&place.path("log"), b"a\n");
    let mut tail = Box::pin(place.tails.follow(place.wanted("log")).unwrap());
    assert_eq!(read(&mut tail, 2).await, b"a\n");
    append(&place.path("log"), b"b\n");
    assert_eq!(read(&mut tail, 2).await, b"b\n");
}

#[tokio::test]
async fn a_file_far_behind_is_caught_up_while_others_live() {
    let place = Place::new(None);
    let text: Vec<u8> = (0..600_000u32)
        .flat_map(|n| format!("line {n} of many, long enough to count\n").into_bytes())
        .collect();
    fs::write(place.path("old"), &text).unwrap();
    append(&place.path("live"), b"a\n");
    let mut live = Box::pin(place.tails.follow(place.wanted("live")).unwrap());
    assert_eq!(read(&mut live, 2).await, b"a\n");
    let old = (0..4).map(|_| {
        let mut old = Box::pin(place.tails.follow(place.wanted("old")).unwrap());
        let size = text.len();
        async move { read(&mut old, size).await }
    });
    let live = async {
        for _ in 0..20 {
            append(&place.path("live"), b"b\n");
            assert_eq!(read(&mut live, 2).await, b"b\n");
        }
    };
    let (all, ()) = tokio::join!(futures_util::future::join_all(old), live);
    for read in all {
        assert!(read == text);
    }
}

#[tokio::test]
async fn an_idle_tail_is_small_and_its_watches_go_with_it() {
    let place = Place::new(None);
    append(&place.path("log"), b"a\n");
    let tail = place.tails.follow(place.wanted("log")).unwrap();
    let size = std::mem::size_of_val(&tail);
    assert!(size <= 12 * 1024, "a tail takes {size} bytes");
    let mut tail = Box::pin(tail);
    read(&mut tail, 2).await;
    // The first look at the end sets the watches.
    let progress = tokio::time::timeout(PATIENCE, tail.next()).await.unwrap();
    let progress = progress.unwrap().unwrap().event;
    assert!(matches!(progress, Some(Event::Progress(progress)) if progress.at_eof));
    let folder = fs::File::open(place.folder.path()).unwrap();
    let watched = if is_silent(&folder.into()) { 0 } else { 2 };
    assert_eq!(place.tails.watcher.len(), watched);
    drop(tail);
    assert_eq!(place.tails.watcher.len(), 0);
}

#[tokio::test]
async fn shutdown_ends_a_waiting_tail_with_moved() {
    let place = Place::new(None);
    append(&place.path("log"), b"a\n");
    let mut tail = Box::pin(place.tails.follow(place.wanted("log")).unwrap());
    read(&mut tail, 2).await;
    place.tasks.token().cancel();
    loop {
        let next = tokio::time::timeout(PATIENCE, tail.next()).await.unwrap();
        match next.unwrap() {
            Ok(_) => {}
            Err(fault) => {
                assert_eq!(fault.reason(), Reason::Moved);
                break;
            }
        }
    }
    assert!(tail.next().await.is_none());
}
