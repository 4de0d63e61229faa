//! How the agent talks to keepers.
//!
//! A connection carries one call at a time: whoever wants two at once opens two, which on a
//! Unix socket costs some tens of microseconds and needs no task that sorts answers. A call
//! whose future is dropped leaves its connection out of step, so the connection goes with it.

use std::{io, path::Path, time::Duration};

use muster_proto::keeper::{
    CloseStdin, Deliver, Event, Failure, GetDelivery, GetStatus, Hello, Outcome, Reply, Request,
    RunSpec, Signal, Signalled, SpawnFailure, SpawnFailureReason, Status, StdinClosed, Stop,
    StopStarted, Watch, reply::Answer, request::Call, spawn_result,
};
use muster_runtime::Tasks;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use crate::{
    keeper::frame::{self, Decoder},
    run_dir::{RunDir, SOCKET},
};

pub use crate::keeper::Launcher;

/// Lowest protocol version that this build speaks.
pub const PROTOCOL_MIN: u32 = 1;
/// Highest protocol version that this build speaks.
pub const PROTOCOL_MAX: u32 = 1;

/// A keeper did not answer as asked.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// Nobody listens in the run folder.
    #[error("the run has no keeper")]
    NoKeeper,
    /// No answer in time. The keeper may still do what it was asked.
    #[error("the keeper did not answer in time")]
    Timeout,
    /// It hung up. It may have done what it was asked.
    #[error("the keeper closed the connection")]
    Closed,
    /// It speaks other versions.
    #[error("the keeper speaks protocol {min} to {max}")]
    Version {
        /// Its lowest.
        min: u32,
        /// Its highest.
        max: u32,
    },
    /// It refused, and nothing was done.
    #[error("refused: {}", .0.message)]
    Refused(Failure),
    /// It said what cannot be an answer.
    #[error("the keeper gave no answer to what was asked")]
    Protocol,
    /// The connection failed.
    #[error("talk to the keeper")]
    Io(#[from] io::Error),
}

/// A keeper was not started, or nobody knows.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The keeper says why it did not start or adopt the program.
    #[error("{}", .0.message)]
    Refused(SpawnFailure),
    /// No answer in time, or the keeper died before it: the program may run. Look into the
    /// run folder before anything else.
    #[error("the keeper did not answer in time")]
    Unknown(#[source] io::Error),
}

impl StartError {
    /// The keeper's reason, when it gave one.
    pub fn reason(&self) -> Option<SpawnFailureReason> {
        match self {
            Self::Refused(failure) => Some(failure.reason()),
            Self::Unknown(_) => None,
        }
    }
}

/// A connection to a keeper.
#[derive(Debug)]
pub struct KeeperClient {
    stream: UnixStream,
    decoder: Decoder,
    hello: Hello,
    seq: u64,
}

impl KeeperClient {
    /// Connects and exchanges hellos, within `deadline`. Dropping the future is safe.
    ///
    /// # Errors
    /// [`KeeperError`]; `NoKeeper` when nobody listens there.
    pub async fn connect(dir: &RunDir, deadline: Duration) -> Result<Self, KeeperError> {
        within(deadline, Self::connect_now(dir)).await
    }

