//! Test kit: Muster's real binaries in private homes, a program that misbehaves on request, and a byte-exact model.
//!
//! A test starts with a [`World`]: a temporary folder that is everything to the processes below it, and whose end is
//! their end, also when the test panics. Nothing here waits by sleeping for a guessed time: [`eventually`] waits for a
//! condition and fails with what it last saw.
#![allow(
    clippy::print_stderr,
    reason = "a failing test's evidence goes where the harness captures it"
)]

pub mod api;
pub mod invocation;
pub mod model;
pub mod mount;
pub mod pattern;
pub mod processes;
pub mod wait;
pub mod world;

pub use invocation::{Invocation, Outcome, Running};
pub use model::{Fate, Model};
pub use mount::Mount;
pub use wait::{DEADLINE, eventually};
pub use world::{Binaries, World};

use std::io::Write as _;

/// Says that part of the suite did not run, and why: on stderr, and as a line of the file that `MUSTER_SKIPS` names,
/// which `tests/run` prints at its end. The caller then returns.
pub fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
    let Some(path) = std::env::var_os("MUSTER_SKIPS") else {
        return;
    };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{reason}")) {
        eprintln!("the skip could not be noted: {error}");
    }
}

/// A whole number from the environment, for tests that can be made longer. Unset or empty: `default`.
///
/// # Panics
/// When the variable is set to something else than a number.
#[must_use]
pub fn knob(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}, wanted is a whole number")),
        _ => default,
    }
}
