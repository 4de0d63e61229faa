//! One file per verb.

mod completions;
mod down;
mod feed;
mod files;
mod queue;
mod run;
mod send;
mod session;
mod status;
mod tail;
mod task;
pub(crate) mod up;
mod version;
mod wait;

use std::process::ExitCode;

use crate::{args::Command, context::Context, exit::Failure};

/// Does what was typed.
pub(crate) async fn run(context: Context, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(run) => return Box::pin(run::run(&context, run)).await,
        // `main` looks for these in the first word, since they never come back here.
        Command::Up(_) | Command::Agent(_) => {
            Err(Failure::usage("`up` and `agent` have to be the first word"))
        }
        Command::Down { sessions, agent } => {
            down::run(&context, down::Asked { sessions, agent }).await
        }
        Command::Status => status::run(&context).await,
        Command::Version => version::run(&context).await,
        Command::Session(command) => session::run(&context, command).await,
        Command::Wait(wait) => wait::run(&context, wait).await,
        Command::Send(send) => send::run(&context, send).await,
        Command::Queue(queue) => queue::run(&context, queue).await,
        Command::Tail(tail) => Box::pin(tail::run(&context, tail)).await,
        Command::Cat { file, range } => files::cat(&context, &file, range.as_deref()).await,
        Command::Ls { folder } => files::ls(&context, &folder).await,
        Command::Stat { file } => files::stat(&context, &file).await,
        Command::Task(command) => task::run(&context, command).await,
        Command::Feed { after, session } => feed::run(&context, after, session).await,
        Command::Completions { shell } => completions::run(shell),
        Command::Names { kind } => completions::names(&context, kind).await,
    }?;
    Ok(ExitCode::SUCCESS)
}
