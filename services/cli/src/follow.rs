//! Output of a run as it comes: bytes for people, lines for programs.

mod lines;

use std::time::Duration;

use futures_util::{Stream, StreamExt as _, pin_mut};
use muster_client::{Fault, TailEvent};
use serde_json::json;

use self::lines::Lines;
use crate::{cuts::Cuts, exit::Failure, out};

/// How long a cut tail tries to go on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Where the output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    /// Bytes to standard output.
    Stdout,
    /// Bytes to standard error.
    Stderr,
    /// JSON lines to standard output.
    Json,
}

impl Sink {
    fn stream(self) -> out::Stream {
        match self {
            Self::Stdout | Self::Json => out::Stream::Stdout,
            Self::Stderr => out::Stream::Stderr,
        }
    }
}

/// Prints a tail to its real end. A gap is said, and is no end. Cancel safe in that a piece is
/// printed whole or not at all.
pub(crate) async fn print(
    tail: impl Stream<Item = Result<TailEvent, Fault>>,
    sink: Sink,
) -> Result<(), Failure> {
    pin_mut!(tail);
    let mut lines = Lines::default();
    let mut cuts = Cuts::new();
    while let Some(event) = tail.next().await {
        let event = match event? {
            TailEvent::Reconnecting { cause } => {
                // Both outputs of a run are cut at once; one of them tells.
                if sink != Sink::Stderr {
                    cuts.cut(&cause);
                }
                continue;
            }
            event => event,
        };
        cuts.alive();
        let ended = matches!(event, TailEvent::End { .. });
        let printed = render(event, sink, &mut lines);
        if !printed.is_empty() {
            out::streamed(sink.stream(), printed).await?;
        }
        if ended {
            return Ok(());
        }
    }
    Err(Failure::failed("the output ended before its end"))
}

/// What an event prints.
fn render(event: TailEvent, sink: Sink, lines: &mut Lines) -> Vec<u8> {
    let mut printed = Vec::new();
    match (event, sink) {
        (TailEvent::Data { run, offset, bytes }, Sink::Json) => {
            lines.take(run, offset, &bytes, &mut printed);
        }
        (TailEvent::Data { bytes, .. }, Sink::Stdout | Sink::Stderr) => return bytes.into(),
        (TailEvent::Gap { from, to, reason }, Sink::Json) => {
            lines.end(&mut printed);
            let gap = json!({
                "event": "gap", "from": from.to_string(), "to": to.to_string(), "reason": reason
            });
            printed.extend_from_slice(format!("{gap}\n").as_bytes());
        }
        (TailEvent::Gap { from, to, reason }, Sink::Stdout | Sink::Stderr) => out::note(&format!(
            "bytes {from} to {to} of the output cannot be had ({reason})"
        )),
        (TailEvent::End { .. }, _) => lines.end(&mut printed),
        (TailEvent::Progress { .. } | TailEvent::Reconnecting { .. }, _) => {}
    }
    printed
}
