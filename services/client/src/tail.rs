//! Raw output by (run, offset), over restarts of the coordinator: no byte is lost or comes
//! twice, and the end is the output's own.

use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use muster_domain::{Fault, Kind, Reason};
use muster_proto::{
    fault,
    public::{self as pb, tail_request::Start, tail_response::Event},
};
use muster_transport::StreamPermit;
use tonic::Streaming;

use crate::{Client, methods};

/// Which output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TailFile {
    /// What the program prints.
    #[default]
    Stdout,
    /// Its complaints.
    Stderr,
}

/// Where a tail begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TailFrom {
    /// The first byte.
    #[default]
    Beginning,
    /// What comes from now on.
    End,
    /// This many bytes before the end.
    LastBytes(u64),
    /// This byte.
    Offset(u64),
}

/// Output to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailRequest {
    /// Session, by id or unique prefix.
    pub session: String,
    /// Run; `None`: the latest.
    pub run: Option<u32>,
    /// Which output.
    pub file: TailFile,
    /// Where it begins.
    pub from: TailFrom,
    /// Go on until the run's end, else to what is there now.
    pub follow: bool,
    /// Bytes after the run's end too.
    pub late_bytes: bool,
    /// How long it tries to go on after a cut, without a sign of life in between.
    pub patience: Duration,
}

/// One event of a tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailEvent {
    /// Bytes, right after those that came before.
    Data {
        /// Run.
        run: u32,
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// Bytes that cannot be had any more.
    Gap {
        /// First byte that is missing.
        from: u64,
        /// First byte after the gap; the tail goes on there.
        to: u64,
        /// Closed name.
        reason: String,
    },
    /// How far it is.
    Progress {
        /// Offset reached.
        offset: u64,
        /// Size of the output.
        size: u64,
        /// Everything there is was sent.
        at_eof: bool,
    },
    /// The connection was cut; the tail goes on where it was. For people.
    Reconnecting {
        /// Why.
        cause: Fault,
    },
    /// The real end. Nothing follows.
    End {
        /// Offset after the last byte.
        offset: u64,
        /// Bytes after the run's end.
        late_bytes: u64,
    },
}

impl Client {
    /// Raw output of a run, pulled: what is not taken is not read on the host. Ends after
    /// [`TailEvent::End`] or the first error, and never otherwise. Dropping it ends it.
    ///
    /// Errors, as items: `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `RUN_NOT_FOUND`,
    /// `HOST_UNREACHABLE`, `COORDINATOR_UNREACHABLE` (after the patience), `STREAM_LIMIT`,
    /// `BAD_CURSOR`, `INTERNAL` when the coordinator skips or repeats bytes.
    pub fn tail(
        &self,
        request: TailRequest,
    ) -> impl Stream<Item = Result<TailEvent, Fault>> + Send + use<> {
        let client = self.clone();
        async_stream::stream! {
            let mut tail = match Box::pin(Tail::locate(client, request)).await {
                Ok(tail) => tail,
                Err(fault) => {
                    yield Err(fault);
                    return;
                }
            };
            loop {
                let event = tail.next().await;
                let last = matches!(event, Err(_) | Ok(TailEvent::End { .. }));
                yield event;
                if last {
                    return;
                }
            }
        }
    }
}

struct Opened {
    events: Streaming<pb::TailResponse>,
    _permit: Option<StreamPermit>,
}

struct Tail {
    client: Client,
    request: TailRequest,
    session: String,
    run: u32,
    /// Offset of the next byte.
    expected: u64,
    stream: Option<Opened>,
    /// Attempts since the last sign of life.
    attempts: u32,
    give_up: Option<Duration>,
}

impl Tail {
    /// Pins everything that could be another thing after a cut: session, run, offset.
    async fn locate(client: Client, request: TailRequest) -> Result<Self, Fault> {
        let found = client.get_session(&request.session).await?;
        let mut tail = Self {
            session: found.id,
            run: request.run.unwrap_or(found.run),
            expected: 0,
            stream: None,
            attempts: 0,
            give_up: None,
            client,
            request,
        };
        tail.expected = match tail.request.from {
            TailFrom::Beginning => 0,
            TailFrom::Offset(offset) => offset,
            TailFrom::End => tail.end_now().await?,
            TailFrom::LastBytes(bytes) => tail.end_now().await?.saturating_sub(bytes),
        };
        Ok(tail)
    }

