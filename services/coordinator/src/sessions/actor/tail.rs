//! The output of the session's run, followed. It is pulled: what is not taken is not read on
//! the host, so a slow store slows this session's tail and nothing else (F19).

use std::{collections::VecDeque, future::pending, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use muster_domain::{Reason, session::fold::Fact};

use crate::hosts::api::{
    FileRef, FollowCall, Framing, HostApi, RunFile, RunKey, Start, TailEvent, TailStream,
};

/// How long the opening may take.
const OPEN: Duration = Duration::from_secs(10);

/// The tail of a run, while it is followed.
#[derive(Default)]
pub(super) struct Tail {
    run: u32,
    stream: Option<TailStream>,
    /// The host refused the resume point of this run: how often.
    refused: u32,
    /// To be given before what the stream gives.
    facts: VecDeque<Fact>,
    /// Bytes that were consumed when it was opened.
    consumed: u64,
}

impl Tail {
    /// Follows a run's output from the committed cursor on.
    pub(super) fn attach(
        &mut self,
        host: Arc<dyn HostApi>,
        key: RunKey,
        cursor: Vec<u8>,
        consumed: u64,
    ) {
        if key.run != self.run {
            self.refused = 0;
        }
        self.run = key.run;
        self.consumed = consumed;
        self.facts.clear();
        let start = match self.refused {
            0 if cursor.is_empty() => Start::Beginning,
            0 => Start::Cursor(cursor),
            // The file only grows, so the number is as good, where it is still that file.
            1 => Start::Offset(consumed),
            _ => Start::Beginning,
        };
        let call = FollowCall {
            file: FileRef::Run(key, RunFile::Stdout),
            framing: Framing::Chunks,
            start,
            follow: true,
            late_bytes: false,
        };
        let opening = async move { host.follow(call, OPEN).await };
        self.stream = Some(Box::pin(stream::once(opening).try_flatten()));
    }

    /// The run is not followed, as its host is not known.
    pub(super) fn lost(&mut self, run: u32) {
        self.detach();
        self.facts.push_back(Fact::TailLost { run });
    }

    pub(super) fn detach(&mut self) {
        self.stream = None;
        self.facts.clear();
    }

    /// What the tail says next; for ever when there is none. Cancel safe.
    pub(super) async fn next(&mut self) -> Fact {
        loop {
            if let Some(fact) = self.facts.pop_front() {
                return fact;
            }
            let Some(stream) = &mut self.stream else {
                return pending().await;
            };
            let run = self.run;
            match stream.next().await {
                Some(Ok(event)) => {
                    if matches!(event, TailEvent::End { .. }) {
                        self.stream = None;
                    }
                    self.facts.extend(fact(run, event));
                }
                Some(Err(fault)) => {
                    tracing::debug!(run, %fault, "the tail broke off");
                    self.stream = None;
                    match fault.reason() {
                        Reason::BadCursor => self.refuse(),
                        // The agent looked: there is no such file.
                        Reason::NotFound => self.facts.push_back(Fact::Removed { run }),
                        _ => {}
                    }
                    self.facts.push_back(Fact::TailLost { run });
                }
                None => {
                    self.stream = None;
                    self.facts.push_back(Fact::TailLost { run });
                }
            }
        }
    }

    /// The host does not know the place where reading is to go on.
    fn refuse(&mut self) {
        self.refused += 1;
        if self.refused == 2 {
            self.facts.push_back(Fact::Gap {
                run: self.run,
                from: self.consumed,
            });
        }
    }
}

fn fact(run: u32, event: TailEvent) -> Option<Fact> {
    match event {
        TailEvent::Data {
            offset,
            bytes,
            next,
            ..
        } => Some(Fact::Bytes {
            run,
            offset,
            bytes: bytes.to_vec(),
            next,
        }),
        // Chunks have none; where an agent sends one, its bytes are not at hand.
        TailEvent::LongLine { offset, .. } => Some(Fact::Gap { run, from: offset }),
        TailEvent::Truncated { .. } => Some(Fact::Truncated { run }),
        TailEvent::Replaced => Some(Fact::Replaced { run }),
        TailEvent::Gap { from, .. } => Some(Fact::Gap { run, from }),
        TailEvent::End { late_bytes, .. } => Some(Fact::TailEnd { run, late_bytes }),
        TailEvent::Removed => Some(Fact::Removed { run }),
        TailEvent::Opened { .. } | TailEvent::Progress { .. } => None,
    }
}
