//! How long a line is on its way, beside `tail -F`; how fast a file is read, beside a raw stream; what waiting costs.
//!
//! `cargo bench -p muster-e2e --bench tail`. Rounds alternate between Muster and its peer, so that whatever else the
//! machine does meets both. Nothing is asserted: figures are read by people.
#![allow(clippy::print_stderr, reason = "progress of a long run")]

#[path = "tail/figures.rs"]
mod figures;
#[path = "tail/raw.rs"]
mod raw;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use figures::{Row, Times};
use muster_e2e::api::{Api, next_data};
use muster_e2e::wait::boottime_ns;
use muster_e2e::{Binaries, World, eventually, knob, processes};
use muster_proto::agent;
use muster_proto::agent::files_service_client::FilesServiceClient as AgentFilesClient;
use muster_proto::agent::tails_service_client::TailsServiceClient;
use muster_proto::public::feed_service_client::FeedServiceClient;
use muster_proto::public::files_service_client::FilesServiceClient;
use muster_proto::public::{
    ReadFileRequest, Session, SessionStatus, SubscribeRequest, SubscribeResponse, SubscribeSession,
    feed_event, part, subscribe_request, subscribe_response,
};
use muster_runtime::Clock;
use muster_transport::{Connection, Profile, Unix};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

const BINARIES: Binaries = Binaries {
    muster: env!("CARGO_BIN_EXE_muster-under-test"),
    program: env!("CARGO_BIN_EXE_fake-program"),
};

fn main() -> anyhow::Result<()> {
    let world = World::new(BINARIES);
    world.up();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // On a worker, as every reader of a daemon: the thread that blocks here would be one more to wake for each line.
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn_on(measure(world), runtime.handle());
    let measured = runtime.block_on(tasks.join_next());
    let rows = measured.context("the measuring task has a result")???;
    figures::report(&rows)
}

async fn measure(world: World) -> anyhow::Result<Vec<Row>> {
    let rounds = knob("MUSTER_BENCH_ROUNDS", 5);
    let api = Api::connect(&world).await;
    let bench = Bench { world, api };
    let mut rows = Vec::new();
    if wanted("latency") {
        rows.extend(bench.latencies(rounds).await?);
    }
    if wanted("bulk") {
        rows.extend(bench.bulk(rounds).await?);
    }
    if wanted("memory") {
        rows.extend(bench.memory().await?);
    }
    Ok(rows)
}

/// Whether a part is to be measured: all are, unless `MUSTER_BENCH_ONLY` names some.
fn wanted(part: &str) -> bool {
    let only = std::env::var("MUSTER_BENCH_ONLY").unwrap_or_default();
    only.is_empty() || only.split(',').any(|named| named.trim() == part)
}

struct Bench {
    world: World,
    api: Api,
}

impl Bench {
    async fn start(&self, key: &str, argv: &[&str]) -> Session {
        let home = self.world.home().to_string_lossy().into_owned();
        let argv: Vec<&str> = [self.world.program()]
            .into_iter()
            .chain(argv.iter().copied())
            .collect();
        self.api.start(key, &home, &argv).await
    }

    async fn latencies(&self, rounds: u64) -> anyhow::Result<Vec<Row>> {
        let (mut ours, mut lines, mut peer) =
            (Times::default(), Times::default(), Times::default());
        let (mut previews, mut ends) = (Times::default(), Times::default());
        let mut spent = 0;
        for round in 0..rounds {
            eprintln!("round {} of {rounds}", round + 1);
            ours.append(&mut self.tail(&format!("tail-{round}")).await);
            let before = self.agent_processor_ns()?;
            lines.append(&mut self.agent_tail(&format!("agent-{round}")).await?);
            spent += self.agent_processor_ns()?.saturating_sub(before);
            peer.append(&mut self.tail_f(&format!("peer-{round}")).await?);
            previews.append(&mut self.preview(&format!("feed-{round}")).await?);
            for number in 0..10 {
                ends.add_ns(self.exit(&format!("exit-{round}-{number}")).await?);
            }
        }
        let beside = Some(("tail -F", &mut peer));
        let agent = figures::latency("append → agent client, 100 lines/s", &mut lines, beside);
        let beside = Some(("tail -F", &mut peer));
        Ok(vec![
            agent,
            figures::latency(
                "append → client of the coordinator, 100 lines/s",
                &mut ours,
                beside,
            ),
            figures::latency(
                "append → preview at a feed subscriber, 5 lines/s",
                &mut previews,
                None,
            ),
            figures::latency("last line and exit → committed and pushed", &mut ends, None),
            figures::spent(
                "processor time of the agent per line, two readers",
                spent / (lines.len() as u64).max(1),
            ),
        ])
    }

