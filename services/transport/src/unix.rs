//! The dialler of a Unix socket, at a path of any length.

use std::{io, path::PathBuf};

use async_trait::async_trait;
use muster_runtime::socket;

use crate::dial::{BoxIo, Dial, DialFault};

/// Dials the Unix socket at a path.
#[derive(Clone, Debug)]
pub struct Unix {
    path: PathBuf,
}

impl Unix {
    /// A dialler for the socket at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

#[async_trait]
impl Dial for Unix {
    async fn dial(&self) -> io::Result<BoxIo> {
        match socket::connect(&self.path).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(match error.kind() {
                // A socket without a listener and no socket at all are the same news.
                io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::ConnectionRefused => DialFault::AgentDown.error(error),
                io::ErrorKind::PermissionDenied => DialFault::Refused.error(error),
                _ => error,
            }),
        }
    }
}
