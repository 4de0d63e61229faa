//! Why a coordinator does not start, and what to do about it.

use std::{io, path::PathBuf};

use muster_domain::{Fault, changeset::Conflict};
use muster_runtime::{
    files::PrivateDirError, lock::LockError, server::ServeError, socket::BindError,
};

use crate::store;

/// A coordinator does not start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another one uses the data folder.
    #[error("another coordinator{} uses the data folder {}", process(*pid), path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Who holds it.
        pid: Option<u32>,
    },
    /// The data folder cannot be made, opened or locked.
    #[error("the data folder cannot be used: {text}")]
    Folder {
        /// What is wrong.
        text: String,
        /// It cannot be written.
        read_only: bool,
    },
    /// The socket cannot be bound.
    #[error("the socket cannot be used: {text}")]
    Socket {
        /// What is wrong.
        text: String,
        /// What to do.
        hint: &'static str,
    },
    /// The database cannot be opened.
    #[error("the database cannot be used: {text}")]
    Store {
        /// What is wrong.
        text: String,
        /// What to do.
        hint: Option<String>,
    },
    /// Anything else.
    #[error("{text}")]
    Failed {
        /// What is wrong.
        text: String,
    },
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

impl StartError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Locked { .. } => {
                "`muster status` shows it, `muster down` ends it; another MUSTER_HOME is another \
                 coordinator"
            }
            Self::Folder {
                read_only: true, ..
            } => "make it writable, or name another one with MUSTER_HOME",
            Self::Folder { .. } => "name another one with MUSTER_HOME",
            Self::Socket { hint, .. } => hint,
            Self::Store { hint, .. } => return hint.clone(),
            Self::Failed { .. } => return None,
        };
        Some(text.to_owned())
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

fn read_only(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
    )
}

impl From<PrivateDirError> for StartError {
    fn from(error: PrivateDirError) -> Self {
        Self::Folder {
            read_only: matches!(&error, PrivateDirError::Io { source, .. } if read_only(source)),
            text: chain(&error),
        }
    }
}

impl From<LockError> for StartError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Locked { path, pid } => Self::Locked {
                path: path.parent().unwrap_or(&path).to_owned(),
                pid,
            },
            LockError::Io { ref source, .. } => Self::Folder {
                read_only: read_only(source),
                text: chain(&error),
            },
        }
    }
}

impl From<BindError> for StartError {
    fn from(error: BindError) -> Self {
        let hint = match &error {
            BindError::Occupied { .. } => "end the process that listens there",
            BindError::NotASocket { .. } => "move that file away",
            BindError::Folder(_) | BindError::Io { .. } => "name another folder with MUSTER_HOME",
        };
        Self::Socket {
            text: chain(&error),
            hint,
        }
    }
}

impl From<store::Error> for StartError {
    fn from(error: store::Error) -> Self {
        let fault = Fault::from(error);
        let cause = fault.cause().map(|cause| format!(": {cause}"));
        Self::Store {
            text: format!("{fault}{}", cause.unwrap_or_default()),
            hint: fault.hint().map(str::to_owned),
        }
    }
}

impl From<Conflict> for StartError {
    fn from(conflict: Conflict) -> Self {
        let text = match conflict {
            Conflict::Unavailable(cause) => format!("it cannot be written: {cause}"),
            other @ (Conflict::Version { .. } | Conflict::KeyTaken) => other.to_string(),
        };
        Self::Store {
            text,
            hint: Some("check the disk that holds the data folder".to_owned()),
        }
    }
}

impl From<ServeError> for StartError {
    fn from(error: ServeError) -> Self {
        Self::Failed {
            text: chain(&error),
        }
    }
}