    fn agent_processor_ns(&self) -> anyhow::Result<u64> {
        let pid = self.world.agent_pid().context("the agent runs")?;
        processes::processor_ns(pid).context("the agent's threads are seen")
    }

    /// 300 lines at 100 a second, through the public API.
    async fn tail(&self, key: &str) -> Times {
        let session = self.start(key, &["ticks", "10x300"]).await;
        let mut tail = self.api.follow(&session.id).await;
        let mut times = Times::default();
        let mut rest = Vec::new();
        while let Some(data) = next_data(&mut tail).await {
            rest.extend_from_slice(&data.bytes);
            take_ticks(&mut rest, &mut times);
        }
        times
    }

    /// The same, as the coordinator follows it: whole lines from the agent, on a connection for tails.
    async fn agent_tail(&self, key: &str) -> anyhow::Result<Times> {
        let session = self.start(key, &["ticks", "10x300"]).await;
        let connection = self.agent(Profile::Tails).await?;
        let run = agent::RunRef {
            session_id: session.id,
            run: 1,
        };
        let request = agent::FollowRequest {
            target: Some(agent::follow_request::Target::Run(agent::RunTarget {
                run: Some(run),
                file: agent::RunFile::Stdout.into(),
            })),
            framing: agent::Framing::Lines.into(),
            start: Some(agent::follow_request::Start::Beginning(true)),
            ..agent::FollowRequest::default()
        };
        let mut tails = TailsServiceClient::new(connection.channel());
        let mut tail = tails.follow(request).await?.into_inner();
        let mut times = Times::default();
        let mut rest = Vec::new();
        while let Some(answer) = tail.message().await? {
            match answer.event {
                Some(agent::follow_response::Event::Data(data)) => {
                    rest.extend_from_slice(&data.bytes);
                    take_ticks(&mut rest, &mut times);
                }
                Some(agent::follow_response::Event::End(_)) => break,
                _ => {}
            }
        }
        Ok(times)
    }

    async fn agent(&self, profile: Profile) -> anyhow::Result<Connection> {
        let dial = Unix::new(self.world.agent().join("agent.sock"));
        let clock = Clock::system();
        let cut = CancellationToken::new();
        Ok(Connection::open(&dial, profile, &clock, PATIENCE, &cut).await?)
    }

    /// The same, through `tail -F` on the file that the program writes.
    async fn tail_f(&self, key: &str) -> anyhow::Result<Times> {
        let session = self.start(key, &["ticks", "10x300"]).await;
        let file = self.world.run_folder(&session.id, 1).join("stream.jsonl");
        let read = move || -> anyhow::Result<Times> {
            let mut peer = Command::new("tail")
                .args(["-c", "+1", "-s", "0.01", "-F"])
                .arg(&file)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .context("start tail")?;
            let mut times = Times::default();
            let mut lines = BufReader::new(peer.stdout.take().context("stdout is piped")?);
            let mut line = Vec::new();
            while times.len() < 300 && lines.read_until(b'\n', &mut line)? > 0 {
                take_ticks(&mut line, &mut times);
            }
            peer.kill()?;
            peer.wait()?;
            Ok(times)
        };
        tokio::task::spawn_blocking(read).await?
    }

