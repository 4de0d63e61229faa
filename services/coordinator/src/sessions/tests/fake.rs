//! A host with one machine's worth of memory: runs, keepers' journals, streams.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use muster_domain::{
    DeliveryId, Fault, HostId, Reason, SessionId, Timestamp,
    delivery::Answer,
    page,
    session::{Exit, Identity, Link, Process, RunReport},
};
use tokio::sync::watch;
use uuid::Uuid;

use crate::hosts::{
    api::{
        DeliverCall, FileInfo, FollowCall, Found, HostApi, HostsApi, LinkView, ReadCall,
        ReadStream, RunKey, SpawnCall, Start, Stat, StopCall, Stopped, TailEvent, TailStream,
    },
    reports::{self, Report, ReportSink, Reports},
};

/// The host, and the only one.
#[derive(Debug)]
pub(super) struct FakeHost {
    link: watch::Sender<LinkView>,
    state: Mutex<State>,
    /// Moves whenever a stream grows or a run ends.
    moved: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunKey, FakeRun>,
    sinks: BTreeMap<SessionId, ReportSink>,
    /// Deliver calls that write and are not answered.
    unanswered: u32,
    /// Starts that are refused with this reason.
    refuses: Option<Reason>,
}

/// One run.
#[derive(Debug, Default, Clone)]
pub(super) struct FakeRun {
    pub(super) stream: Vec<u8>,
    pub(super) received: Vec<(DeliveryId, Vec<u8>)>,
    pub(super) exit: Option<Exit>,
    pub(super) spawns: u32,
}

impl FakeHost {
    pub(super) fn new() -> Arc<Self> {
        let view = LinkView {
            link: Link::Connected,
            cause: None,
            attempts: 0,
            next_try: None,
            since: Timestamp(0),
            agent: None,
            connection: 1,
        };
        Arc::new(Self {
            link: watch::Sender::new(view),
            state: Mutex::default(),
            moved: watch::Sender::new(0),
        })
    }

    pub(super) fn host_id() -> HostId {
        HostId::new(Uuid::from_u128(8))
    }

    pub(super) fn link_is(&self, link: Link) {
        self.link.send_modify(|view| {
            view.connection += u64::from(link.is_up());
            view.link = link;
        });
        for sink in self.state().sinks.values() {
            sink.send(Report::Relist);
        }
        self.moved.send_modify(|moved| *moved += 1);
    }

    pub(super) fn refuse_starts(&self, reason: Reason) {
        self.state().refuses = Some(reason);
    }

    pub(super) fn leave_unanswered(&self, calls: u32) {
        self.state().unanswered = calls;
    }

    pub(super) fn run(&self, session: SessionId, run: u32) -> Option<FakeRun> {
        self.state().runs.get(&RunKey { session, run }).cloned()
    }

    /// The program prints.
    pub(super) fn print(&self, session: SessionId, text: &str) {
        let mut state = self.state();
        let key = RunKey { session, run: 1 };
        let run = state.runs.get_mut(&key).expect("the run was started");
        run.stream.extend_from_slice(text.as_bytes());
        drop(state);
        self.moved.send_modify(|moved| *moved += 1);
    }

