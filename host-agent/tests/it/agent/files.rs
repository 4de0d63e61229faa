use std::{
    os::{fd::AsRawFd as _, unix::fs::symlink},
    time::Duration,
};

use muster_domain::Reason;
use muster_proto::agent::{
    self as pb, FileKind, HeadRequest, ListRequest, ReadRequest, StatRequest, WriteRequest,
    WriteStart, write_request::Part,
};
use sha2::Digest as _;

use super::*;

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

async fn stat(clients: &Clients, path: &str) -> Result<pb::StatResponse, Fault> {
    let request = StatRequest {
        path: path.to_owned(),
        no_follow: false,
    };
    let answer = tokio::time::timeout(PATIENCE, clients.files().stat(request)).await;
    said(answer.expect("stat hangs"))
}

async fn read(
    clients: &Clients,
    path: &str,
    offset: i64,
    length: Option<u64>,
) -> Result<(Vec<u8>, Option<u64>), Fault> {
    let request = ReadRequest {
        path: path.to_owned(),
        offset,
        length,
    };
    let opened = tokio::time::timeout(PATIENCE, clients.files().read(request)).await;
    let mut chunks = said(opened.expect("read hangs"))?;
    let mut all = Vec::new();
    let mut size = None;
    while let Some(chunk) = chunks.message().await.unwrap() {
        size = size.or(chunk.file_size);
        all.extend_from_slice(&chunk.data);
    }
    Ok((all, size))
}

async fn write(
    clients: &Clients,
    start: WriteStart,
    parts: &[&[u8]],
) -> Result<pb::WriteResponse, Fault> {
    let mut messages = vec![WriteRequest {
        part: Some(Part::Start(start)),
    }];
    messages.extend(parts.iter().map(|part| WriteRequest {
        part: Some(Part::Data(part.to_vec().into())),
    }));
    said(clients.files().write(tokio_stream::iter(messages)).await)
}