    async fn subscribe(
        &self,
        session: &str,
    ) -> anyhow::Result<(Streaming<SubscribeResponse>, impl Sized + use<>)> {
        let (commands, requests) = tokio::sync::mpsc::channel(4);
        let subscribe = SubscribeRequest {
            id: 1,
            command: Some(subscribe_request::Command::SubscribeSession(
                SubscribeSession {
                    session_id: session.to_owned(),
                    ..SubscribeSession::default()
                },
            )),
        };
        commands.send(subscribe).await?;
        let mut feed = FeedServiceClient::new(self.api.channel());
        let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
        Ok((feed.subscribe(requests).await?.into_inner(), commands))
    }

    /// 15 lines at 5 a second, as growing text at a subscriber of the feed.
    async fn preview(&self, key: &str) -> anyhow::Result<Times> {
        let session = self.start(key, &["ticks", "200x15"]).await;
        let (mut feed, _open) = self.subscribe(&session.id).await?;
        let mut times = Times::default();
        let mut rest = Vec::new();
        let mut live = false;
        while let Some(answer) = feed.message().await? {
            match answer.frame {
                Some(subscribe_response::Frame::SnapshotEnd(_)) => live = true,
                Some(subscribe_response::Frame::Event(event)) if live => {
                    if ended(event.event.as_ref()) {
                        break;
                    }
                    rest.extend_from_slice(text_of(event.event).as_bytes());
                    take_ticks(&mut rest, &mut times);
                }
                _ => {}
            }
        }
        Ok(times)
    }

    /// From the program's last line, written right before its end, to the event that says so.
    async fn exit(&self, key: &str) -> anyhow::Result<u64> {
        let session = self.start(key, &["ticks", "300x1"]).await;
        let (mut feed, _open) = self.subscribe(&session.id).await?;
        while let Some(answer) = feed.message().await? {
            if let Some(subscribe_response::Frame::Event(event)) = answer.frame
                && ended(event.event.as_ref())
            {
                let now = boottime_ns();
                let file = self.world.run_folder(&session.id, 1).join("stream.jsonl");
                let mut written = Times::default();
                take_ticks_at(&mut std::fs::read(file)?, now, &mut written);
                return Ok(written.quantile(1.0));
            }
        }
        anyhow::bail!("the feed ended before the session")
    }

    /// A file of 512 MiB from the agent and through the coordinator, beside constant bytes over a raw stream.
    async fn bulk(&self, rounds: u64) -> anyhow::Result<Vec<Row>> {
        let bytes = knob("MUSTER_BENCH_BYTES", 512 << 20);
        let path = self.world.home().join("bulk");
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
        muster_e2e::pattern::write(&mut file, bytes)?;
        drop(file);
        let path = path.to_string_lossy();
        let socket = self.world.root().join("raw.sock");
        let server = raw::Server::start(&socket)?;
        let (mut ours, mut agents, mut peer) =
            (Times::default(), Times::default(), Times::default());
        let mut spent = 0;
        for _ in 0..rounds {
            ours.add_ns(self.read(&path, bytes).await?);
            peer.add_ns(server.read(bytes).await?);
            let before = self.agent_processor_ns()?;
            agents.add_ns(self.read_from_agent(&path, bytes).await?);
            spent += self.agent_processor_ns()?.saturating_sub(before);
        }
        let read = bytes.saturating_mul(rounds).max(1);
        let per_mib = spent.saturating_mul(1 << 20) / read;
        let rate =
            |times: &mut Times| bytes.saturating_mul(1_000_000_000) / times.quantile(0.5).max(1);
        let raw = rate(&mut peer);
        Ok(vec![
            figures::rate(
                "bulk read from the agent",
                rate(&mut agents),
                "raw stream",
                raw,
            ),
            figures::rate(
                "bulk read through the coordinator",
                rate(&mut ours),
                "raw stream",
                raw,
            ),
            figures::spent("processor time of the agent per MiB read", per_mib),
        ])
    }

