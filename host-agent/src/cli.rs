//! The agent's command line, for `muster-agent` and for `muster agent`.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use muster_runtime::{
    Clock, Tasks,
    lock::LockError,
    process::{announce_error, announce_ready},
    socket,
};

use crate::{
    keeper_client::Launcher,
    serve::{Agent, AgentConfig},
};

/// How long a first agent that has the lock may take until it listens.
const FIRST_LISTENS_WITHIN: Duration = Duration::from_secs(20);
const SHUTDOWN: Duration = Duration::from_secs(3);

/// Moves bytes and states facts about the sessions of this machine.
#[derive(Debug, Parser)]
#[command(name = "muster-agent", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves this machine until it is told to end; sessions go on without it.
    Serve(Serve),
}

#[derive(Args, Clone, Debug)]
struct Serve {
    /// The agent's own folder [default: ~/.local/state/muster]
    #[arg(long, env = "MUSTER_AGENT_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    /// Where to listen [default: agent.sock in the home]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// What `~` means to clients [default: $HOME]
    #[arg(long, env = "MUSTER_AGENT_USER_HOME", value_name = "DIR")]
    user_home: Option<PathBuf>,
    /// Another folder that clients may read below; repeatable
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// A folder that clients neither read nor write; repeatable
    #[arg(long = "hide", value_name = "DIR")]
    hidden: Vec<PathBuf>,
    /// A folder that clients never write; repeatable
    #[arg(long = "protect", value_name = "DIR")]
    protected: Vec<PathBuf>,
    /// Root may connect as well
    #[arg(long)]
    allow_root: bool,
    /// Free space, in bytes, below which no session is started
    #[arg(long, env = "MUSTER_AGENT_DISK_FLOOR_BYTES", default_value_t = 1024 * 1024 * 1024, value_name = "BYTES")]
    disk_floor_bytes: u64,
    /// The same in percent of the disk
    #[arg(
        long,
        env = "MUSTER_AGENT_DISK_FLOOR_PERCENT",
        default_value_t = 2,
        value_name = "PERCENT"
    )]
    disk_floor_percent: u64,
}

/// What has to be looked at before anything else in the `main` of every binary that carries the
/// agent: the stages of detached starts, and the keeper, which must stay small. `args` begin
/// with the program's name. `None`: the arguments are for somebody else.
pub fn dispatch(args: &[OsString]) -> Option<ExitCode> {
    if let Some(code) = muster_runtime::process::stage1_main(args.iter().cloned()) {
        return Some(code);
    }
    crate::keeper::dispatch(args.iter().cloned())
}

/// Runs the agent with its own arguments; the first is the program's name. Blocks until it ends.
pub fn agent_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let serve = match cli.command {
        Some(Command::Serve(serve)) => serve,
        None => cli.serve,
    };
    let _telemetry = muster_runtime::telemetry::init(&muster_runtime::telemetry::Config {
        service: "muster-agent",
        default_filter: "info",
    });
    match run(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            tracing::error!("{text}");
            let _ = announce_error(&text);
            ExitCode::FAILURE
        }
    }
}

fn run(serve: Serve) -> anyhow::Result<()> {
    let config = config(serve)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("agent")
        .build()
        .context("start the runtime")?;
    let result = runtime.block_on(serve_until_told(config));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn serve_until_told(config: AgentConfig) -> anyhow::Result<()> {
    let tasks = Tasks::new("agent");
    let socket = config.socket.clone();
    let agent = match Agent::open(config, Clock::system(), &tasks).await {
        Ok(agent) => agent,
        Err(error) if is_locked(&error) => return join_first(&socket, error).await,
        Err(error) => return Err(error),
    };
    tracing::info!(socket = %socket.display(), "serving");
    announce_ready(&socket.display().to_string()).context("announce")?;
    let token = tasks.token();
    let told = tasks.token();
    tasks.spawn("signals", async move {
        tokio::select! {
            () = told.cancelled() => Ok(()),
            ended = muster_runtime::wait_terminate_signal() => {
                told.cancel();
                ended.map(drop)
            }
        }
    });
    let result = agent.serve().await;
    token.cancel();
    if let Err(unfinished) = tasks.shutdown(SHUTDOWN).await {
        tracing::warn!(%unfinished, "shutdown");
    }
    tracing::info!("ended; sessions go on");
    result
}

fn is_locked(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<LockError>(),
        Some(LockError::Locked { .. })
    )
}

/// Another agent serves this home: a second start is as good as the first one (H8).
async fn join_first(socket: &std::path::Path, error: anyhow::Error) -> anyhow::Result<()> {
    let clock = Clock::system();
    let until = clock.boottime() + FIRST_LISTENS_WITHIN;
    while clock.boottime() < until {
        if socket::connect(socket).await.is_ok() {
            tracing::info!("another agent serves this home");
            return announce_ready(&socket.display().to_string()).context("announce");
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
    Err(error)
}

fn config(serve: Serve) -> anyhow::Result<AgentConfig> {
    let user_home = serve
        .user_home
        .or_else(|| std::env::var_os("HOME").map(PathBuf::from))
        .context("neither `--user-home` nor $HOME says where the user's home is")?;
    let absolute =
        |path: PathBuf| std::path::absolute(&path).with_context(|| path.display().to_string());
    let all = |paths: Vec<PathBuf>| {
        paths
            .into_iter()
            .map(absolute)
            .collect::<Result<Vec<_>, _>>()
    };
    let home = serve
        .home
        .unwrap_or_else(|| user_home.join(".local/state/muster"));
    let home = absolute(home)?;
    Ok(AgentConfig {
        socket: absolute(serve.socket.unwrap_or_else(|| home.join("agent.sock")))?,
        home,
        user_home: absolute(user_home)?,
        roots: all(serve.roots)?,
        hidden: all(serve.hidden)?,
        protected: all(serve.protected)?,
        allow_root: serve.allow_root,
        disk_floor: (serve.disk_floor_bytes, serve.disk_floor_percent.min(100)),
        launcher: launcher(),
    })
}

/// How keepers are started. Their environment is empty, but for the fail point of a test.
fn launcher() -> Launcher {
    let launcher = Launcher::default();
    match std::env::var_os("MUSTER_FAILPOINT") {
        Some(place) if cfg!(feature = "failpoints") => launcher.env("MUSTER_FAILPOINT", place),
        _ => launcher,
    }
}
