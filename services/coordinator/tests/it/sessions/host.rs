//! A host without a machine: runs, their output and their journals, as an agent and its
//! keepers have them, and calls that go wrong as a test says.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use muster_coordinator::hosts::{
    api::{
        DeliverCall, FileInfo, FileRef, FollowCall, Found, HostApi, LinkView, ReadCall, ReadStream,
        RunKey, SpawnCall, Start, Stat, StopCall, Stopped, TailEvent, TailStream,
    },
    reports::{self, Report, ReportSink, Reports},
};
use muster_domain::{
    DeliveryId, Fault, HostId, Reason, SessionId, Timestamp,
    delivery::Answer,
    page,
    session::{Exit, Identity, Link, Process, RunReport},
};
use tokio::sync::watch;

/// How a call goes wrong.
#[derive(Debug, Clone)]
pub enum Mishap {
    /// It is done, and the answer is lost.
    Lost,
    /// It is not done, and nobody knows.
    Dropped,
    /// It is refused.
    Refused(Reason),
    /// A delivery is answered so, and nothing is written.
    Answered(Answer),
}

/// One run.
#[derive(Debug, Default)]
pub struct FakeRun {
    pub stdout: Vec<u8>,
    pub exit: Option<Exit>,
    /// What was written to its stdin, by delivery.
    pub received: Vec<(DeliveryId, String)>,
    pub journal: BTreeMap<DeliveryId, Answer>,
    pub stops: Vec<StopCall>,
    pub signals: Vec<i32>,
}

/// Everything of the host.
#[derive(Debug, Default)]
pub struct Machine {
    pub runs: BTreeMap<RunKey, FakeRun>,
    /// Every spawn that came through, repeated ones included.
    pub spawns: Vec<RunKey>,
    pub spawn_mishaps: VecDeque<Mishap>,
    pub deliver_mishaps: VecDeque<Mishap>,
    pub signal_mishaps: VecDeque<Mishap>,
    pub processes: Vec<Found>,
    /// Followers that were opened, with where they began.
    pub follows: Vec<Start>,
    /// Calls that were made in all.
    pub calls: u64,
}

/// See the module.
#[derive(Debug)]
pub struct FakeHost {
    me: Weak<Self>,
    id: HostId,
    link: watch::Sender<LinkView>,
    machine: Mutex<Machine>,
    changed: watch::Sender<u64>,
    sinks: Mutex<HashMap<SessionId, ReportSink>>,
}

fn unreachable() -> Fault {
    Fault::new(Reason::HostUnreachable, "the host cannot be reached")
}

