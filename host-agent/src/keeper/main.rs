//! The two stages of the keeper's process.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, ExitCode},
    sync::{Arc, atomic::AtomicBool},
};

use muster_proto::keeper::{SpawnFailure, SpawnFailureReason, SpawnResult, spawn_result};
use rustix::process::Signal;

use super::{ADOPT, Keeper, STAGE1, SUBCOMMAND, frame, program::refusal, start};

/// Signals that end nothing here: a shutdown of the machine tells everybody at once, and
/// the keeper has to see how its program ends. A handler also undoes what the starter may
/// have ignored, since the program gets the default back on its start.
const CAUGHT: &[Signal] = &[
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::CONT,
    Signal::WINCH,
    Signal::URG,
    Signal::IO,
    Signal::XFSZ,
    Signal::XCPU,
    Signal::PROF,
    Signal::VTALARM,
];

/// Runs the keeper when the command line (program name first) asks for it; both binaries
/// call this before anything else, so that a keeper carries no runtime, no command-line
/// parser and no telemetry.
pub fn dispatch(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != SUBCOMMAND {
        return None;
    }
    Some(keeper_main(args))
}

/// The keeper's main: the arguments behind `keeper`.
pub fn keeper_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let done = match args
        .iter()
        .map(|arg| arg.to_str())
        .collect::<Vec<_>>()
        .as_slice()
    {
        [Some(STAGE1), ..] => stage1(&args[1..]),
        [] => keep(None),
        [Some(ADOPT), _] => keep(Some(Path::new(&args[1]))),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "keepers are started by the agent",
        )),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "keeper: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Opens a session of its own and starts the keeper in it, then ends: the keeper belongs to
/// nobody, and nothing inherited reaches it or its program.
fn stage1(args: &[OsString]) -> io::Result<ExitCode> {
    rustix::process::setsid()?;
    close_fds::set_fds_cloexec(3, &[]);
    let mut command = Command::new("/proc/self/exe");
    command.arg(SUBCOMMAND).args(args).spawn()?;
    Ok(ExitCode::SUCCESS)
}

fn keep(adopt: Option<&Path>) -> io::Result<ExitCode> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in CAUGHT {
        signal_hook::flag::register(signal.as_raw(), Arc::clone(&ignored))?;
    }
    let (children, sender) = UnixStream::pair()?;
    children.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(Signal::CHILD.as_raw(), sender)?;
    let keeper = match adopt {
        Some(path) => start::adopt(path, children),
        None => match frame::read_one(&mut io::stdin().lock()) {
            Ok(spec) => start::start(&spec, children),
            Err(error) => Err(refusal(
                SpawnFailureReason::SpawnFailed,
                format!("read the run's specification: {error}"),
            )),
        },
    };
    answer(&keeper);
    let Ok(mut keeper) = keeper else {
        return Ok(ExitCode::FAILURE);
    };
    let_go()?;
    keeper.run();
    start::clear(&keeper.dir);
    Ok(ExitCode::SUCCESS)
}

/// The one answer to the starter. One that has gone meanwhile finds the run folder.
fn answer(keeper: &Result<Keeper, SpawnFailure>) {
    let result = match keeper {
        Ok(keeper) => spawn_result::Result::Started(keeper.status()),
        Err(failure) => spawn_result::Result::Failure(failure.clone()),
    };
    let result = SpawnResult {
        result: Some(result),
    };
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(&frame::encode(&result));
    let _ = stdout.flush();
}

/// Leaves the starter's pipes.
fn let_go() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
