//! `muster completions`: scripts for shells, and the live names that they ask for.

use clap::CommandFactory as _;
use clap_complete::Shell;
use muster_client::{ListSessions, PageRequest};

use crate::{
    args::{Cli, NameKind},
    context::Context,
    exit::Failure,
    out,
};

/// Names offered at most.
const NAMES: u32 = 200;

/// What is put after clap's script: names of sessions, tasks and hosts that exist now.
const BASH: &str = include_str!("completions/live.bash");
const ZSH: &str = include_str!("completions/live.zsh");
const FISH: &str = include_str!("completions/live.fish");

/// Prints the completions for a shell.
pub(crate) fn run(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "muster", &mut script);
    let live = match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    };
    script.extend_from_slice(live.as_bytes());
    out::bytes(&script)
}

/// The names of one kind, one a line; none where no coordinator answers.
pub(crate) async fn names(context: &Context, kind: NameKind) -> Result<(), Failure> {
    let client = context.client()?;
    if client.reach().await.is_err() {
        return Ok(());
    }
    let page = PageRequest {
        size: NAMES,
        token: String::new(),
    };
    let names: Vec<String> = match kind {
        NameKind::Sessions => {
            let page = client.list_sessions(ListSessions::default(), page).await?;
            page.items.into_iter().map(|session| session.id).collect()
        }
        NameKind::Tasks => {
            let page = client.list_tasks(None, page).await?;
            page.items.into_iter().map(|task| task.id).collect()
        }
        NameKind::Hosts => {
            let page = client.list_hosts(page).await?;
            let hosts = page.items.into_iter();
            hosts.map(|host| format!("{}:", host.name)).collect()
        }
    };
    for name in names {
        out::line(&name)?;
    }
    Ok(())
}
