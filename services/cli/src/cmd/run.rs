//! `muster run`: the main job in one command.

mod ended;
mod interrupt;

use std::{collections::BTreeMap, io::Read as _, path::PathBuf, process::ExitCode, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use muster_client::{
    Access, Client, Env, Fault, Slot, StartSession, TailFile, TailFrom, TailRequest, Unsettled,
    WaitFor,
    api::{ProcessState, Session, SessionStatus},
    json, new_key,
};
use muster_runtime::Clock;
use serde_json::json;

use self::interrupt::{Interrupts, Pressed};
use crate::{
    agent, args,
    context::Context,
    exit::{self, Failure},
    follow::{self, Sink},
    out, start,
};

/// How long a start is tried.
const PATIENCE: Duration = Duration::from_secs(30);
/// A start that takes longer than this is told about.
const SILENCE: Duration = Duration::from_secs(3);

/// Starts a session, follows it to its end, and ends with the program's own code.
pub(crate) async fn run(context: &Context, run: args::Run) -> Result<ExitCode, Failure> {
    let detach = run.detach;
    let request = request(run).map_err(Failure::in_run)?;
    let client = start::ensure(context).await.map_err(Failure::in_run)?;
    let host = request.host.clone();
    if let Some(missing) = agent::missing(&client, host.as_deref()).await {
        return Err(missing.failure());
    }
    let start = Box::pin(client.start_session(request, PATIENCE));
    let (session, _) = match told_when_slow(start, &client, host.as_deref()).await {
        Ok(started) => started,
        Err(unsettled) => return Err(not_started(unsettled, &client, host.as_deref()).await),
    };
    if !detach {
        out::aloud(&format!("session {}", session.id));
    }
    if never_ran(&session) {
        return Err(ended::start_failure(&session));
    }
    if detach {
        if context.json {
            out::json(&json(&session))?
        } else {
            out::line(&session.id)?
        }
        return Ok(ExitCode::SUCCESS);
    }
    Box::pin(attached(context, &client, &session.id)).await
}

/// Waits, and says so when it takes long, with what is known of the reason.
async fn told_when_slow<T>(
    mut work: impl Future<Output = T> + Unpin,
    client: &Client,
    host: Option<&str>,
) -> T {
    let clock = Clock::system();
    tokio::select! {
        done = &mut work => return done,
        () = clock.sleep(SILENCE) => {}
    }
    let tell = async {
        let why = agent::unreached(client, host).await;
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let patience = PATIENCE.as_secs();
        out::note(&format!(
            "not started yet{why}; trying for {patience} s in all"
        ));
        std::future::pending::<T>().await
    };
    tokio::select! {
        done = work => done,
        never = tell => never,
    }
}

/// Nobody knows whether it was started, or it was refused.
async fn not_started(unsettled: Unsettled, client: &Client, host: Option<&str>) -> Failure {
    if !matches!(unsettled, Unsettled::Unknown { .. }) {
        return Failure::from(unsettled).in_run();
    }
    let reason = Fault::from(unsettled).reason();
    let why = match agent::unreached(client, host).await {
        Some(why) => why,
        None => "the coordinator did not say so".to_owned(),
    };
    let patience = PATIENCE.as_secs();
    Failure::with_code(
        exit::RUN_FAILED,
        format!("not started within {patience} s: {why}"),
    )
    .reason(reason.as_str())
    .hint("it may start later: `muster session ls` shows it, `muster session stop` gives it up")
}

/// The start itself failed: there is nothing to follow.
fn never_ran(session: &Session) -> bool {
    session.status() == SessionStatus::Failed
        && !session.failure_reason.is_empty()
        && session.process() != ProcessState::Alive
}

fn request(run: args::Run) -> Result<StartSession, Failure> {
    if run.argv.is_empty() {
        return Err(Failure::with_code(exit::USAGE, "no program was given")
            .hint("muster run -- PROGRAM [ARGUMENTS]"));
    }
    let cwd = match (&run.cwd, &run.host) {
        (Some(cwd), _) => Some(absolute(cwd)?),
        (None, None) => Some(absolute(&PathBuf::from("."))?),
        (None, Some(_)) => None,
    };
    Ok(StartSession {
        client_key: new_key(),
        task: run.task,
        slot: run.slot.map(|slot| match slot {
            args::Slot::Plan => Slot::Plan,
            args::Slot::Exec => Slot::Exec,
        }),
        host: run.host,
        cwd,
        adapter: run.adapter,
        argv: run.argv,
        env: Env(run
            .env
            .iter()
            .map(|text| variable(text))
            .collect::<Result<BTreeMap<_, _>, _>>()?),
        title: run.title,
        prompt: run.prompt.map(prompt).transpose()?,
        access: run.access.map(|access| match access {
            args::Access::Full => Access::Full,
            args::Access::Workspace => Access::Workspace,
            args::Access::Readonly => Access::Readonly,
        }),
        source: None,
        no_wait: false,
    })
}

/// A path of another machine may begin with `~`; everything else is seen from here.
fn absolute(path: &std::path::Path) -> Result<String, Failure> {
    let text = path
        .to_str()
        .ok_or_else(|| Failure::usage("the working directory is not UTF-8"))?;
    if text == "~" || text.starts_with("~/") {
        return Ok(text.to_owned());
    }
    let here = if path == std::path::Path::new(".") {
        std::env::current_dir()
    } else {
        std::path::absolute(path)
    };
    let here = here.map_err(|error| Failure::failed(format!("the current directory: {error}")))?;
    here.into_os_string()
        .into_string()
        .map_err(|_| Failure::usage("the working directory is not UTF-8"))
}

fn variable(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => {
            let value = std::env::var(text)
                .map_err(|_| Failure::usage(format!("`{text}` is not set here")))?;
            (text, value)
        }
    };
    if name.is_empty() {
        return Err(Failure::usage(format!("`{text}` names no variable")));
    }
    Ok((name.to_owned(), value))
}

