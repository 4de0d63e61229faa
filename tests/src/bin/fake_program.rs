//! A program that does what its arguments, and then its input lines, say: the misbehaviour that a supervisor must bear.
//!
//! Arguments are commands, run in order; `serve` reads lines. A line that starts with `!` is a command, every other
//! line is a message: it is answered with `got N TEXT`, and its exact bytes are appended to the file of `log`, synced.
//!
//! | command | does |
//! |---|---|
//! | `log FILE` | where messages are noted |
//! | `print TEXT`, `stderr TEXT` | one line |
//! | `torn TEXT` | text without a newline |
//! | `flood BYTES` | the pattern that the kit can check |
//! | `ticks MSxCOUNT` | COUNT lines `t NANOSECONDS`, one every MS, each with the time since boot at its writing |
//! | `giant BYTES` | one line of that many bytes and a newline |
//! | `latin` | a line that is no UTF-8 |
//! | `env` | its environment, sorted |
//! | `cwd` | its working directory |
//! | `session` | makes itself the leader of a new session |
//! | `ignore NAME` | from now on deaf to INT or TERM |
//! | `fork` | a child in a session of its own that stays; prints its pid |
//! | `orphan FILE` | the same, and the child goes on writing, to the file's end and to its output, once a second |
//! | `close-stdin` | closes its input |
//! | `await FILE` | waits until the file exists |
//! | `touch FILE` | makes a file |
//! | `rmdir DIR` | removes a folder |
//! | `silence` | sleeps for ever |
//! | `drain` | reads to the end of input, silently |
//! | `serve` | reads messages and commands to the end of input |
//! | `slow MS` | from now on waits that long before each message is read |
//! | `exit CODE` | ends |
//! | `die NAME` | ends itself by KILL, TERM, INT or SEGV |

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process, setsid};

type Done = io::Result<Option<u8>>;

fn main() -> ExitCode {
    let mut state = State::default();
    let mut args: VecDeque<String> = std::env::args().skip(1).collect();
    while let Some(name) = args.pop_front() {
        let value = if takes_value(&name) {
            args.pop_front().unwrap_or_default()
        } else {
            String::new()
        };
        match state.obey(&name, &value) {
            Ok(None) => {}
            Ok(Some(code)) => return ExitCode::from(code),
            Err(error) => {
                // Standard error may be what failed.
                let _ = writeln!(io::stderr(), "fake-program: {name} {value}: {error}");
                return ExitCode::from(99);
            }
        }
    }
    ExitCode::SUCCESS
}

fn takes_value(name: &str) -> bool {
    !matches!(
        name,
        "latin"
            | "env"
            | "cwd"
            | "fork"
            | "session"
            | "close-stdin"
            | "silence"
            | "drain"
            | "serve"
    )
}

#[derive(Default)]
struct State {
    log: Option<File>,
    messages: u64,
    pause: Duration,
}

impl State {
    fn obey(&mut self, name: &str, value: &str) -> Done {
        match name {
            "log" => self.log = Some(OpenOptions::new().append(true).create(true).open(value)?),
            "print" => say(format!("{value}\n").as_bytes())?,
            "stderr" => writeln!(io::stderr(), "{value}")?,
            "torn" => say(value.as_bytes())?,
            "flood" => muster_e2e::pattern::write(&mut io::stdout().lock(), number(value)?)?,
            "ticks" => ticks(value)?,
            "giant" => giant(number(value)?)?,
            "latin" => say(b"caf\xe9 \xff\xfe \xed\xa0\x80\n")?,
            "env" => print_environment()?,
            "cwd" => say(format!("{}\n", std::env::current_dir()?.display()).as_bytes())?,
            "ignore" => ignore(value)?,
            "fork" => fork(&["silence"])?,
            "orphan" => fork(&["write-on", value])?,
            "session" => drop(setsid()?),
            "write-on" => write_on(Path::new(value))?,
            "close-stdin" => close_stdin()?,
            "await" => await_file(Path::new(value)),
            "touch" => drop(File::create(value)?),
            "rmdir" => std::fs::remove_dir(value)?,
            "silence" => silence(),
            "drain" => drop(io::copy(&mut io::stdin().lock(), &mut io::sink())?),
            "serve" => return self.serve(),
            "slow" => self.pause = Duration::from_millis(number(value)?),
            "exit" => {
                return Ok(Some(
                    u8::try_from(number(value)?).map_err(io::Error::other)?,
                ));
            }
            "die" => die(value)?,
            _ => return Err(io::Error::other("no such command")),
        }
        Ok(None)
    }