    async fn connect_now(dir: &RunDir) -> Result<Self, KeeperError> {
        let connected = UnixStream::connect(dir.short_path(SOCKET)).await;
        let stream = connected.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => KeeperError::NoKeeper,
            _ => KeeperError::Io(error),
        })?;
        let mut client = Self {
            stream,
            decoder: Decoder::default(),
            hello: Hello::default(),
            seq: 0,
        };
        let own = Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            build: env!("CARGO_PKG_VERSION").to_owned(),
        };
        client.stream.write_all(&frame::encode(&own)).await?;
        client.hello = client.receive().await?.ok_or(KeeperError::Closed)?;
        let (min, max) = (client.hello.protocol_min, client.hello.protocol_max);
        if min > PROTOCOL_MAX || max < PROTOCOL_MIN {
            return Err(KeeperError::Version { min, max });
        }
        Ok(client)
    }

    /// What the keeper said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Writes a payload to the program's stdin. `deadline` must exceed the call's own
    /// `wait_ms`. Dropping the future does not take the delivery back: ask for it by id.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub async fn deliver(
        self,
        deliver: Deliver,
        deadline: Duration,
    ) -> Result<Outcome, KeeperError> {
        match self.call(Call::Deliver(deliver), deadline).await? {
            Answer::Outcome(outcome) => Ok(outcome),
            _ => Err(KeeperError::Protocol),
        }
    }

    /// What became of a delivery. Dropping the future is safe.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub async fn get_delivery(
        self,
        delivery_id: &str,
        deadline: Duration,
    ) -> Result<Outcome, KeeperError> {
        let delivery_id = delivery_id.to_owned();
        let call = Call::GetDelivery(GetDelivery { delivery_id });
        match self.call(call, deadline).await? {
            Answer::Outcome(outcome) => Ok(outcome),
            _ => Err(KeeperError::Protocol),
        }
    }

    /// Closes a closable stdin. Idempotent.
    ///
    /// # Errors
    /// [`KeeperError`]; `Refused` with `STDIN_HELD` on a held one.
    pub async fn close_stdin(self, deadline: Duration) -> Result<StdinClosed, KeeperError> {
        match self.call(Call::CloseStdin(CloseStdin {}), deadline).await? {
            Answer::StdinClosed(closed) => Ok(closed),
            _ => Err(KeeperError::Protocol),
        }
    }

    /// Starts the stop ladder, or joins the one that runs.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub async fn stop(self, stop: Stop, deadline: Duration) -> Result<StopStarted, KeeperError> {
        match self.call(Call::Stop(stop), deadline).await? {
            Answer::StopStarted(started) => Ok(started),
            _ => Err(KeeperError::Protocol),
        }
    }

    /// Sends one signal to the whole tree.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub async fn signal(
        self,
        signal: Signal,
        deadline: Duration,
    ) -> Result<Signalled, KeeperError> {
        match self.call(Call::Signal(signal), deadline).await? {
            Answer::Signalled(signalled) => Ok(signalled),
            _ => Err(KeeperError::Protocol),
        }
    }

    /// How things stand.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub async fn status(self, deadline: Duration) -> Result<Status, KeeperError> {
        match self.call(Call::GetStatus(GetStatus {}), deadline).await? {
            Answer::Status(status) => Ok(status),
            _ => Err(KeeperError::Protocol),
        }
    }

    /// Turns the connection into a stream of events; the status is that of the moment from
    /// which on no event is missed.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub async fn watch(mut self, deadline: Duration) -> Result<(Status, Events), KeeperError> {
        match within(deadline, self.exchange(Call::Watch(Watch {}))).await? {
            Answer::Status(status) => Ok((status, Events { client: self })),
            Answer::Failure(failure) => Err(KeeperError::Refused(failure)),
            _ => Err(KeeperError::Protocol),
        }
    }

    async fn call(mut self, call: Call, deadline: Duration) -> Result<Answer, KeeperError> {
        match within(deadline, self.exchange(call)).await? {
            Answer::Failure(failure) => Err(KeeperError::Refused(failure)),
            answer => Ok(answer),
        }
    }

    async fn exchange(&mut self, call: Call) -> Result<Answer, KeeperError> {
        self.seq += 1;
        let request = Request {
            seq: self.seq,
            call: Some(call),
        };
        self.stream.write_all(&frame::encode(&request)).await?;
        loop {
            let reply: Reply = self.receive().await?.ok_or(KeeperError::Closed)?;
            if reply.seq == self.seq {
                return reply.answer.ok_or(KeeperError::Protocol);
            }
        }
    }

    /// The next message; `None` at the end of the stream. Cancellation safe.
    async fn receive<M: prost::Message + Default>(&mut self) -> Result<Option<M>, KeeperError> {
        let mut piece = [0; 4096];
        loop {
            if let Some(message) = self.decoder.take().map_err(io::Error::from)? {
                return Ok(Some(message));
            }
            match self.stream.read(&mut piece).await {
                Ok(0) => return Ok(None),
                Ok(read) => self.decoder.push(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Events of one run, as the keeper pushes them.
#[derive(Debug)]
pub struct Events {
    client: KeeperClient,
}

impl Events {
    /// The next event; `None` once the keeper has gone. Waits without a deadline: a keeper
    /// on the same machine that goes closes the socket. Cancellation safe.
    ///
    /// # Errors
    /// [`KeeperError`]; then nothing follows.
    pub async fn next(&mut self) -> Result<Option<Event>, KeeperError> {
        loop {
            let Some(reply) = self.client.receive::<Reply>().await? else {
                return Ok(None);
            };
            if let Some(Answer::Event(event)) = reply.answer {
                return Ok(Some(event));
            }
        }
    }
}

/// Starts a run under a new keeper. When the future is dropped, or the deadline passes, the
/// start goes on and nothing is assumed: the run folder tells what became of it.
///
/// # Errors
/// [`StartError`].
pub async fn start(
    launcher: &Launcher,
    tasks: &Tasks,
    spec: RunSpec,
    deadline: Duration,
) -> Result<Status, StartError> {
    let launcher = launcher.clone();
    launch(tasks, deadline, move || launcher.start(&spec)).await
}

/// Starts a keeper for a run whose keeper died and whose program lives. Goes on like
/// [`start`] when the future is dropped.
///
/// # Errors
/// [`StartError`].
pub async fn adopt(
    launcher: &Launcher,
    tasks: &Tasks,
    run_dir: &Path,
    deadline: Duration,
) -> Result<Status, StartError> {
    let launcher = launcher.clone();
    let run_dir = run_dir.to_owned();
    launch(tasks, deadline, move || launcher.adopt(&run_dir)).await
}

async fn launch(
    tasks: &Tasks,
    deadline: Duration,
    work: impl FnOnce() -> io::Result<muster_proto::keeper::SpawnResult> + Send + 'static,
) -> Result<Status, StartError> {
    let work = tasks.spawn_blocking("keeper start", work);
    let Ok(joined) = tokio::time::timeout(deadline, work).await else {
        return Err(StartError::Unknown(io::ErrorKind::TimedOut.into()));
    };
    let answered = joined.map_err(|error| StartError::Unknown(io::Error::other(error)))?;
    match answered.map_err(StartError::Unknown)?.result {
        Some(spawn_result::Result::Started(status)) => Ok(status),
        Some(spawn_result::Result::Failure(failure)) => Err(StartError::Refused(failure)),
        None => Err(StartError::Unknown(io::ErrorKind::InvalidData.into())),
    }
}

async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, KeeperError>>,
) -> Result<T, KeeperError> {
    match tokio::time::timeout(deadline, work).await {
        Ok(result) => result,
        Err(_) => Err(KeeperError::Timeout),
    }
}
