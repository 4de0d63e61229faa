//! Golden bytes of the keeper protocol: a keeper of last month serves today's agent.
//!
//! Each line of `golden/keeper_v1.txt` is a name and the bytes of one message, in hex.
//! `MUSTER_REFRESH_GOLDEN=1 cargo test -p muster-proto --test it golden` adds samples that
//! are missing; a line that stands there is never changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Debug, Write as _},
    path::PathBuf,
};

use muster_proto::keeper::{self as k, deliver, event, reply, request, rung, spawn_result};
use prost::Message;

type Check = Box<dyn Fn(&[u8]) -> bool>;

/// One message with the name of its type, and behind a dot what is special about it.
struct Sample {
    name: &'static str,
    bytes: Vec<u8>,
    /// Whether bytes decode to this very message.
    is: Check,
}

fn sample<M: Message + Default + PartialEq + Clone + Debug + 'static>(
    name: &'static str,
    message: M,
) -> Sample {
    Sample {
        name,
        bytes: message.encode_to_vec(),
        is: Box::new(move |bytes| M::decode(bytes).is_ok_and(|decoded| decoded == message)),
    }
}

fn request(call: request::Call) -> k::Request {
    k::Request {
        seq: 300,
        call: Some(call),
    }
}

fn reply(answer: reply::Answer) -> k::Reply {
    k::Reply {
        seq: 300,
        answer: Some(answer),
    }
}

fn deliver() -> k::Deliver {
    k::Deliver {
        delivery_id: "d-1".into(),
        payload: Some(deliver::Payload::Inline("hello\n".into())),
        wait_ms: 2_000,
        single_line: true,
    }
}

fn spooled() -> k::Deliver {
    k::Deliver {
        payload: Some(deliver::Payload::SpoolFile("spool-1".into())),
        ..deliver()
    }
}

fn rung(action: rung::Action) -> k::Rung {
    k::Rung {
        action: Some(action),
        wait_ms: 5_000,
    }
}

fn stop() -> k::Stop {
    k::Stop {
        stop_id: "s-1".into(),
        rungs: vec![
            rung(rung::Action::EndLine(deliver())),
            rung(rung::Action::CloseStdin(true)),
            rung(rung::Action::Signal(15)),
        ],
        requested: true,
    }
}

fn signal() -> k::Signal {
    k::Signal {
        signal: 2,
        request_id: "r-1".into(),
    }
}

fn identity() -> k::ProcessIdentity {
    k::ProcessIdentity {
        pid: 4_242,
        start_ticks: 123_456_789,
    }
}

fn status() -> k::Status {
    k::Status {
        keeper: Some(identity()),
        process: Some(identity()),
        boot_id: "b-1".into(),
        stdin_mode: k::StdinMode::Closable.into(),
        alive: true,
        stdin_closed: true,
        in_flight_delivery_id: "d-1".into(),
        stopping: true,
    }
}

fn outcome() -> k::Outcome {
    k::Outcome {
        delivery_id: "d-1".into(),
        kind: k::OutcomeKind::Busy.into(),
        stream_size_before: 1,
        stream_size_after: 1 << 40,
        bytes_written: 3,
        busy_with: "d-0".into(),
        already: true,
    }
}

fn failure() -> k::Failure {
    k::Failure {
        reason: k::FailureReason::StdinHeld.into(),
        message: "held".into(),
    }
}

fn variable() -> k::EnvVar {
    k::EnvVar {
        name: "NAME".into(),
        value: vec![0xff, b'v'].into(),
    }
}

fn spec() -> k::RunSpec {
    k::RunSpec {
        session_id: "s-1".into(),
        run: 2,
        argv: vec!["program".into(), String::new()],
        cwd: "/w".into(),
        env: vec![variable()],
        stdin_mode: k::StdinMode::Held.into(),
        nofile_soft: 1_024,
        nofile_hard: 1 << 20,
        run_dir: "/r".into(),
    }
}

fn spawn_failure() -> k::SpawnFailure {
    k::SpawnFailure {
        reason: k::SpawnFailureReason::StartedBefore.into(),
        message: "before".into(),
    }
}

fn event(event: event::Event) -> k::Event {
    k::Event { event: Some(event) }
}

fn spawned(result: spawn_result::Result) -> k::SpawnResult {
    k::SpawnResult {
        result: Some(result),
    }
}

