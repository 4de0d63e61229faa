//! The one test binary of this crate: the rules of the source tree, and Muster's real binaries.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "every function here is part of a test, helpers too"
)]

mod bad_input;
mod crash;
mod crash_keeper;
mod docs;
mod failpoints;
mod full_disk;
mod kit;
mod run;
mod scale;
mod sessions;
mod tidy;

use muster_e2e::{Binaries, World};

const BINARIES: Binaries = Binaries {
    muster: env!("CARGO_BIN_EXE_muster-under-test"),
    program: env!("CARGO_BIN_EXE_fake-program"),
};

/// A world of its own for the calling test.
fn world() -> World {
    World::new(BINARIES)
}
