//! Where words go: data to standard output, everything else to standard error.

use std::{
    io::{self, ErrorKind, IsTerminal as _, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use muster_runtime::Tasks;
use serde_json::Value;

use crate::exit::Failure;

/// Set once, before anything is said.
static JSON: AtomicBool = AtomicBool::new(false);

/// From now on standard error is for programs too: notes are left out, failures are JSON.
pub(crate) fn speak_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Whether a program reads.
pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Writes data. A reader that has gone ends the command quietly.
pub(crate) fn bytes(data: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(data)
        .and_then(|()| stdout.flush())
        .map_err(|error| unwritten(&error))
}

/// As [`bytes`], for output that goes on and on: who reads it may stop reading, and Ctrl-C has
/// to be heard all the same.
pub(crate) async fn streamed(to: Stream, data: Vec<u8>) -> Result<(), Failure> {
    let written = Tasks::new("output").spawn_blocking("write", move || match to {
        Stream::Stdout => bytes(&data),
        Stream::Stderr => error_bytes(&data),
    });
    written
        .await
        .map_err(|error| Failure::failed(error.to_string()))?
}

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Writes one line of data.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    bytes(format!("{text}\n").as_bytes())
}

/// Writes one JSON document on one line.
pub(crate) fn json_line(value: &Value) -> Result<(), Failure> {
    line(&value.to_string())
}

/// Writes one JSON document, for people where people look.
pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        line(&format!("{value:#}"))
    } else {
        json_line(value)
    }
}

fn error_bytes(data: &[u8]) -> Result<(), Failure> {
    let mut stderr = io::stderr().lock();
    stderr
        .write_all(data)
        .and_then(|()| stderr.flush())
        .map_err(|error| unwritten(&error))
}

/// Says something that is not data. Nothing depends on its being read; programs are spared it.
pub(crate) fn note(text: &str) {
    if !is_json() {
        aloud(text);
    }
}

/// Says something that is not data, to programs too.
pub(crate) fn aloud(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn unwritten(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::nobody_reads(),
        _ => Failure::failed(format!("write to standard output: {error}")),
    }
}
