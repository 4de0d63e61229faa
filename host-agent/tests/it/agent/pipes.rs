use std::io::Read as _;

use muster_domain::Reason;
use muster_proto::agent::WritePipeRequest;

use super::*;

fn request(path: &Path, data: &[u8], millis: u64) -> WritePipeRequest {
    WritePipeRequest {
        mutation: mutation("w"),
        path: path.to_str().unwrap().to_owned(),
        data: data.to_vec().into(),
        deadline: Some(Duration::from_millis(millis).try_into().unwrap()),
    }
}

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_bytes_go_through_or_their_count_is_told() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("pipe");
    fifo(&path);
    let nobody = clients.pipes().write(request(&path, b"x", 1000)).await;
    assert_eq!(reason(nobody), Reason::NoReader);

    let data: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            std::fs::File::open(path)
                .unwrap()
                .read_to_end(&mut text)
                .unwrap();
            text
        })
    };
    let written = loop {
        match said(clients.pipes().write(request(&path, &data, 30_000)).await) {
            Ok(answer) => break answer.written_bytes,
            Err(fault) => assert_eq!(fault.reason(), Reason::NoReader),
        }
    };
    assert_eq!(written, data.len() as u64);
    assert_eq!(reader.join().unwrap(), data);

    // A reader that reads nothing: the pipe fills up, and the call says how far it came.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let held = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
    let full = said(clients.pipes().write(request(&path, &data, 200)).await).unwrap_err();
    assert_eq!(full.reason(), Reason::PipeDeadline);
    assert_eq!(full.metadata()["written_bytes"], "65536");
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_pipes_below_the_roots_that_are_not_ours_are_written() {
    let (agent, clients) = Agent::start().await;
    let file = agent.user().join("file");
    append(&file, b"");
    let write = |path: PathBuf| {
        let clients = clients.clone();
        async move { reason(clients.pipes().write(request(&path, b"x", 1000)).await) }
    };
    assert_eq!(write(file).await, Reason::NotAFifo);
    assert_eq!(write(agent.user().join("none")).await, Reason::NotFound);
    let ours = agent.home().join("sessions");
    std::fs::create_dir_all(&ours).unwrap();
    fifo(&ours.join("pipe"));
    assert_eq!(write(ours.join("pipe")).await, Reason::ProtectedPath);
    fifo(&agent.path("outside"));
    assert_eq!(write(agent.path("outside")).await, Reason::OutsideRoots);
}