    /// The program ends.
    pub(super) fn end(&self, session: SessionId, code: Option<i32>, stop_requested: bool) {
        let key = RunKey { session, run: 1 };
        let mut state = self.state();
        let run = state.runs.get_mut(&key).expect("the run was started");
        let size = run.stream.len() as u64;
        run.exit.get_or_insert(Exit {
            code,
            signal: None,
            at: Timestamp(1),
            stream_size: size,
            stderr_size: 0,
            stdin_unread: Some(0),
            survivors: Vec::new(),
            stop_requested,
            stderr_tail: String::new(),
        });
        let report = report_of(key, run);
        if let Some(sink) = state.sinks.get(&session) {
            sink.send(Report::Run(Box::new(report)));
        }
        drop(state);
        self.moved.send_modify(|moved| *moved += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_link(&self) -> Result<(), Fault> {
        if self.link.borrow().is_up() {
            return Ok(());
        }
        Err(unreachable_host())
    }
}

fn unreachable_host() -> Fault {
    Fault::new(Reason::HostUnreachable, "the host cannot be reached")
}

fn no_run() -> Fault {
    Fault::new(Reason::RunNotFound, "no such run")
}

fn report_of(key: RunKey, run: &FakeRun) -> RunReport {
    let exited = run.exit.is_some();
    RunReport {
        run: key.run,
        process: Some(if exited {
            Process::Exited
        } else {
            Process::Alive
        }),
        identity: None,
        keeper: None,
        stdin_closed: false,
        stream_size: run.stream.len() as u64,
        exit: run.exit.clone(),
        cwd_exists: true,
        started_at: Some(Timestamp(3)),
        failure: None,
        survivors: None,
        folder_missing: false,
        exit_damaged: false,
    }
}

/// What a tail does next.
enum Next {
    Event(TailEvent),
    Cut,
    Wait,
    Over,
}

impl FakeHost {
    fn next_of_tail(&self, key: RunKey, at: u64, connection: u64, ended: bool) -> Next {
        if !self.link.borrow().is_up() || self.link.borrow().connection != connection {
            return Next::Cut;
        }
        let state = self.state();
        let Some(run) = state.runs.get(&key) else {
            return Next::Cut;
        };
        // Small frames, so that texts come in many pieces.
        let from = usize::try_from(at)
            .unwrap_or(usize::MAX)
            .min(run.stream.len());
        let upto = run.stream.len().min(from + 5);
        if from < upto {
            return Next::Event(TailEvent::Data {
                offset: at,
                bytes: Bytes::copy_from_slice(&run.stream[from..upto]),
                next: (upto as u64).to_le_bytes().to_vec(),
                next_offset: upto as u64,
                line_continues: false,
                torn: false,
            });
        }
        match (&run.exit, ended) {
            (Some(_), true) => Next::Over,
            (Some(_), false) => Next::Event(TailEvent::End {
                offset: at,
                late_bytes: 0,
            }),
            (None, _) => Next::Wait,
        }
    }
}

#[derive(Debug)]
pub(super) struct FakeHosts(pub(super) Arc<FakeHost>);

impl HostsApi for FakeHosts {
    fn get(&self, id: HostId) -> Option<Arc<dyn HostApi>> {
        (id == FakeHost::host_id())
            .then(|| -> Arc<dyn HostApi> { Arc::new(Shared(self.0.clone())) })
    }

    fn all(&self) -> Vec<Arc<dyn HostApi>> {
        self.get(FakeHost::host_id()).into_iter().collect()
    }
}

#[derive(Debug)]
struct Shared(Arc<FakeHost>);

#[async_trait]
impl HostApi for Shared {
    fn id(&self) -> HostId {
        FakeHost::host_id()
    }

    fn name(&self) -> String {
        "fake".to_owned()
    }

    fn link(&self) -> watch::Receiver<LinkView> {
        self.0.link.subscribe()
    }

    fn reports(&self, session: SessionId) -> Reports {
        let (sink, reports) = reports::channel();
        self.0.state().sinks.insert(session, sink);
        reports
    }

    async fn spawn(&self, call: SpawnCall, _: Duration) -> Result<RunReport, Fault> {
        self.0.check_link()?;
        let mut state = self.0.state();
        if let Some(reason) = state.refuses {
            return Err(Fault::new(reason, "refused"));
        }
        let run = state.runs.entry(call.key).or_default();
        run.spawns += 1;
        Ok(report_of(call.key, run))
    }

    async fn get_run(
        &self,
        run: RunKey,
        _: Option<Identity>,
        _: Duration,
    ) -> Result<RunReport, Fault> {
        self.0.check_link()?;
        let state = self.0.state();
        let found = state.runs.get(&run).ok_or_else(no_run)?;
        Ok(report_of(run, found))
    }

    async fn list_runs(&self, session: SessionId, _: Duration) -> Result<Vec<RunReport>, Fault> {
        self.0.check_link()?;
        let state = self.0.state();
        let runs = state.runs.iter().filter(|(key, _)| key.session == session);
        Ok(runs.map(|(key, run)| report_of(*key, run)).collect())
    }

    async fn deliver(&self, call: DeliverCall, _: Duration) -> Result<Answer, Fault> {
        self.0.check_link()?;
        let mut state = self.0.state();
        let run = state.runs.get_mut(&call.key).ok_or_else(no_run)?;
        let seen = run.received.iter().any(|(id, _)| *id == call.delivery);
        if !seen {
            if run.exit.is_some() {
                return Ok(Answer::Exited { written: 0 });
            }
            run.received.push((call.delivery, call.payload.to_vec()));
        }
        if state.unanswered > 0 {
            state.unanswered -= 1;
            return Err(unreachable_host());
        }
        Ok(Answer::Delivered {
            before: 0,
            after: 0,
        })
    }

    async fn get_delivery(
        &self,
        run: RunKey,
        delivery: DeliveryId,
        _: Duration,
    ) -> Result<Answer, Fault> {
        self.0.check_link()?;
        let state = self.0.state();
        let run = state.runs.get(&run).ok_or_else(no_run)?;
        let seen = run.received.iter().any(|(id, _)| *id == delivery);
        Ok(if seen {
            Answer::Delivered {
                before: 0,
                after: 0,
            }
        } else {
            Answer::Unseen
        })
    }

    async fn close_stdin(&self, _: RunKey, _: Duration) -> Result<bool, Fault> {
        Err(Fault::unsupported("close_stdin"))
    }

    async fn stop(&self, call: StopCall, _: Duration) -> Result<Stopped, Fault> {
        self.0.check_link()?;
        self.0.end(call.key.session, None, true);
        Ok(Stopped {
            already_ended: false,
            survivors: Vec::new(),
        })
    }

    async fn signal(&self, _: RunKey, _: i32, _: Duration) -> Result<Vec<Identity>, Fault> {
        self.0.check_link()?;
        Ok(Vec::new())
    }

    async fn find_processes(&self, _: SessionId, _: Duration) -> Result<Vec<Found>, Fault> {
        Ok(Vec::new())
    }

    async fn follow(&self, call: FollowCall, _: Duration) -> Result<TailStream, Fault> {
        self.0.check_link()?;
        let crate::hosts::api::FileRef::Run(key, _) = call.file else {
            return Err(Fault::unsupported("paths"));
        };
        let at = match call.start {
            Start::Cursor(cursor) => cursor.try_into().map_or(0, u64::from_le_bytes),
            _ => 0,
        };
        let host = self.0.clone();
        let connection = host.link.borrow().connection;
        let moved = host.moved.subscribe();
        let stream = async_stream::stream! {
            let (mut at, mut ended, mut moved) = (at, false, moved);
            loop {
                match host.next_of_tail(key, at, connection, ended) {
                    Next::Event(event) => {
                        if let TailEvent::Data { next_offset, .. } = event {
                            at = next_offset;
                        }
                        ended |= matches!(event, TailEvent::End { .. });
                        yield Ok(event);
                    }
                    Next::Cut => {
                        yield Err(unreachable_host());
                        return;
                    }
                    Next::Over => return,
                    Next::Wait => {
                        let _ = moved.changed().await;
                    }
                }
            }
        };
        Ok(stream.boxed())
    }

    async fn stat(&self, _: &str, _: Duration) -> Result<Stat, Fault> {
        Err(Fault::unsupported("stat"))
    }

    async fn list(
        &self,
        _: &str,
        _: page::Request,
        _: Duration,
    ) -> Result<page::Page<FileInfo>, Fault> {
        Err(Fault::unsupported("list"))
    }

    async fn read(&self, _: ReadCall, _: Duration) -> Result<ReadStream, Fault> {
        Err(Fault::unsupported("read"))
    }

    async fn drain(&self, _: Duration) -> Result<(), Fault> {
        Err(Fault::unsupported("drain"))
    }
}