impl FakeHost {
    pub fn new(id: HostId) -> Arc<Self> {
        let link = LinkView {
            link: Link::Connected,
            cause: None,
            attempts: 0,
            next_try: None,
            since: Timestamp(0),
            agent: None,
            connection: 1,
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            id,
            link: watch::Sender::new(link),
            machine: Mutex::default(),
            changed: watch::Sender::new(0),
            sinks: Mutex::default(),
        })
    }

    pub fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap()
    }

    /// Changes one run and tells followers.
    pub fn change<T>(&self, key: RunKey, change: impl FnOnce(&mut FakeRun) -> T) -> T {
        let result = change(self.machine().runs.get_mut(&key).unwrap());
        self.changed.send_modify(|count| *count += 1);
        result
    }

    pub fn print(&self, key: RunKey, text: &str) {
        self.change(key, |run| run.stdout.extend_from_slice(text.as_bytes()));
    }

    /// The program ends; the host reports it.
    pub fn exit(&self, key: RunKey, code: i32, stop_requested: bool) {
        self.change(key, |run| {
            run.exit = Some(Exit {
                code: Some(code),
                signal: None,
                at: Timestamp(5),
                stream_size: run.stdout.len() as u64,
                stderr_size: 0,
                stdin_unread: Some(0),
                survivors: Vec::new(),
                stop_requested,
                stderr_tail: String::new(),
            });
        });
        self.report(key);
    }

    /// Reports how a run stands.
    pub fn report(&self, key: RunKey) {
        let report = Report::Run(Box::new(self.facts(key).unwrap()));
        if let Some(sink) = self.sinks.lock().unwrap().get(&key.session) {
            sink.send(report);
        }
    }

    /// Sets the link; a new connection asks every session to relist.
    pub fn set_link(&self, link: Link) {
        self.link.send_modify(|view| {
            if link == Link::Connected && view.link != link {
                view.connection += 1;
            }
            view.link = link;
        });
        self.changed.send_modify(|count| *count += 1);
        if link == Link::Connected {
            for sink in self.sinks.lock().unwrap().values() {
                sink.send(Report::Relist);
            }
        }
    }

    fn is_up(&self) -> bool {
        self.link.borrow().is_up()
    }

    fn check_up(&self) -> Result<(), Fault> {
        self.machine().calls += 1;
        if self.is_up() {
            return Ok(());
        }
        Err(unreachable())
    }

    fn facts(&self, key: RunKey) -> Result<RunReport, Fault> {
        let machine = self.machine();
        let run = machine.runs.get(&key);
        let run = run.ok_or_else(|| Fault::new(Reason::RunNotFound, "there is no such run"))?;
        let process = if run.exit.is_some() {
            Process::Exited
        } else {
            Process::Alive
        };
        Ok(RunReport {
            run: key.run,
            process: Some(process),
            identity: Some(Identity {
                boot: "boot".to_owned(),
                pid: 100,
                ticks: 7,
            }),
            keeper: None,
            stdin_closed: false,
            stream_size: run.stdout.len() as u64,
            exit: run.exit.clone(),
            cwd_exists: true,
            started_at: Some(Timestamp(3)),
            failure: None,
            survivors: None,
            folder_missing: false,
            exit_damaged: false,
        })
    }

    fn tail(&self, key: RunKey, at: u64) -> TailStream {
        let host = self.me.upgrade().unwrap();
        let mut changed = host.changed.subscribe();
        changed.mark_changed();
        let state = (host, changed, Some(at));
        Box::pin(stream::unfold(
            state,
            move |(host, mut changed, at)| async move {
                let at = at?;
                loop {
                    changed.borrow_and_update();
                    if let Some(event) = host.read(key, at) {
                        let next = match &event {
                            Ok(TailEvent::Data { next_offset, .. }) => Some(*next_offset),
                            _ => None,
                        };
                        return Some((event, (host, changed, next)));
                    }
                    changed.changed().await.ok()?;
                }
            },
        ))
    }

    /// What a follower at `at` gets next; `None`: nothing yet.
    fn read(&self, key: RunKey, at: u64) -> Option<Result<TailEvent, Fault>> {
        if !self.is_up() {
            return Some(Err(unreachable()));
        }
        let machine = self.machine();
        let run = machine.runs.get(&key)?;
        let rest = &run.stdout[usize::try_from(at).unwrap()..];
        if !rest.is_empty() {
            let bytes = &rest[..rest.len().min(64 * 1024)];
            let next_offset = at + bytes.len() as u64;
            return Some(Ok(TailEvent::Data {
                offset: at,
                bytes: Bytes::copy_from_slice(bytes),
                next: next_offset.to_string().into_bytes(),
                next_offset,
                line_continues: false,
                torn: false,
            }));
        }
        let exit = run.exit.as_ref()?;
        Some(Ok(TailEvent::End {
            offset: exit.stream_size,
            late_bytes: 0,
        }))
    }
}

#[async_trait]
impl HostApi for FakeHost {
    fn id(&self) -> HostId {
        self.id
    }

    fn name(&self) -> String {
        "local".to_owned()
    }

    fn link(&self) -> watch::Receiver<LinkView> {
        self.link.subscribe()
    }

    fn reports(&self, session: SessionId) -> Reports {
        let (sink, reports) = reports::channel();
        self.sinks.lock().unwrap().insert(session, sink);
        reports
    }

    async fn spawn(&self, call: SpawnCall, _: Duration) -> Result<RunReport, Fault> {
        self.check_up()?;
        let mishap = self.machine().spawn_mishaps.pop_front();
        match mishap {
            Some(Mishap::Refused(reason)) => return Err(Fault::new(reason, "refused")),
            Some(Mishap::Dropped) => return Err(unreachable()),
            _ => {}
        }
        {
            let mut machine = self.machine();
            machine.spawns.push(call.key);
            machine.runs.entry(call.key).or_default();
        }
        if let Some(Mishap::Lost) = mishap {
            return Err(unreachable());
        }
        self.facts(call.key)
    }

