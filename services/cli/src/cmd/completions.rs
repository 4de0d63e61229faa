//! `muster completions`: scripts for shells, and the live names that they ask for.

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use clap_complete::Shell;
use muster_client::{ListSessions, PageRequest};
use muster_coordinator::up::Up;

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
    out::bytes(&script(shell))
}

/// Everything that a person types: with what `up` takes, without what only programs call.
fn typed() -> Command {
    let all = Cli::command();
    let shown = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let shown: Vec<Command> = shown
        .map(|command| match command.get_name() {
            "up" => Up::command().arg(Arg::new("json").long("json").action(ArgAction::SetTrue)),
            _ => command.clone(),
        })
        .collect();
    Command::new("muster")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(shown)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut typed(), "muster", &mut script);
    let live = match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    };
    script.extend_from_slice(live.as_bytes());
    script
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of all commands and long flags below `command`.
    fn words(command: &Command, found: &mut Vec<String>) {
        for flag in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            found.extend(flag.get_long().map(str::to_owned));
        }
        for inner in command.get_subcommands() {
            found.push(inner.get_name().to_owned());
            words(inner, found);
        }
    }

    #[test]
    fn every_command_and_flag_is_offered_and_nothing_internal() {
        let mut all = Vec::new();
        words(&typed(), &mut all);
        for needed in [
            "up",
            "detach",
            "root",
            "survivors",
            "if-turn",
            "json",
            "phase",
        ] {
            assert!(all.iter().any(|word| word == needed), "{needed}");
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            for word in &all {
                assert!(script.contains(word.as_str()), "{shell}: {word}");
            }
            assert!(!script.contains("Carries the host agent"), "{shell}");
            assert!(script.contains("muster names"), "{shell}");
        }
    }
}
