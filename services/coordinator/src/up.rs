//! The coordinator's command line, for `musterd` and for `muster up`.

use std::{
    ffi::OsString,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use clap::Parser;
use muster_runtime::{
    Clock, Tasks,
    files::private_dir,
    process::{self, Detached, Started},
    wait_terminate_signal,
};
use muster_transport::LinkConfig;
use tokio_util::sync::CancellationToken;

use crate::serve::{self, Config, StartError};

/// How long a detached coordinator may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Exit code when somebody else has what this coordinator needs.
const OCCUPIED: u8 = 4;
/// Exit code of every other failure.
const FAILED: u8 = 1;
/// How long the rest may take to end after the coordinator has.
const SHUTDOWN: Duration = Duration::from_secs(5);
/// What an agent's settings for tests and logs are called; passed on to the agent.
const PASSED_ON: [&str; 3] = [
    "MUSTER_AGENT_DISK_FLOOR_BYTES",
    "MUSTER_AGENT_DISK_FLOOR_PERCENT",
    "MUSTER_LOG",
];

/// Which binary this is: how it starts itself again, and where the agent is.
#[derive(Debug, Clone)]
pub struct Binary {
    /// Words that make this binary a coordinator.
    pub coordinator: &'static [&'static str],
    /// The executable that carries the agent; `None` = this one.
    pub agent_program: Option<PathBuf>,
    /// Words that make it an agent.
    pub agent: &'static [&'static str],
}

impl Binary {
    /// `muster`, which carries everything.
    pub fn muster() -> Self {
        Self {
            coordinator: &["up"],
            agent_program: None,
            agent: &["agent", "serve"],
        }
    }

    /// `musterd`, with `muster-agent` beside it.
    pub fn musterd() -> Self {
        let beside = std::env::current_exe()
            .ok()
            .map(|own| own.with_file_name("muster-agent"));
        Self {
            coordinator: &[],
            agent_program: beside,
            agent: &["serve"],
        }
    }
}

/// Start the coordinator and this machine's host agent; Ctrl-C ends the coordinator, sessions go on
#[derive(Debug, Clone, Parser)]
#[command(name = "up", version, max_term_width = 100)]
pub struct Up {
    /// The data folder [default: $XDG_DATA_HOME/muster or ~/.local/share/muster]
    #[arg(long, env = "MUSTER_HOME", value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The host agent's folder [default: ~/.local/state/muster]
    #[arg(long, env = "MUSTER_AGENT_HOME", value_name = "DIR")]
    pub agent_home: Option<PathBuf>,
    /// What `~` means on this machine [default: $HOME]
    #[arg(long, env = "MUSTER_AGENT_USER_HOME", value_name = "DIR")]
    pub agent_user_home: Option<PathBuf>,
    /// Another folder that clients may read below; repeatable
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<PathBuf>,
    /// Go to the background when it is ready
    #[arg(long)]
    pub detach: bool,
}

/// Runs `muster up` with its own arguments; the first is the program's name. Blocks until the
/// coordinator ends, or, detached, until it is ready.
///
/// A coordinator that is started inside a session is always detached: it must not be a part
/// of what that session's end takes with it.
pub fn up_main(binary: &Binary, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let up = match Up::try_parse_from(args) {
        Ok(up) => up,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(&up, binary, say) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refused) => {
            complain(&refused.text, refused.hint.as_deref());
            ExitCode::from(refused.code)
        }
    }
}

