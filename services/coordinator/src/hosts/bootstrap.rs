//! Making an agent be there on the machine that the coordinator runs on: the same binary,
//! detached, so that it outlives the coordinator.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use async_trait::async_trait;
use muster_runtime::{Tasks, process::Detached};
use muster_transport::{Bootstrap, BootstrapError};

/// How long a starting agent may take to announce itself.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Starts `<program> <arguments>` detached. A second agent of the same folder ends by itself.
#[derive(Debug, Clone)]
pub struct StartAgent {
    /// The executable; `None` = this one.
    pub program: Option<PathBuf>,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment, beside what is inherited without `MUSTER_*`.
    pub env: Vec<(OsString, OsString)>,
    /// Where it complains.
    pub log: PathBuf,
    /// Owner of the work of starting it.
    pub tasks: Tasks,
}

#[async_trait]
impl Bootstrap for StartAgent {
    async fn bootstrap(&self) -> Result<(), BootstrapError> {
        if let Some(folder) = self.log.parent() {
            let folder = folder.to_owned();
            let made = self.tasks.spawn_blocking("agent's log folder", move || {
                muster_runtime::files::private_dir(&folder).map(drop)
            });
            match made.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(failed(&error)),
                Err(error) => return Err(failed(&error)),
            }
        }
        let mut start = Detached::new("muster-agent", &self.log);
        if let Some(program) = &self.program {
            start = start.exe(program);
        }
        for argument in &self.args {
            start = start.arg(argument);
        }
        for (name, value) in &self.env {
            start = start.env(name, value);
        }
        let started = start
            .start(&self.tasks, READY_WITHIN)
            .await
            .map_err(|error| failed(&error))?;
        tracing::info!(pid = started.pid, "host agent started");
        Ok(())
    }
}

fn failed(error: &dyn std::error::Error) -> BootstrapError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    BootstrapError::new(text)
}