    /// Where the output ends now.
    async fn end_now(&mut self) -> Result<u64, Fault> {
        loop {
            let mut opened = match self.open(Start::End(true), false).await {
                Ok(opened) => opened,
                Err(fault) => {
                    self.cut(fault).await?;
                    continue;
                }
            };
            loop {
                match opened.events.message().await {
                    Ok(Some(event)) => match event.event {
                        Some(Event::End(end)) => return Ok(end.offset),
                        Some(Event::Data(data)) => return Ok(data.offset),
                        _ => {}
                    },
                    Ok(None) => break self.cut(ended_early()).await?,
                    Err(status) => break self.cut(fault::from_coordinator(&status)).await?,
                }
            }
        }
    }

    async fn open(&self, start: Start, follow: bool) -> Result<Opened, Fault> {
        let request = pb::TailRequest {
            session_id: self.session.clone(),
            run: self.run,
            file: match self.request.file {
                TailFile::Stdout => pb::TailFile::Stdout.into(),
                TailFile::Stderr => pb::TailFile::Stderr.into(),
            },
            start: Some(start),
            follow,
            late_bytes: self.request.late_bytes,
        };
        let until = self.client.until(self.client.call_deadline());
        let borrowed = self.client.link().connection(until).await?;
        let open = async {
            let permit = borrowed.connection.permit().await;
            let mut sessions = methods::sessions(borrowed.connection.channel());
            (permit, sessions.tail(request).await)
        };
        match self.client.clock().timeout_at(until, Box::pin(open)).await {
            Ok((permit, Ok(answer))) => Ok(Opened {
                events: answer.into_inner(),
                _permit: permit,
            }),
            Ok((_, Err(status))) => {
                if !fault::is_answer(&status) {
                    self.client.link().forget(&borrowed.connection).await;
                }
                Err(fault::from_coordinator(&status))
            }
            Err(_) => Err(Fault::new(
                Reason::Unavailable,
                "the coordinator did not answer in time",
            )),
        }
    }

    async fn next(&mut self) -> Result<TailEvent, Fault> {
        loop {
            let Some(opened) = &mut self.stream else {
                let start = Start::Offset(self.expected);
                match Box::pin(self.open(start, self.request.follow)).await {
                    Ok(opened) => self.stream = Some(opened),
                    Err(fault) => return self.reconnecting(fault).await,
                }
                continue;
            };
            match opened.events.message().await {
                Ok(Some(event)) => {
                    if let Some(event) = event.event {
                        self.attempts = 0;
                        self.give_up = None;
                        return self.take(event);
                    }
                }
                Ok(None) => return self.reconnecting(ended_early()).await,
                Err(status) => {
                    return self.reconnecting(fault::from_coordinator(&status)).await;
                }
            }
        }
    }

    async fn reconnecting(&mut self, cause: Fault) -> Result<TailEvent, Fault> {
        self.stream = None;
        self.cut(cause.clone()).await?;
        Ok(TailEvent::Reconnecting { cause })
    }

    /// Waits before the next attempt. Errors when there is none: the fault does not pass, or
    /// patience is over.
    async fn cut(&mut self, fault: Fault) -> Result<(), Fault> {
        if fault.kind() != Kind::Unavailable {
            return Err(fault);
        }
        let patience = self.request.patience;
        let now = self.client.clock().boottime();
        let give_up = *self.give_up.get_or_insert(now.saturating_add(patience));
        let attempt = self.attempts;
        self.attempts += 1;
        if now < give_up && self.client.link().pause(attempt, give_up).await {
            Ok(())
        } else {
            Err(fault)
        }
    }

    fn take(&mut self, event: Event) -> Result<TailEvent, Fault> {
        match event {
            Event::Data(data) => {
                if data.run != self.run {
                    return Err(broken(&format!("run {} for run {}", data.run, self.run)));
                }
                self.check(data.offset)?;
                self.expected += data.bytes.len() as u64;
                Ok(TailEvent::Data {
                    run: data.run,
                    offset: data.offset,
                    bytes: data.bytes,
                })
            }
            Event::Gap(gap) => {
                self.expected = gap.to;
                Ok(TailEvent::Gap {
                    from: gap.from,
                    to: gap.to,
                    reason: gap.reason,
                })
            }
            Event::Progress(progress) => Ok(TailEvent::Progress {
                offset: progress.offset,
                size: progress.size,
                at_eof: progress.at_eof,
            }),
            Event::End(end) => {
                self.check(end.offset)?;
                Ok(TailEvent::End {
                    offset: end.offset,
                    late_bytes: end.late_bytes,
                })
            }
        }
    }

    fn check(&self, offset: u64) -> Result<(), Fault> {
        if offset == self.expected {
            return Ok(());
        }
        Err(broken(&format!("offset {offset} for {}", self.expected)))
    }
}

fn broken(what: &str) -> Fault {
    Fault::internal(format!("the output does not follow itself: {what}"))
}

fn ended_early() -> Fault {
    Fault::new(
        Reason::CoordinatorUnreachable,
        "the stream ended before the output did",
    )
}
