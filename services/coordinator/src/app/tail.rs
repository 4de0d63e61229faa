//! Raw output, passed through from the agent by (run, offset).

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use muster_domain::{Fault, Reason};
use muster_runtime::Clock;

use super::{App, HOST_CALL};
use crate::hosts::api::{
    FileRef, FollowCall, Framing, HostApi, RunFile, RunKey, Start, TailEvent, TailStream,
};

/// How long a followed tail waits for its host to come back.
const RECONNECT: Duration = Duration::from_secs(600);
/// How long it waits between two attempts.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Output that a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailRequest {
    /// Session, by id or unique prefix.
    pub session: String,
    /// Run; 0 = the latest.
    pub run: u32,
    /// Which output.
    pub file: RunFile,
    /// Where it begins.
    pub start: TailStart,
    /// Go on until the run's end.
    pub follow: bool,
    /// Bytes after the end too.
    pub late_bytes: bool,
}

/// Where raw output begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailStart {
    /// The first byte.
    Beginning,
    /// What comes from now on.
    End,
    /// This many bytes before the end.
    LastBytes(u64),
    /// This byte.
    Offset(u64),
}

/// A piece of raw output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailFrame {
    /// Bytes.
    Data {
        /// Run.
        run: u32,
        /// Offset of the first.
        offset: u64,
        /// At most 256 KiB.
        bytes: Bytes,
    },
    /// Bytes that cannot be had.
    Gap {
        /// The first one.
        from: u64,
        /// The first one after them.
        to: u64,
        /// Closed name.
        reason: String,
    },
    /// How far the tail is.
    Progress {
        /// Offset reached.
        offset: u64,
        /// Size of the file.
        size: u64,
        /// Everything was sent.
        at_eof: bool,
    },
    /// The end.
    End {
        /// Its offset.
        offset: u64,
        /// Bytes after it.
        late_bytes: u64,
    },
}

/// Raw output, pulled.
pub type TailFrames = Pin<Box<dyn Stream<Item = Result<TailFrame, Fault>> + Send>>;

impl App {
    /// Raw output of a run. A followed tail goes over cut links: it goes on where it was.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `AMBIGUOUS_ID`, `RUN_NOT_FOUND`, `BAD_CURSOR`,
    /// `HOST_UNREACHABLE`, `STREAM_LIMIT`; the same as an item later.
    pub async fn tail(&self, request: TailRequest) -> Result<TailFrames, Fault> {
        let state = self.find(&request.session).await?;
        let run = match request.run {
            0 => state.run.no,
            run if run <= state.run.no => run,
            run => {
                return Err(Fault::new(
                    Reason::RunNotFound,
                    format!("the session has {} runs, not {run}", state.run.no),
                ));
            }
        };
        let host = self.parts.hosts.get(state.spec.host).ok_or_else(|| {
            Fault::new(Reason::HostUnreachable, "the session's host is not known")
        })?;
        let follower = Follower {
            clock: self.parts.clock.clone(),
            host,
            call: FollowCall {
                file: FileRef::Run(
                    RunKey {
                        session: state.spec.id,
                        run,
                    },
                    request.file,
                ),
                framing: Framing::Chunks,
                start: match request.start {
                    TailStart::Beginning => Start::Beginning,
                    TailStart::End => Start::End,
                    TailStart::LastBytes(bytes) => Start::LastBytes(bytes),
                    TailStart::Offset(offset) => Start::Offset(offset),
                },
                follow: request.follow,
                late_bytes: request.late_bytes,
            },
            run,
            reached: None,
        };
        follower.open().await
    }
}

fn is_cut(fault: &Fault) -> bool {
    matches!(fault.reason(), Reason::HostUnreachable | Reason::Moved)
}

struct Follower {
    clock: Clock,
    host: Arc<dyn HostApi>,
    call: FollowCall,
    run: u32,
    /// Offset after the last byte that was sent.
    reached: Option<u64>,
}

impl Follower {
    async fn open(mut self) -> Result<TailFrames, Fault> {
        let mut events = self.host.follow(self.call.clone(), HOST_CALL).await?;
        Ok(Box::pin(async_stream::stream! {
            loop {
                let fault = loop {
                    match events.next().await {
                        Some(Ok(event)) => {
                            let ended = matches!(event, TailEvent::End { .. });
                            for frame in self.frames(event) {
                                yield Ok(frame);
                            }
                            if ended {
                                return;
                            }
                        }
                        Some(Err(fault)) => break fault,
                        None => break Fault::new(
                            Reason::HostUnreachable,
                            "the host ended the stream before the output's end",
                        ),
                    }
                };
                let cut = is_cut(&fault) && self.call.follow;
                let (true, Some(reached)) = (cut, self.reached) else {
                    yield Err(fault);
                    return;
                };
                self.call.start = Start::Offset(reached);
                match self.again().await {
                    Ok(again) => events = again,
                    Err(fault) => {
                        yield Err(fault);
                        return;
                    }
                }
            }
        }))
    }

    /// Follows again as soon as the host can be reached.
    async fn again(&self) -> Result<TailStream, Fault> {
        let until = self.clock.boottime() + RECONNECT;
        loop {
            let rest = until.saturating_sub(self.clock.boottime());
            match self.host.follow(self.call.clone(), rest).await {
                // A link that just broke may look up for a moment.
                Err(fault) if is_cut(&fault) && !rest.is_zero() => {
                    self.clock.sleep(AGAIN_AFTER).await;
                }
                result => return result,
            }
        }
    }

    fn frames(&mut self, event: TailEvent) -> Vec<TailFrame> {
        match event {
            TailEvent::Data { offset, bytes, .. } => self.data(offset, bytes),
            TailEvent::Gap { from, reason } => vec![TailFrame::Gap {
                from,
                to: from,
                reason: reason.to_owned(),
            }],
            TailEvent::Truncated { size } => vec![self.lost(size, "TRUNCATED")],
            TailEvent::Replaced => vec![self.lost(0, "REPLACED")],
            TailEvent::Progress {
                offset,
                size,
                at_eof,
            } => {
                self.reached.get_or_insert(offset);
                vec![TailFrame::Progress {
                    offset,
                    size,
                    at_eof,
                }]
            }
            TailEvent::End { offset, late_bytes } => {
                vec![TailFrame::End { offset, late_bytes }]
            }
            TailEvent::Opened { .. } | TailEvent::Removed | TailEvent::LongLine { .. } => {
                Vec::new()
            }
        }
    }

    fn data(&mut self, offset: u64, bytes: Bytes) -> Vec<TailFrame> {
        let mut frames = Vec::new();
        let (mut offset, mut bytes) = (offset, bytes);
        if let Some(reached) = self.reached {
            if offset > reached {
                frames.push(TailFrame::Gap {
                    from: reached,
                    to: offset,
                    reason: "MISSING".to_owned(),
                });
            }
            // A chunk may show again what was shown of an unfinished line.
            let known = usize::try_from(reached.saturating_sub(offset)).unwrap_or(usize::MAX);
            let _ = bytes.split_to(known.min(bytes.len()));
            offset = offset.max(reached);
        }
        if bytes.is_empty() {
            return frames;
        }
        self.reached = Some(offset + bytes.len() as u64);
        frames.push(TailFrame::Data {
            run: self.run,
            offset,
            bytes,
        });
        frames
    }

    fn lost(&mut self, to: u64, reason: &str) -> TailFrame {
        let from = self.reached.replace(0).unwrap_or(0);
        TailFrame::Gap {
            from,
            to,
            reason: reason.to_owned(),
        }
    }
}