fn start(path: &Path) -> WriteStart {
    WriteStart {
        mutation: mutation("w"),
        path: text(path),
        must_not_exist: false,
        sha256: bytes::Bytes::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h20_a_message_above_the_limit_is_no_compacted_revision() {
    let (agent, clients) = Agent::start().await;
    let large = vec![b'x'; 2 * muster_domain::limits::GRPC_DECODE_BYTES];
    let request = ReadRequest {
        path: String::from_utf8(large.clone()).unwrap(),
        offset: 0,
        length: None,
    };
    let refused = clients.files().read(request).await.unwrap_err();
    let start = WriteRequest {
        part: Some(Part::Start(start(&agent.user().join("file")))),
    };
    let data = WriteRequest {
        part: Some(Part::Data(large.into())),
    };
    let parts = tokio_stream::iter([start, data]);
    let in_the_middle = clients.files().write(parts).await.unwrap_err();
    for status in [refused, in_the_middle] {
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
        assert_eq!(
            muster_proto::fault::from_agent(&status).reason(),
            Reason::TooLarge
        );
    }
    assert!(clients.hello().await.is_ok(), "the connection goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_heads_and_descriptions() {
    let (agent, clients) = Agent::start().await;
    let data: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    let path = agent.user().join("data");
    std::fs::write(&path, &data).unwrap();
    let whole = read(&clients, "~/data", 0, None).await.unwrap();
    assert_eq!(whole, (data.clone(), Some(1_000_000)));
    let middle = read(&clients, &text(&path), 300_000, Some(10))
        .await
        .unwrap()
        .0;
    assert_eq!(middle, &data[300_000..300_010]);
    let end = read(&clients, "~/data", -5, None).await.unwrap().0;
    assert_eq!(end, &data[999_995..]);
    let beyond = read(&clients, "~/data", 2_000_000, None).await.unwrap();
    assert_eq!(beyond, (Vec::new(), Some(1_000_000)));
    let head = HeadRequest {
        path: "~/data".into(),
        length: 7,
    };
    let head = said(clients.files().head(head).await).unwrap();
    assert_eq!((&head.data[..], head.file_size), (&data[..7], 1_000_000));
    let stat = stat(&clients, "~/data").await.unwrap();
    assert_eq!(stat.resolved_path, text(&path));
    let info = stat.info.unwrap();
    assert_eq!(info.kind(), FileKind::File);
    assert_eq!((info.name.as_str(), info.size_bytes), ("data", 1_000_000));
    assert_eq!(stat.generation.unwrap().head_bytes, 4096);
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_paths_stay_below_the_roots() {
    let (agent, clients) = Agent::start().await;
    let user = agent.user();
    std::fs::create_dir_all(user.join("in/deep")).unwrap();
    append(&user.join("in/file"), b"x");
    append(&agent.path("secret"), b"x");
    symlink("/etc", user.join("abs")).unwrap();
    symlink("../secret", user.join("rel")).unwrap();
    symlink("in/file", user.join("fine")).unwrap();
    symlink(user.join("in/file"), user.join("fine-abs")).unwrap();
    symlink("loop", user.join("loop")).unwrap();
    for fine in ["~/fine", "~/fine-abs", "~/in/deep/../file", "~", "~/"] {
        stat(&clients, fine)
            .await
            .unwrap_or_else(|fault| panic!("{fine}: {fault}"));
    }
    for (path, expected) in [
        ("/etc/passwd", Reason::OutsideRoots),
        ("~/../secret", Reason::OutsideRoots),
        ("~/in/../../secret", Reason::OutsideRoots),
        ("~/../nothing-there", Reason::OutsideRoots),
        ("~/abs/passwd", Reason::OutsideRoots),
        ("~/rel", Reason::OutsideRoots),
        ("~/loop", Reason::InvalidPath),
        ("~/none", Reason::NotFound),
        ("~/in/file/x", Reason::NotFound),
        ("relative", Reason::InvalidPath),
        ("", Reason::InvalidPath),
        ("~other/x", Reason::InvalidPath),
        ("~/a\0b", Reason::InvalidPath),
        (&format!("~/{}", "x".repeat(300)), Reason::InvalidPath),
        (&format!("~/{}", "x/".repeat(3000)), Reason::InvalidPath),
    ] {
        let fault = stat(&clients, path).await.unwrap_err();
        assert_eq!(fault.reason(), expected, "{path:?}: {fault}");
    }
    let link = StatRequest {
        path: "~/abs".into(),
        no_follow: true,
    };
    let link = said(clients.files().stat(link).await)
        .unwrap()
        .info
        .unwrap();
    assert_eq!(
        (link.kind(), link.link_target.as_str()),
        (FileKind::Symlink, "/etc")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_special_files_are_refused_and_never_block() {
    let (agent, clients) = Agent::start().await;
    let fifo = agent.user().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    // Through the folder's handle: the path may be longer than an address of a socket.
    let user = std::fs::File::open(agent.user()).unwrap();
    let socket = format!("/proc/self/fd/{}/socket", user.as_raw_fd());
    let _socket = std::os::unix::net::UnixListener::bind(socket).unwrap();
    for path in ["~/fifo", "~/socket", "~"] {
        let fault = read(&clients, path, 0, None).await.unwrap_err();
        assert_eq!(fault.reason(), Reason::NotAFile, "{path}");
    }
    assert_eq!(
        stat(&clients, "~/fifo").await.unwrap().info.unwrap().kind(),
        FileKind::Fifo
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_what_is_musters_own_is_hidden_but_runs_are_readable() {
    let hidden = tempfile::tempdir().unwrap();
    let hidden = hidden.path().canonicalize().unwrap();
    append(&hidden.join("database"), b"x");
    let (agent, clients) = Agent::with(&[
        "--root",
        hidden.to_str().unwrap(),
        "--hide",
        hidden.to_str().unwrap(),
    ])
    .await;
    let run = agent.home().join("sessions/x/runs/1");
    std::fs::create_dir_all(&run).unwrap();
    append(&run.join("stream.jsonl"), b"line\n");
    let stream = text(&run.join("stream.jsonl"));
    assert_eq!(read(&clients, &stream, 0, None).await.unwrap().0, b"line\n");
    for path in [
        hidden.join("database"),
        agent.home().join("lock"),
        agent.home().join("agent.sock"),
    ] {
        let fault = read(&clients, &text(&path), 0, None).await.unwrap_err();
        assert_eq!(fault.reason(), Reason::HiddenPath, "{}", path.display());
    }
    symlink(agent.home().join("epoch"), agent.user().join("way-around")).unwrap();
    let fault = read(&clients, "~/way-around", 0, None).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::HiddenPath);
    for path in [run.join("stream.jsonl"), agent.home().join("epoch")] {
        let fault = write(&clients, start(&path), &[b"x"]).await.unwrap_err();
        assert!(
            matches!(fault.reason(), Reason::ProtectedPath | Reason::HiddenPath),
            "{fault}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_10000_names_is_paged_in_order() {
    let (agent, clients) = Agent::start().await;
    let folder = agent.user().join("many");
    std::fs::create_dir(&folder).unwrap();
    let mut names: Vec<String> = (0..10_000)
        .map(|n| format!("{}-{n}", n * 7919 % 10_007))
        .collect();
    for name in &names {
        std::fs::File::create(folder.join(name)).unwrap();
    }
    names.sort();
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let request = ListRequest {
            path: "~/many".into(),
            page_size: 3_000,
            page_token: token,
        };
        let page = said(clients.files().list(request).await).unwrap();
        assert!(page.entries.len() <= 3_000);
        seen.extend(page.entries.into_iter().map(|entry| entry.name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, names);
    for (path, token, expected) in [
        ("~/many", "zz", Reason::BadPageToken),
        ("~/many", "abc", Reason::BadPageToken),
        ("~/many/0-0", "", Reason::NotADirectory),
        ("~/none", "", Reason::NotFound),
    ] {
        let request = ListRequest {
            path: path.into(),
            page_size: 0,
            page_token: token.into(),
        };
        assert_eq!(reason(clients.files().list(request).await), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_whole_or_not_at_all() {
    let (agent, clients) = Agent::start().await;
    let path = agent.user().join("file");
    let written = write(&clients, start(&path), &[b"hello ", b"world"])
        .await
        .unwrap();
    assert_eq!(written.size_bytes, 11);
    assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let checked = |sum: &[u8]| WriteStart {
        sha256: sum.to_vec().into(),
        ..start(&path)
    };
    let wrong = write(&clients, checked(&[0; 32]), &[b"new"])
        .await
        .unwrap_err();
    assert_eq!(wrong.reason(), Reason::ChecksumMismatch);
    assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
    write(&clients, checked(&sha2::Sha256::digest(b"new")), &[b"new"])
        .await
        .unwrap();
    let exclusive = WriteStart {
        must_not_exist: true,
        ..start(&path)
    };
    assert!(write(&clients, exclusive, &[b"x"]).await.is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"new");

    // A link is replaced; what it points to is not touched.
    append(&agent.path("target"), b"target");
    let link = agent.user().join("link");
    symlink("../target", &link).unwrap();
    write(&clients, start(&link), &[b"mine"]).await.unwrap();
    assert_eq!(std::fs::read(agent.path("target")).unwrap(), b"target");
    assert_eq!(std::fs::read(&link).unwrap(), b"mine");

    for (path, expected) in [
        (agent.path("outside"), Reason::OutsideRoots),
        (agent.user().join("none/file"), Reason::NotFound),
        (agent.user().join(".."), Reason::InvalidPath),
    ] {
        let fault = write(&clients, start(&path), &[b"x"]).await.unwrap_err();
        assert_eq!(fault.reason(), expected, "{}", path.display());
    }
    let stale = WriteStart {
        mutation: Some(pb::Mutation {
            epoch: 0,
            ..mutation("w").unwrap()
        }),
        ..start(&path)
    };
    assert!(write(&clients, stale, &[b"x"]).await.is_err());
    let left: Vec<_> = std::fs::read_dir(agent.user()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_beats_go_both_ways() {
    let (_agent, clients) = Agent::start().await;
    let ours = async_stream::stream! {
        for beat in 1.. {
            yield pb::WatchRequest { beat };
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let mut theirs = said(clients.host().watch(ours).await).unwrap();
    let (mut beats, mut limits) = (0, false);
    while beats < 2 || !limits {
        let event = tokio::time::timeout(PATIENCE, theirs.message());
        match event.await.unwrap().unwrap().unwrap().event.unwrap() {
            pb::watch_response::Event::Beat(beat) => {
                beats += 1;
                assert_eq!(beat.beat, beats);
                assert!(beats == 1 || beat.echo > 0);
            }
            pb::watch_response::Event::Limits(found) => {
                limits = true;
                assert!(found.open_files_max > 0 && found.disk_total_bytes > 0);
            }
            pb::watch_response::Event::Moved(_) => panic!("moved"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_versions_are_negotiated_and_h8_a_second_start_joins_the_first() {
    let (agent, clients) = Agent::start().await;
    let hello = clients.hello().await.unwrap();
    assert_eq!(hello.protocol, 1);
    assert_eq!(hello.agent_home, text(&agent.home()));
    assert_eq!(u32::try_from(hello.pid).unwrap(), agent.pid());
    let fault = clients.hello_as(2, 5, 1).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::Incompatible);
    assert_eq!(fault.metadata()["protocol_max"], "1");
    let second = Command::new(env!("CARGO_BIN_EXE_muster-agent"))
        .arg("--home")
        .arg(agent.home())
        .arg("--user-home")
        .arg(agent.user())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(second.status.success(), "{second:?}");
    assert_eq!(
        clients.hello().await.unwrap().instance_id,
        hello.instance_id
    );
}
