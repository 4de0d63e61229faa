//! Processes by identity: a pid alone names nothing.
//!
//! An identity is (boot id, pid, start ticks). Whoever signals opens a pidfd first and then
//! checks the ticks behind it, so that a recycled pid is never hit.

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use muster_proto::keeper as wire;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal},
};
use serde::{Deserialize, Serialize};

mod marker;
mod stat;
mod tree;

pub use marker::{Found, MARKER_RUN, MARKER_SESSION, Marker, find_marked, marker_of};
pub use stat::{Stat, pids, stat};
pub use tree::{Member, Tree};

/// A process of the current boot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(default)]
pub struct Identity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks after boot: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

impl From<Identity> for wire::ProcessIdentity {
    fn from(identity: Identity) -> Self {
        Self {
            pid: identity.pid,
            start_ticks: identity.start_ticks,
        }
    }
}

impl From<wire::ProcessIdentity> for Identity {
    fn from(identity: wire::ProcessIdentity) -> Self {
        Self {
            pid: identity.pid,
            start_ticks: identity.start_ticks,
        }
    }
}

/// The id of this boot.
///
/// # Errors
/// What reading it says.
pub fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

impl Identity {
    /// Of the process that has this pid now; `None` when there is none.
    ///
    /// # Errors
    /// Any failure but absence.
    pub fn of(pid: i32) -> io::Result<Option<Self>> {
        Ok(stat(pid)?.map(|stat| stat.identity))
    }

    /// Of this process.
    ///
    /// # Errors
    /// What reading `/proc` says.
    pub fn own() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self::of(pid)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Whether the process runs. One that has ended and was not waited for does not run.
    ///
    /// # Errors
    /// Any failure but absence.
    pub fn is_alive(self) -> io::Result<bool> {
        Ok(stat(self.pid)?.is_some_and(|stat| stat.identity == self && !stat.has_ended()))
    }
}

/// A process held by a pidfd: the pid cannot be taken for another one behind its back.
#[derive(Debug)]
pub struct Held {
    identity: Identity,
    pidfd: OwnedFd,
}

impl Held {
    /// Opens the pidfd, then checks the start ticks; `None` when the process is gone or its
    /// pid belongs to another one now.
    ///
    /// # Errors
    /// Any failure but absence.
    pub fn open(identity: Identity) -> io::Result<Option<Self>> {
        let Some(pid) = Pid::from_raw(identity.pid).filter(|_| identity.pid > 1) else {
            return Ok(None);
        };
        let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let now = Identity::of(identity.pid)?;
        Ok((now == Some(identity)).then_some(Self { identity, pidfd }))
    }

    /// Who it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether it has ended (waited for or not).
    ///
    /// # Errors
    /// What `poll` says.
    pub fn has_ended(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        loop {
            match poll(&mut fds, Some(&Timespec::default())) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a signal; false when it has ended.
    ///
    /// # Errors
    /// What `pidfd_send_signal` says.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        match rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signalled {
    /// It was sent to exactly that process.
    Sent,
    /// The process has ended.
    Gone,
    /// The pid belongs to another process now: nothing was sent.
    Recycled,
    /// The process belongs to another user: nothing was sent.
    Foreign,
    /// The identity is of another boot: nothing was sent.
    OtherBoot,
    /// Pids up to 1 are never signalled.
    Refused,
}

/// Sends `signal` to exactly this process: verified through its pidfd, of this boot, of this
/// user, never a pid up to 1.
///
/// # Errors
/// Any failure that leaves it open whether the process is there.
pub fn signal_identity(boot: &str, identity: Identity, signal: Signal) -> io::Result<Signalled> {
    if identity.pid <= 1 {
        return Ok(Signalled::Refused);
    }
    if boot != boot_id()? {
        return Ok(Signalled::OtherBoot);
    }
    let Some(held) = Held::open(identity)? else {
        let other = Identity::of(identity.pid)?.is_some_and(|now| now != identity);
        return Ok(if other {
            Signalled::Recycled
        } else {
            Signalled::Gone
        });
    };
    match stat::real_uid(identity.pid)? {
        None => return Ok(Signalled::Gone),
        Some(uid) if uid != own_uid() => return Ok(Signalled::Foreign),
        Some(_) => {}
    }
    Ok(if held.signal(signal)? {
        Signalled::Sent
    } else {
        Signalled::Gone
    })
}

pub(crate) fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The signal of a number; `None` for 0 and for numbers that are no standard signal.
pub fn signal_of(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    struct Sleeper(std::process::Child);

    impl Sleeper {
        fn start() -> (Self, Identity) {
            let mut command = Command::new("sleep");
            let child = command.arg("600").stdin(Stdio::null()).spawn().unwrap();
            let pid = i32::try_from(child.id()).unwrap();
            (Self(child), Identity::of(pid).unwrap().unwrap())
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn h13_a_signal_reaches_exactly_the_process_that_was_meant() {
        let boot = boot_id().unwrap();
        let (mut sleeper, identity) = Sleeper::start();
        let recycled = Identity {
            start_ticks: identity.start_ticks - 1,
            ..identity
        };
        let term = Signal::TERM;
        let send = |boot: &str, identity| signal_identity(boot, identity, term).unwrap();
        assert_eq!(send(&boot, recycled), Signalled::Recycled);
        assert_eq!(send("earlier", identity), Signalled::OtherBoot);
        assert_eq!(
            send(
                &boot,
                Identity {
                    pid: 1,
                    start_ticks: 0
                }
            ),
            Signalled::Refused
        );
        assert_eq!(
            send(
                &boot,
                Identity {
                    pid: -1,
                    start_ticks: 0
                }
            ),
            Signalled::Refused
        );
        assert_eq!(
            send(
                &boot,
                Identity {
                    pid: 0,
                    start_ticks: 0
                }
            ),
            Signalled::Refused
        );
        assert!(identity.is_alive().unwrap());
        assert_eq!(send(&boot, identity), Signalled::Sent);
        sleeper.0.wait().unwrap();
        assert!(!identity.is_alive().unwrap());
        assert_eq!(send(&boot, identity), Signalled::Gone);
    }

    #[test]
    fn an_ended_child_that_nobody_waited_for_is_not_alive() {
        let (mut sleeper, identity) = Sleeper::start();
        let held = Held::open(identity).unwrap().unwrap();
        assert!(!held.has_ended().unwrap());
        sleeper.0.kill().unwrap();
        let mut fds = [PollFd::new(&held, PollFlags::IN)];
        poll(&mut fds, None).unwrap();
        assert!(held.has_ended().unwrap());
        assert!(!identity.is_alive().unwrap());
    }
}