    async fn get_run(
        &self,
        run: RunKey,
        _: Option<Identity>,
        _: Duration,
    ) -> Result<RunReport, Fault> {
        self.check_up()?;
        self.facts(run)
    }

    async fn list_runs(&self, session: SessionId, _: Duration) -> Result<Vec<RunReport>, Fault> {
        self.check_up()?;
        let keys: Vec<RunKey> = self.machine().runs.keys().copied().collect();
        let own = keys.into_iter().filter(|key| key.session == session);
        own.map(|key| self.facts(key)).collect()
    }

    async fn deliver(&self, call: DeliverCall, _: Duration) -> Result<Answer, Fault> {
        self.check_up()?;
        let mishap = self.machine().deliver_mishaps.pop_front();
        match mishap {
            Some(Mishap::Refused(reason)) => return Err(Fault::new(reason, "refused")),
            Some(Mishap::Dropped) => return Err(unreachable()),
            Some(Mishap::Answered(answer)) => return Ok(answer),
            Some(Mishap::Lost) | None => {}
        }
        let lost = mishap.is_some();
        let answer = self.change(call.key, |run| {
            if let Some(answer) = run.journal.get(&call.delivery) {
                return *answer;
            }
            if run.exit.is_some() {
                return Answer::Exited { written: 0 };
            }
            let text = String::from_utf8(call.payload.to_vec()).unwrap();
            run.received.push((call.delivery, text));
            let size = run.stdout.len() as u64;
            let answer = Answer::Delivered {
                before: size,
                after: size,
            };
            run.journal.insert(call.delivery, answer);
            answer
        });
        if lost {
            return Err(unreachable());
        }
        Ok(answer)
    }

    async fn get_delivery(
        &self,
        run: RunKey,
        delivery: DeliveryId,
        _: Duration,
    ) -> Result<Answer, Fault> {
        self.check_up()?;
        let machine = self.machine();
        let run = machine.runs.get(&run);
        let run = run.ok_or_else(|| Fault::new(Reason::RunNotFound, "there is no such run"))?;
        Ok(*run.journal.get(&delivery).unwrap_or(&Answer::Unseen))
    }

    async fn close_stdin(&self, _: RunKey, _: Duration) -> Result<bool, Fault> {
        Err(Fault::unsupported("closing stdin"))
    }

    async fn stop(&self, call: StopCall, _: Duration) -> Result<Stopped, Fault> {
        self.check_up()?;
        let key = call.key;
        let already_ended = self.change(key, |run| {
            run.stops.push(call);
            run.exit.is_some()
        });
        if !already_ended {
            self.exit(key, 0, true);
        }
        Ok(Stopped {
            already_ended,
            survivors: Vec::new(),
        })
    }

    async fn signal(&self, run: RunKey, signal: i32, _: Duration) -> Result<Vec<Identity>, Fault> {
        self.check_up()?;
        if let Some(Mishap::Dropped) = self.machine().signal_mishaps.pop_front() {
            return Err(unreachable());
        }
        self.change(run, |run| run.signals.push(signal));
        Ok(Vec::new())
    }

    async fn find_processes(&self, _: SessionId, _: Duration) -> Result<Vec<Found>, Fault> {
        self.check_up()?;
        Ok(self.machine().processes.clone())
    }

    async fn follow(&self, call: FollowCall, _: Duration) -> Result<TailStream, Fault> {
        self.check_up()?;
        self.machine().follows.push(call.start.clone());
        let FileRef::Run(key, _) = call.file else {
            return Err(Fault::unsupported("another file"));
        };
        let at = match call.start {
            Start::Cursor(cursor) => String::from_utf8(cursor).unwrap().parse().unwrap(),
            Start::Offset(at) => at,
            _ => 0,
        };
        self.facts(key)?;
        Ok(self.tail(key, at))
    }

    async fn stat(&self, _: &str, _: Duration) -> Result<Stat, Fault> {
        Err(Fault::unsupported("files"))
    }

    async fn list(
        &self,
        _: &str,
        _: page::Request,
        _: Duration,
    ) -> Result<page::Page<FileInfo>, Fault> {
        Err(Fault::unsupported("files"))
    }

    async fn read(&self, _: ReadCall, _: Duration) -> Result<ReadStream, Fault> {
        Err(Fault::unsupported("files"))
    }

    async fn drain(&self, _: Duration) -> Result<(), Fault> {
        Ok(())
    }
}
