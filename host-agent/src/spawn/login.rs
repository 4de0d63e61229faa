//! Asks the user's login shell for its environment. The answer is framed by a nonce, because
//! start-up files print what they like.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read as _},
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use muster_runtime::Clock;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal},
};

const DEADLINE: Duration = Duration::from_secs(10);
const ANSWER_BYTES: usize = 1024 * 1024;

/// Blocks for at most 10 s.
pub(super) fn ask_shell(user_home: &Path) -> io::Result<Vec<(OsString, OsString)>> {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    ask(&shell, user_home)
}

fn ask(shell: &OsStr, user_home: &Path) -> io::Result<Vec<(OsString, OsString)>> {
    let nonce = format!("env-{}", uuid::Uuid::new_v4().simple());
    let mut command = Command::new(shell);
    command
        .arg("-lc")
        .arg(format!("echo {nonce}; env -0; echo {nonce}"))
        .current_dir(user_home)
        .env("HOME", user_home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"MUSTER_") {
            command.env_remove(name);
        }
    }
    let mut child = command.spawn()?;
    let answer = child
        .stdout
        .take()
        .ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))
        .and_then(|pipe| read_until_end(pipe, &nonce));
    end(&mut child);
    parse(&answer?, &nonce)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer has no frame"))
}

/// Reads up to the second nonce; what start-up files leave running may keep the pipe open.
fn read_until_end(mut pipe: ChildStdout, nonce: &str) -> io::Result<Vec<u8>> {
    let clock = Clock::system();
    let until = clock.boottime() + DEADLINE;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let rest = until.saturating_sub(clock.boottime());
        let rest = Timespec::try_from(rest).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&pipe, PollFlags::IN)];
        match poll(&mut ready, Some(&rest)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let count = pipe.read(&mut chunk)?;
        answer.extend_from_slice(&chunk[..count]);
        if count == 0 || parse(&answer, nonce).is_some() {
            return Ok(answer);
        }
        if answer.len() > ANSWER_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
}

/// Ends the shell and what it started in its group. It was not waited for, so its id is its own.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn parse(answer: &[u8], nonce: &str) -> Option<Vec<(OsString, OsString)>> {
    let nonce = nonce.as_bytes();
    let begin = memchr::memmem::find(answer, nonce)? + nonce.len() + 1;
    let framed = answer.get(begin..)?;
    let end = memchr::memmem::find(framed, nonce)?;
    let entries = framed[..end].split(|byte| *byte == 0);
    Some(
        entries
            .filter_map(|entry| {
                let equals = memchr::memchr(b'=', entry)?;
                let (name, value) = (&entry[..equals], &entry[equals + 1..]);
                Some((
                    OsStr::from_bytes(name).into(),
                    OsStr::from_bytes(value).into(),
                ))
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_around_the_frame_is_ignored() {
        let answer = b"Welcome!\nnonce\nA=1\0B=x=y\nz\0C=\0nonce\nBye\n";
        let expected = [("A", "1"), ("B", "x=y\nz"), ("C", "")]
            .map(|(name, value)| (name.into(), value.into()));
        assert_eq!(parse(answer, "nonce").unwrap(), expected);
        assert_eq!(parse(b"nonce\nA=1\0", "nonce"), None);
    }

    #[test]
    fn a_real_shell_answers_and_a_program_that_is_none_does_not() {
        let home = tempfile::tempdir().unwrap();
        let env = ask("/bin/sh".as_ref(), home.path()).unwrap();
        let path = env.iter().find(|(name, _)| name == "HOME").unwrap();
        assert_eq!(path.1, home.path());
        // As of accounts that may not log in.
        assert!(ask("false".as_ref(), home.path()).is_err());
    }
}