    fn serve(&mut self) -> Done {
        // Unlocked between lines: `close-stdin` and a second `serve` need it.
        let mut input = BufReader::new(io::stdin());
        let mut line = Vec::new();
        loop {
            std::thread::sleep(self.pause);
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            if let Some(command) = line.strip_prefix(b"!") {
                let text = String::from_utf8_lossy(command);
                let text = text.trim_end_matches('\n');
                let (name, value) = text.split_once(' ').unwrap_or((text, ""));
                if let Some(code) = self.obey(name, value)? {
                    return Ok(Some(code));
                }
            } else {
                self.message(&line)?;
            }
        }
    }

    fn message(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(log) = &mut self.log {
            log.write_all(line)?;
            log.sync_data()?;
        }
        self.messages += 1;
        let shown = &line[..line.len().min(100)];
        let mut answer = format!("got {} ", self.messages).into_bytes();
        answer.extend_from_slice(shown.strip_suffix(b"\n").unwrap_or(shown));
        answer.push(b'\n');
        say(&answer)
    }
}

fn number(value: &str) -> io::Result<u64> {
    value
        .parse()
        .map_err(|_| io::Error::other("a whole number was expected"))
}

fn say(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn ticks(value: &str) -> io::Result<()> {
    let (pause, count) = value
        .split_once('x')
        .ok_or_else(|| io::Error::other("MSxCOUNT was expected"))?;
    let pause = Duration::from_millis(number(pause)?);
    for _ in 0..number(count)? {
        std::thread::sleep(pause);
        say(format!("t {}\n", muster_e2e::wait::boottime_ns()).as_bytes())?;
    }
    Ok(())
}

fn giant(bytes: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    io::copy(&mut io::repeat(b'x').take(bytes), &mut out)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn print_environment() -> io::Result<()> {
    let mut all: Vec<String> = std::env::vars_os()
        .map(|(name, value)| format!("{}={}\n", name.display(), value.display()))
        .collect();
    all.sort();
    say(all.concat().as_bytes())
}

fn ignore(name: &str) -> io::Result<()> {
    let number = match name {
        "INT" => signal_hook::consts::SIGINT,
        "TERM" => signal_hook::consts::SIGTERM,
        _ => return Err(io::Error::other("INT or TERM was expected")),
    };
    signal_hook::flag::register(number, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// A child that leaves this program's session, as tools of agent programs do.
fn fork(commands: &[&str]) -> io::Result<()> {
    let mut child = Command::new(std::env::current_exe()?);
    child.arg("session").args(commands).stdin(Stdio::null());
    say(format!("forked {}\n", child.spawn()?.id()).as_bytes())
}

fn write_on(path: &Path) -> io::Result<()> {
    loop {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)?
            .write_all(b"on\n")?;
        say(b"late\n")?;
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn close_stdin() -> io::Result<()> {
    // Standard input cannot be closed safely by its number; a process without one is what `/dev/null` makes.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(())
}

fn await_file(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn silence() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3_600));
    }
}

fn die(name: &str) -> io::Result<()> {
    let signal = match name {
        "KILL" => Signal::KILL,
        "TERM" => Signal::TERM,
        "INT" => Signal::INT,
        "SEGV" => Signal::SEGV,
        _ => return Err(io::Error::other("KILL, TERM, INT or SEGV was expected")),
    };
    kill_process(getpid(), signal)?;
    silence()
}