/// Why a coordinator did not start, or how it failed.
#[derive(Debug)]
pub struct Refused {
    /// For the exit of the process.
    pub code: u8,
    /// What and why.
    pub text: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Runs the coordinator as told; `say` is given its address once it is ready. Blocks until it
/// ends, or, detached, until it is ready.
///
/// # Errors
/// [`Refused`].
pub fn run(up: &Up, binary: &Binary, say: fn(&str)) -> Result<(), Refused> {
    let inside_a_session = std::env::var_os("MUSTER_SESSION_ID").is_some();
    let result = if up.detach || inside_a_session {
        detached(up, binary).map(|started| say(&started.text))
    } else {
        foreground(up, binary, say)
    };
    result.map_err(|error| {
        let start = error.downcast_ref::<StartError>();
        let occupied = matches!(
            start,
            Some(StartError::Locked { .. } | StartError::Socket { .. })
        );
        Refused {
            code: if occupied { OCCUPIED } else { FAILED },
            text: format!("{error:#}"),
            hint: start.and_then(StartError::hint),
        }
    })
}

/// Starts a coordinator that belongs to nobody and waits until it is ready. Its words are the
/// address. Blocks.
///
/// # Errors
/// It did not become ready; the text says why.
pub fn detached(up: &Up, binary: &Binary) -> anyhow::Result<Started> {
    let config = config(up, binary)?;
    private_dir(&config.data_dir).map_err(StartError::from)?;
    let mut start = Detached::new("musterd", config.data_dir.join("coordinator.log"));
    for word in binary.coordinator {
        start = start.arg(word);
    }
    start = start.arg("--home").arg(&config.data_dir);
    start = start.arg("--agent-home").arg(&config.agent_home);
    if let Some(home) = &up.agent_user_home {
        start = start.arg("--agent-user-home").arg(absolute(home)?);
    }
    for root in &up.roots {
        start = start.arg("--root").arg(absolute(root)?);
    }
    for (name, value) in passed_on() {
        start = start.env(name, value);
    }
    start.start_blocking(READY_WITHIN).map_err(Into::into)
}

fn foreground(up: &Up, binary: &Binary, say: fn(&str)) -> anyhow::Result<()> {
    let config = config(up, binary)?;
    let _telemetry = muster_runtime::telemetry::init(&muster_runtime::telemetry::Config {
        service: "musterd",
        default_filter: "info",
    });
    if let Err(error) = muster_runtime::limits::raise_open_files() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("coordinator")
        .build()
        .context("start the runtime")?;
    let result = runtime.block_on(run_until_told(config, say));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn run_until_told(config: Config, say: fn(&str)) -> anyhow::Result<()> {
    let tasks = Tasks::new("coordinator");
    let end = CancellationToken::new();
    let (told, over) = (end.clone(), tasks.token());
    tasks.spawn("signals", async move {
        tokio::select! {
            () = over.cancelled() => Ok(()),
            signal = wait_terminate_signal() => {
                if let Ok(name) = &signal {
                    tracing::info!(signal = name, "ending; sessions go on");
                }
                told.cancel();
                signal.map(drop)
            }
        }
    });
    let ran = serve::run(config, Clock::system(), &tasks, end, |address| {
        tracing::info!(address, "ready");
        if let Err(error) = process::announce_ready(address) {
            tracing::warn!(%error, "the start was not announced");
        }
        // Where nobody waits for the announcement a person reads standard output.
        if std::env::var_os("MUSTER_ANNOUNCE").is_none() {
            say(address);
        }
    });
    let ran = Box::pin(ran).await;
    if let Err(unfinished) = tasks.shutdown(SHUTDOWN).await {
        tracing::warn!(%unfinished, "shutdown");
    }
    if let Err(error) = &ran {
        let hint = error.hint().map(|hint| format!(" ({hint})"));
        let text = format!("{error}{}", hint.unwrap_or_default());
        tracing::debug!("{text}");
        let _ = process::announce_error(&text);
    }
    ran?;
    tracing::info!("ended");
    Ok(())
}

fn config(up: &Up, binary: &Binary) -> anyhow::Result<Config> {
    let user_home = std::env::var_os("HOME").map(PathBuf::from);
    let below_home = |path: &str| -> anyhow::Result<PathBuf> {
        let home = user_home.as_ref();
        let home = home
            .context("$HOME is not set; name the folders with MUSTER_HOME and MUSTER_AGENT_HOME")?;
        Ok(home.join(path))
    };
    let data_dir = match (&up.home, std::env::var_os("XDG_DATA_HOME")) {
        (Some(home), _) => home.clone(),
        (None, Some(xdg)) if Path::new(&xdg).is_absolute() => PathBuf::from(xdg).join("muster"),
        (None, _) => below_home(".local/share/muster")?,
    };
    let data_dir = absolute(&data_dir)?;
    let agent_home = match &up.agent_home {
        Some(home) => absolute(home)?,
        None => below_home(".local/state/muster")?,
    };
    let mut agent_args: Vec<OsString> = binary.agent.iter().map(OsString::from).collect();
    agent_args.extend(["--home".into(), agent_home.clone().into_os_string()]);
    agent_args.extend(["--hide".into(), data_dir.clone().into_os_string()]);
    if let Some(home) = &up.agent_user_home {
        agent_args.extend(["--user-home".into(), absolute(home)?.into_os_string()]);
    }
    for root in &up.roots {
        agent_args.extend(["--root".into(), absolute(root)?.into_os_string()]);
    }
    Ok(Config {
        data_dir,
        agent_home,
        agent_program: binary.agent_program.clone(),
        agent_args,
        agent_env: passed_on(),
        link: LinkConfig::default(),
    })
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}

fn passed_on() -> Vec<(OsString, OsString)> {
    let set = PASSED_ON
        .into_iter()
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    set.collect()
}

fn say(address: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever started us may have closed our standard output; that ends nothing.
    let _ = writeln!(
        out,
        "muster is up at {address}\nnext: muster run -- bash -c 'echo hello'"
    );
    let _ = out.flush();
}

fn complain(text: &str, hint: Option<&str>) {
    let mut out = std::io::stderr().lock();
    let _ = writeln!(out, "error: {text}");
    if let Some(hint) = hint {
        let _ = writeln!(out, "hint: {hint}");
    }
}
