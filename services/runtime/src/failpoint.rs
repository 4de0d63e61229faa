//! Named places where a test may kill the process, between every two steps of a protocol.
//!
//! With the feature `failpoints` and `MUSTER_FAILPOINT=name[:n][,file]` in the environment the
//! process kills itself with SIGKILL at the n-th time it passes that place (default: the
//! first), and makes the file before it does: that is how a test knows that the place was
//! reached. Without the feature nothing of it is compiled.

/// Passes the named place; see the module.
#[macro_export]
macro_rules! failpoint {
    ($name:expr) => {
        $crate::failpoint::hit($name)
    };
}

/// Passes the place `name`.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn hit(_name: &str) {}

/// Passes the place `name`: kills the process when the environment asks for it here.
#[cfg(feature = "failpoints")]
pub fn hit(name: &str) {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };

    struct Armed {
        name: String,
        left: AtomicU64,
        mark: Option<std::path::PathBuf>,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| {
        let spec = std::env::var("MUSTER_FAILPOINT").ok()?;
        let (place, mark) = match spec.split_once(',') {
            Some((place, mark)) => (place, Some(mark.into())),
            None => (spec.as_str(), None),
        };
        let (name, count) = match place.rsplit_once(':') {
            Some((name, count)) => (name, count.parse().unwrap_or(1)),
            None => (place, 1),
        };
        Some(Armed {
            name: name.to_owned(),
            left: AtomicU64::new(count),
            mark,
        })
    });
    let Some(armed) = armed else { return };
    if armed.name == name && armed.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        if let Some(mark) = &armed.mark {
            // The test that asked for it fails when the file is not there.
            let _ = std::fs::write(mark, name);
        }
        // SIGKILL cannot be caught, so nothing after this line runs, as in a real crash.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