    async fn read_from_agent(&self, path: &str, bytes: u64) -> anyhow::Result<u64> {
        let connection = self.agent(Profile::Files).await?;
        let mut files = AgentFilesClient::new(connection.channel());
        let start = boottime_ns();
        let request = agent::ReadRequest {
            path: path.to_owned(),
            ..agent::ReadRequest::default()
        };
        let mut parts = files.read(request).await?.into_inner();
        let mut seen = 0;
        while let Some(part) = parts.message().await? {
            seen += part.data.len() as u64;
        }
        anyhow::ensure!(seen == bytes, "{seen} bytes came instead of {bytes}");
        Ok(boottime_ns() - start)
    }

    async fn read(&self, path: &str, bytes: u64) -> anyhow::Result<u64> {
        let mut files =
            FilesServiceClient::new(self.api.channel()).max_decoding_message_size(8 << 20);
        let start = boottime_ns();
        let request = ReadFileRequest {
            host: "local".to_owned(),
            path: path.to_owned(),
            ..ReadFileRequest::default()
        };
        let mut parts = files.read_file(request).await?.into_inner();
        let mut seen = 0;
        while let Some(part) = parts.message().await? {
            seen += part.data.len() as u64;
        }
        anyhow::ensure!(seen == bytes, "{seen} bytes came instead of {bytes}");
        Ok(boottime_ns() - start)
    }

    async fn memory(&self) -> anyhow::Result<Vec<Row>> {
        let mut ids = Vec::new();
        for number in 0..100 {
            ids.push(self.start(&format!("idle-{number}"), &["serve"]).await.id);
        }
        let mut tails = Vec::new();
        for at in 0..250 {
            tails.push(self.api.follow(&ids[at % ids.len()]).await);
        }
        let keeper = eventually("a keeper runs", || self.world.keeper_pid(&ids[0], 1));
        let coordinator = self
            .world
            .coordinator_pid()
            .context("the coordinator runs")?;
        let agent = self.world.agent_pid().context("the agent runs")?;
        let named = [
            ("memory: keeper", keeper),
            ("memory: agent, 100 sessions, 350 idle tails", agent),
            (
                "memory: coordinator, 100 idle sessions, 250 tails",
                coordinator,
            ),
        ];
        let rows = named.into_iter().map(|(name, pid)| {
            let (now, peak) = processes::memory(pid).context("the process runs")?;
            Ok(figures::memory(name, now, peak))
        });
        rows.collect()
    }
}

fn ended(event: Option<&feed_event::Event>) -> bool {
    let Some(feed_event::Event::SessionChanged(changed)) = event else {
        return false;
    };
    changed.session.as_ref().is_some_and(|session| {
        matches!(
            session.status(),
            SessionStatus::Exited | SessionStatus::Failed | SessionStatus::Lost
        )
    })
}

fn text_of(event: Option<feed_event::Event>) -> String {
    match event {
        Some(feed_event::Event::MessageAdded(added)) => {
            let parts = added
                .message
                .map(|message| message.parts)
                .unwrap_or_default();
            let texts = parts.into_iter().filter_map(|part| match part.part {
                Some(part::Part::Text(text)) => Some(text),
                _ => None,
            });
            texts.collect()
        }
        Some(feed_event::Event::MessageDelta(delta)) => delta.text,
        _ => String::new(),
    }
}

/// Takes whole lines off the front and notes how old each is.
fn take_ticks(bytes: &mut Vec<u8>, times: &mut Times) {
    take_ticks_at(bytes, boottime_ns(), times);
}

fn take_ticks_at(bytes: &mut Vec<u8>, now: u64, times: &mut Times) {
    let whole = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    for line in bytes[..whole].split(|&byte| byte == b'\n') {
        let written = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.strip_prefix("t ")?.parse::<u64>().ok());
        if let Some(written) = written {
            times.add_ns(now.saturating_sub(written));
        }
    }
    bytes.drain(..whole);
}

/// How long a benchmark waits for a peer to come up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
