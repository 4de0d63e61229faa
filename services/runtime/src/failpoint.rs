//! Named places where a test may kill the process, between every two steps of a protocol.
//!
//! With the feature `failpoints` and `MUSTER_FAILPOINT=name[:n]` in the environment the
//! process kills itself with SIGKILL at the n-th time it passes that place (default: the
//! first). Without the feature nothing of it is compiled.

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
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| {
        let spec = std::env::var("MUSTER_FAILPOINT").ok()?;
        let (name, count) = match spec.rsplit_once(':') {
            Some((name, count)) => (name, count.parse().unwrap_or(1)),
            None => (spec.as_str(), 1),
        };
        Some(Armed {
            name: name.to_owned(),
            left: AtomicU64::new(count),
        })
    });
    let Some(armed) = armed else { return };
    if armed.name == name && armed.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SIGKILL cannot be caught, so nothing after this line runs, as in a real crash.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
