//! The loop.

use std::{
    io::{self, Read as _},
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{Keeper, clock::monotonic, conn::Conn, ending::Program};
use crate::proc::own_uid;

/// Connections at once; more are hung up on.
const CONNS_MAX: usize = 16;
/// After a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// How long the last answers may take once everything is done.
const FAREWELL: Duration = Duration::from_secs(1);
/// Nothing else being due, the loop turns so often.
const IDLE: Duration = Duration::from_secs(60);
/// Pause between two tries to write what the disk had no room for.
const BEHIND: Duration = Duration::from_secs(1);

/// What became ready.
#[derive(Debug, Default)]
struct Ready {
    listener: bool,
    children: bool,
    program: bool,
    conns: Vec<u64>,
}

impl Keeper {
    /// Runs until the end of the run is recorded.
    pub(super) fn run(&mut self) {
        let mut done_at = None;
        loop {
            let now = monotonic();
            self.step(now);
            if self.is_done() {
                let since = *done_at.get_or_insert_with(|| {
                    // Requests that came just before the end are answered.
                    let ready = self.wait(Duration::ZERO);
                    self.take(&ready);
                    now
                });
                let unsent = self.conns.iter().any(Conn::wants_to_send);
                if !unsent || now >= since + FAREWELL {
                    return;
                }
            }
            let timeout = self.timeout(now, done_at);
            let ready = self.wait(timeout);
            self.take(&ready);
        }
    }

    fn timeout(&self, now: Duration, done_at: Option<Duration>) -> Duration {
        let behind = self.journal.is_behind().then_some(now + BEHIND);
        let due = [
            self.delivery_deadline(),
            self.ladder_deadline(),
            self.ending_deadline(),
            done_at.map(|since| since + FAREWELL),
            behind,
        ];
        let next = due.into_iter().flatten().min();
        next.map_or(IDLE, |at| at.saturating_sub(now).min(IDLE))
    }

    fn wait(&self, timeout: Duration) -> Ready {
        let mut fds = vec![
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
        if let Program::Child(_, held) | Program::Adopted(held) = &self.program {
            fds.push(PollFd::from_borrowed_fd(held.as_fd(), PollFlags::IN));
        } else {
            // Keeps the places of those behind it.
            fds.push(PollFd::new(&self.children, PollFlags::empty()));
        }
        let pipe = self.stdin.writer().filter(|_| self.wants_to_write());
        let first_conn = fds.len();
        for conn in &self.conns {
            let mut interest = PollFlags::IN;
            interest.set(PollFlags::OUT, conn.wants_to_send());
            fds.push(PollFd::from_borrowed_fd(conn.as_fd(), interest));
        }
        if let Some(pipe) = pipe {
            fds.push(PollFd::new(pipe, PollFlags::OUT));
        }
        // One nanosecond more: the deadline is then behind us, and not just before us.
        let timeout = timeout + Duration::from_nanos(1);
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            // Nothing is ready then; the signal's pipe is read in the next turn.
            Err(Errno::INTR) => return Ready::default(),
            Err(_) => return Ready::default(),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ids = self.conns.iter().map(|conn| conn.id);
        let conns = ids.zip(&fds[first_conn..]);
        Ready {
            listener: is_ready(&fds[0]),
            children: is_ready(&fds[1]),
            program: is_ready(&fds[2]),
            conns: conns
                .filter(|(_, fd)| is_ready(fd))
                .map(|(id, _)| id)
                .collect(),
        }
    }

    fn take(&mut self, ready: &Ready) {
        let now = monotonic();
        if ready.children {
            let mut drained = [0; 64];
            while matches!(self.children.read(&mut drained), Ok(read) if read > 0) {}
        }
        if ready.children || ready.program {
            self.reap(now);
        }
        for id in &ready.conns {
            let Some(conn) = self.conns.iter_mut().find(|conn| conn.id == *id) else {
                continue;
            };
            conn.flush();
            for request in conn.receive() {
                self.handle(*id, request, now);
            }
        }
        if ready.listener {
            self.accept();
        }
    }

    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors, most likely: not to be asked again at once.
                Err(_) => {
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            };
            if self.conns.len() >= CONNS_MAX || !is_own(&stream) {
                continue;
            }
            self.next_conn += 1;
            if let Ok(conn) = Conn::new(self.next_conn, stream) {
                self.conns.push(conn);
            }
        }
    }
}

/// The folder's mode keeps others out already; this holds if somebody widened it.
fn is_own(stream: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| [own_uid(), 0].contains(&peer.uid.as_raw()))
}
