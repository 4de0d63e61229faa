//! A host agent without processes: what it reports is what a test scripts. It speaks the
//! agent's contract over in-process connections, so that what is tested above it is whole.

mod files;
mod processes;
mod tails;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use muster_domain::{
    Fault, Reason, SessionId, Timestamp,
    delivery::Answer,
    session::{Exit, Identity, Process, RunReport},
};
use muster_proto::agent::{
    self as pb, files_service_server::FilesServiceServer, host_service_server::HostService,
    host_service_server::HostServiceServer, processes_service_server::ProcessesServiceServer,
    tails_service_server::TailsServiceServer,
};
use muster_runtime::{ServerBuilder, Tasks};
use muster_transport::{Faults, InProcess, SERVER_WINDOWS, in_process};
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming, async_trait};

pub(crate) const HOME: &str = "/fake/agent";

type Key = (SessionId, u32);
type Frames<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The fake. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FakeAgent {
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<u64>>,
    dial: InProcess,
}

#[derive(Default)]
struct State {
    runs: BTreeMap<Key, Run>,
    refuse_spawn: Option<Fault>,
    echo: bool,
    deliver_delay: Duration,
    epoch: u64,

    calls: BTreeMap<&'static str, u64>,
}

pub(crate) struct Run {
    report: RunReport,
    pub(crate) argv: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    stream: Vec<u8>,
    /// Every delivery that was written, in order.
    written: Vec<(String, Vec<u8>)>,
    version: u64,
}

impl FakeAgent {
    pub(crate) fn start(tasks: &Tasks) -> Self {
        let (dial, incoming) = in_process();
        let agent = Self {
            state: Arc::default(),
            changed: Arc::new(watch::Sender::new(0)),
            dial,
        };
        let server = ServerBuilder::new(SERVER_WINDOWS)
            .service(HostServiceServer::new(agent.clone()))
            .service(ProcessesServiceServer::new(agent.clone()))
            .service(TailsServiceServer::new(agent.clone()))
            .service(FilesServiceServer::new(agent.clone()));
        let token = tasks.token();
        tasks.spawn("fake agent", async move {
            server
                .serve(incoming, token, Duration::from_millis(100))
                .await
        });
        agent
    }

    pub(crate) fn dial(&self) -> InProcess {
        self.dial.clone()
    }

    pub(crate) fn faults(&self) -> Faults {
        self.dial.faults()
    }

    /// Every line that is delivered is printed again, as `got <line>`.
    pub(crate) fn echo(&self) {
        self.state().echo = true;
    }

    pub(crate) fn refuse_spawn(&self, fault: Option<Fault>) {
        self.state().refuse_spawn = fault;
    }

    /// From now on it obeys no coordinator with a lower epoch.
    pub(crate) fn obey(&self, epoch: u64) {
        self.state().epoch = epoch;
    }

    /// Deliveries take this long.
    pub(crate) fn delay_deliveries(&self, delay: Duration) {
        self.state().deliver_delay = delay;
    }

    pub(crate) fn print(&self, session: SessionId, text: &[u8]) {
        self.change(session, |run| run.stream.extend_from_slice(text));
    }

    pub(crate) fn exit(&self, session: SessionId, code: i32) {
        self.change(session, |run| run.end(Some(code), None, false));
    }

    /// The texts that the latest run of this session was given, in order.
    pub(crate) fn received(&self, session: SessionId) -> Vec<String> {
        let state = self.state();
        let runs = state.runs.range((session, 0)..=(session, u32::MAX));
        runs.flat_map(|(_, run)| &run.written)
            .map(|(_, bytes)| String::from_utf8_lossy(bytes).trim_end().to_owned())
            .collect()
    }

    pub(crate) fn with_run<T>(
        &self,
        session: SessionId,
        look: impl FnOnce(&Run) -> T,
    ) -> Option<T> {
        let state = self.state();
        let mut runs = state.runs.range((session, 0)..=(session, u32::MAX));
        runs.next_back().map(|(_, run)| look(run))
    }

    pub(crate) fn spawned(&self) -> usize {
        self.state().runs.len()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.state().epoch
    }

