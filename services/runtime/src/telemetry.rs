//! Logs: tracing to standard error, never to standard output, which belongs to data.

use std::{io, io::IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// How a process logs.
#[derive(Clone, Debug)]
pub struct Config {
    /// The process's name, in the first line.
    pub service: &'static str,
    /// The filter when `MUSTER_LOG` is unset or invalid, for example `info`.
    pub default_filter: &'static str,
}

/// Logging is on. Kept in `main` until the end, so that what comes to be flushed then has
/// a place.
#[derive(Debug)]
#[must_use]
pub struct Guard(());

/// Turns logging on for this process: text on a terminal, JSON lines elsewhere, filtered by
/// `MUSTER_LOG`; panics are logged as errors. A second call changes nothing.
pub fn init(config: &Config) -> Guard {
    let (filter, invalid) = match std::env::var("MUSTER_LOG") {
        Ok(text) => match EnvFilter::try_new(&text) {
            Ok(filter) => (filter, None),
            Err(error) => (EnvFilter::new(config.default_filter), Some(error)),
        },
        Err(_) => (EnvFilter::new(config.default_filter), None),
    };
    let registry = tracing_subscriber::registry().with(filter);
    let installed = if io::stderr().is_terminal() {
        let layer = fmt::layer().with_writer(io::stderr).with_target(false);
        registry.with(layer).try_init()
    } else {
        let layer = fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(io::stderr);
        registry.with(layer).try_init()
    };
    if installed.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
        tracing::debug!(
            service = config.service,
            pid = std::process::id(),
            "logging on"
        );
    }
    if let Some(error) = invalid {
        tracing::warn!(%error, "MUSTER_LOG is not a valid filter; using the default");
    }
    Guard(())
}

fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let place = info
        .location()
        .map_or_else(String::new, ToString::to_string);
    let thread = std::thread::current();
    tracing::error!(
        panic = info.payload_as_str().unwrap_or("no text"),
        place,
        thread = thread.name().unwrap_or("unnamed"),
        "panic"
    );
}