fn prompt(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = String::new();
    let bound = muster_client::limits::MESSAGE_TEXT_BYTES as u64 + 2;
    std::io::stdin()
        .take(bound)
        .read_to_string(&mut read)
        .map_err(|error| Failure::usage(format!("read the prompt from standard input: {error}")))?;
    Ok(read.trim_end_matches('\n').to_owned())
}

/// Follows both outputs to the real end, unless it is interrupted.
async fn attached(context: &Context, client: &Client, id: &str) -> Result<ExitCode, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let work = Box::pin(follow_to_the_end(context, client, id));
    tokio::pin!(work);
    let mut stops = FuturesUnordered::new();
    let session = loop {
        tokio::select! {
            session = &mut work => break session.map_err(Failure::in_run)?,
            Some(stopped) = stops.next(), if !stops.is_empty() => {
                let stopped: Result<_, Fault> = stopped;
                stopped.map_err(|fault| Failure::from(fault).in_run())?;
            }
            pressed = interrupts.next() => match pressed {
                Pressed::Detach => {
                    return Err(Failure::with_code(exit::INTERRUPTED, format!("detached; session {id} goes on"))
                        .hint(format!("`muster tail {id} --follow` shows it, `muster session stop {id}` stops it")));
                }
                Pressed::Stop => {
                    out::aloud("stopping the session");
                    // Beside the output: it goes on while the ladder is climbed.
                    stops.push(client.stop_session(id, false));
                }
            },
        }
    };
    if context.json {
        out::json_line(&json!({ "session": json(&session) }))?;
    }
    ended::code(&session)
}

async fn follow_to_the_end(
    context: &Context,
    client: &Client,
    id: &str,
) -> Result<Session, Failure> {
    let tail = |file| {
        client.tail(TailRequest {
            session: id.to_owned(),
            run: Some(1),
            file,
            from: TailFrom::Beginning,
            follow: true,
            late_bytes: false,
            patience: follow::PATIENCE,
        })
    };
    let sink = if context.json {
        Sink::Json
    } else {
        Sink::Stdout
    };
    let stdout = follow::print(tail(TailFile::Stdout), sink);
    let stderr = follow::print(tail(TailFile::Stderr), Sink::Stderr);
    tokio::try_join!(Box::pin(stdout), Box::pin(stderr))?;
    Ok(client.wait_session(id, WaitFor::Exit, None).await?)
}
