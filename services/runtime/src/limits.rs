//! The process's own resource limits.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit on open files as a process was started with it, to be given back to the
/// programs it starts: some count up to their soft limit, some select() and break above 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// What the kernel enforces; `None` is unlimited.
    pub soft: Option<u64>,
    /// Up to where the process may raise it; `None` is unlimited.
    pub hard: Option<u64>,
}

/// The limit in force now.
pub fn open_files() -> OpenFiles {
    let limit = getrlimit(Resource::Nofile);
    OpenFiles {
        soft: limit.current,
        hard: limit.maximum,
    }
}

/// Raises the soft limit on open files to the hard one and gives the original.
///
/// # Errors
/// When the kernel refuses.
pub fn raise_open_files() -> io::Result<OpenFiles> {
    let original = open_files();
    set_open_files(OpenFiles {
        soft: original.hard,
        hard: original.hard,
    })?;
    Ok(original)
}

/// Sets the limit on open files of this process and of the children it starts from now on.
///
/// # Errors
/// When the kernel refuses.
pub fn set_open_files(limit: OpenFiles) -> io::Result<()> {
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.soft,
            maximum: limit.hard,
        },
    )?;
    Ok(())
}