    /// How often a call came in.
    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.state().calls.get(name).copied().unwrap_or(0)
    }

    fn called(&self, name: &'static str) {
        *self.state().calls.entry(name).or_default() += 1;
    }

    fn change(&self, session: SessionId, change: impl FnOnce(&mut Run)) {
        {
            let mut state = self.state();
            let mut runs = state.runs.range_mut((session, 0)..=(session, u32::MAX));
            let (_, run) = runs.next_back().expect("the session has a run");
            change(run);
            run.version += 1;
            run.report.stream_size = run.stream.len() as u64;
        }
        self.announce();
    }

    fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fenced(&self, mutation: Option<&pb::Mutation>) -> Result<(), Status> {
        let mutation = mutation.ok_or_else(|| refuse(&Fault::missing("mutation")))?;
        let state = self.state();
        if mutation.epoch < state.epoch {
            return Err(refuse(&Fault::new(
                Reason::EpochStale,
                "an older coordinator",
            )));
        }
        Ok(())
    }
}

impl Run {
    pub(crate) fn new(key: Key, request: &pb::SpawnRequest) -> Self {
        let identity = |pid| Identity {
            boot: "boot".to_owned(),
            pid,
            ticks: 1,
        };
        Self {
            report: RunReport {
                run: key.1,
                process: Some(Process::Alive),
                identity: Some(identity(1_000)),
                keeper: Some(identity(999)),
                stdin_closed: false,
                stream_size: 0,
                exit: None,
                cwd_exists: true,
                started_at: Some(Timestamp::from_micros(1)),
                failure: None,
                survivors: None,
                folder_missing: false,
                exit_damaged: false,
            },
            argv: request.argv.clone(),
            env: request
                .env
                .iter()
                .map(|var| (var.name.clone(), var.value.clone()))
                .collect(),
            stream: Vec::new(),
            written: Vec::new(),
            version: 1,
        }
    }

    fn end(&mut self, code: Option<i32>, signal: Option<i32>, stop_requested: bool) {
        self.report.process = Some(Process::Exited);
        self.report.keeper = None;
        self.report.exit = Some(Exit {
            code,
            signal,
            at: Timestamp::from_micros(2),
            stream_size: self.stream.len() as u64,
            stderr_size: 0,
            stdin_unread: Some(0),
            survivors: Vec::new(),
            stop_requested,
            stderr_tail: String::new(),
        });
    }

    fn is_over(&self) -> bool {
        self.report.exit.is_some()
    }

    /// Writes a delivery; the same id is written once.
    fn deliver(&mut self, id: &str, payload: &[u8], echo: bool) -> Answer {
        let size = self.stream.len() as u64;
        let delivered = Answer::Delivered {
            before: size,
            after: size,
        };
        if self.written.iter().any(|(known, _)| known == id) {
            return delivered;
        }
        if self.is_over() {
            return Answer::Exited { written: 0 };
        }
        self.written.push((id.to_owned(), payload.to_vec()));
        if echo {
            self.stream.extend_from_slice(b"got ");
            self.stream.extend_from_slice(payload);
        }
        self.version += 1;
        self.report.stream_size = self.stream.len() as u64;
        delivered
    }
}

pub(crate) fn refuse(fault: &Fault) -> Status {
    muster_proto::fault::into_status(fault)
}

fn no_run() -> Status {
    refuse(&Fault::new(Reason::RunNotFound, "no such run"))
}

#[async_trait]
impl HostService for FakeAgent {
    async fn hello(
        &self,
        request: Request<pb::HelloRequest>,
    ) -> Result<Response<pb::HelloResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        if request.epoch < state.epoch {
            return Err(refuse(&Fault::new(
                Reason::EpochStale,
                "an older coordinator",
            )));
        }
        state.epoch = request.epoch;

        Ok(Response::new(pb::HelloResponse {
            protocol: 1,
            protocol_min: 1,
            protocol_max: 1,
            build: "fake".to_owned(),
            instance_id: "instance".to_owned(),
            boot_id: "boot".to_owned(),
            pid: 77,
            agent_home: HOME.to_owned(),
            ..pb::HelloResponse::default()
        }))
    }

    type WatchStream = Frames<pb::WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut beats = request.into_inner();
        let mut beat = 0;
        Ok(Response::new(Box::pin(async_stream::stream! {
            while let Some(Ok(theirs)) = beats.next().await {
                beat += 1;
                let event = pb::watch_response::Event::Beat(pb::Beat {
                    echo: theirs.beat,
                    beat,
                    boottime: None,
                });
                yield Ok(pb::WatchResponse { event: Some(event) });
            }
        })))
    }

    async fn drain(
        &self,
        _request: Request<pb::DrainRequest>,
    ) -> Result<Response<pb::DrainResponse>, Status> {
        self.called("drain");
        Ok(Response::new(pb::DrainResponse {}))
    }
}