fn messages() -> Vec<Sample> {
    let hello = k::Hello {
        protocol_min: 1,
        protocol_max: 2,
        build: "0.1.0".into(),
    };
    let get_delivery = k::GetDelivery {
        delivery_id: "d-1".into(),
    };
    let signalled = k::Signalled {
        targets: vec![identity(), k::ProcessIdentity::default()],
    };
    vec![
        sample("Hello", hello),
        sample("Deliver", deliver()),
        sample("Deliver.spooled", spooled()),
        sample("GetDelivery", get_delivery),
        sample("CloseStdin", k::CloseStdin {}),
        sample("Stop", stop()),
        sample("Rung", rung(rung::Action::Signal(-1))),
        sample("Signal", signal()),
        sample("GetStatus", k::GetStatus {}),
        sample("Watch", k::Watch {}),
        sample(
            "StopStarted",
            k::StopStarted {
                already_ended: true,
            },
        ),
        sample("Signalled", signalled),
        sample("StdinClosed", k::StdinClosed { already: true }),
        sample("ProcessIdentity", identity()),
        sample("Status", status()),
        sample("Outcome", outcome()),
        sample("Event", event(event::Event::Outcome(outcome()))),
        sample("Event.exit", event(event::Event::ExitRecorded(true))),
        sample("Failure", failure()),
        sample("RunSpec", spec()),
        sample("EnvVar", variable()),
        sample(
            "SpawnResult",
            spawned(spawn_result::Result::Started(status())),
        ),
        sample(
            "SpawnResult.failure",
            spawned(spawn_result::Result::Failure(spawn_failure())),
        ),
        sample("SpawnFailure", spawn_failure()),
    ]
}

fn envelopes() -> Vec<Sample> {
    use reply::Answer;
    use request::Call;
    let get_delivery = k::GetDelivery {
        delivery_id: "d-1".into(),
    };
    let signalled = k::Signalled {
        targets: vec![identity()],
    };
    let started = k::StopStarted {
        already_ended: true,
    };
    let closed = k::StdinClosed { already: true };
    let exit = event(event::Event::ExitRecorded(true));
    vec![
        sample("Request", k::Request::default()),
        sample("Request.deliver", request(Call::Deliver(deliver()))),
        sample("Request.close", request(Call::CloseStdin(k::CloseStdin {}))),
        sample("Request.stop", request(Call::Stop(stop()))),
        sample("Request.signal", request(Call::Signal(signal()))),
        sample("Request.status", request(Call::GetStatus(k::GetStatus {}))),
        sample("Request.watch", request(Call::Watch(k::Watch {}))),
        sample("Request.get", request(Call::GetDelivery(get_delivery))),
        sample("Reply", k::Reply::default()),
        sample("Reply.outcome", reply(Answer::Outcome(outcome()))),
        sample("Reply.stop", reply(Answer::StopStarted(started))),
        sample("Reply.signalled", reply(Answer::Signalled(signalled))),
        sample("Reply.status", reply(Answer::Status(status()))),
        sample("Reply.event", reply(Answer::Event(exit))),
        sample("Reply.failure", reply(Answer::Failure(failure()))),
        sample("Reply.closed", reply(Answer::StdinClosed(closed))),
    ]
}

fn samples() -> Vec<Sample> {
    messages().into_iter().chain(envelopes()).collect()
}

fn golden_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/keeper_v1.txt")
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn golden() -> BTreeMap<String, Vec<u8>> {
    let text = std::fs::read_to_string(golden_path()).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(name, bytes)| (name.to_owned(), unhex(bytes.trim())))
        .collect()
}

fn add_missing(golden: &BTreeMap<String, Vec<u8>>) {
    let mut text = std::fs::read_to_string(golden_path()).unwrap_or_default();
    for sample in samples() {
        if !golden.contains_key(sample.name) {
            text.push_str(sample.name);
            text.push(' ');
            for byte in sample.bytes {
                write!(text, "{byte:02x}").unwrap();
            }
            text.push('\n');
        }
    }
    std::fs::write(golden_path(), text).unwrap();
}

#[test]
fn golden_bytes_are_what_this_build_writes_and_reads() {
    if std::env::var_os("MUSTER_REFRESH_GOLDEN").is_some() {
        add_missing(&golden());
    }
    let golden = golden();
    assert_eq!(golden.len(), samples().len());
    for sample in samples() {
        let recorded = &golden[sample.name];
        assert_eq!(*recorded, sample.bytes, "{} is written anew", sample.name);
        assert!((sample.is)(recorded), "{} reads differently", sample.name);
        // A field of a later build: number 1000, length-delimited.
        let mut later = recorded.clone();
        later.extend([0xc2, 0x3e, 3, b'n', b'e', b'w']);
        assert!((sample.is)(&later), "{} refuses additions", sample.name);
    }
}

#[test]
fn golden_bytes_cover_every_message() {
    let set = prost_types::FileDescriptorSet::decode(muster_proto::DESCRIPTORS).unwrap();
    let files = set
        .file
        .iter()
        .filter(|file| file.package() == "muster.keeper.v1");
    let declared: BTreeSet<String> = files
        .flat_map(|file| {
            file.message_type
                .iter()
                .map(|message| message.name().to_owned())
        })
        .collect();
    let sampled = samples().into_iter();
    let sampled: BTreeSet<String> = sampled
        .map(|sample| sample.name.split('.').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(declared, sampled);
}
