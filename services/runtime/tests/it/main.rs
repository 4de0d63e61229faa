//! Behaviour of the runtime crate, with real files, sockets and processes.

mod clock;
mod files;
mod lock;
mod process;
mod server;
mod socket;
mod tasks;

use std::{path::Path, process::Child, time::Duration};

/// The machine may be busy; nothing here is about speed.
pub const LONG: Duration = Duration::from_secs(60);

/// The fixture's path.
pub const FIXTURE: &str = env!("CARGO_BIN_EXE_runtime-fixture");

/// A private folder.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A child that is killed when the test ends in any way.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `condition` gives something.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let clock = muster_runtime::Clock::system();
    let end = clock.boottime() + LONG;
    while clock.boottime() < end {
        if let Some(found) = condition() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what} did not come");
}

/// The file's text, empty when there is none.
pub fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
