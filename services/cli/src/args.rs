//! What can be typed.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::duration::parse as duration;

mod examples;

/// Runs and supervises coding-agent sessions on every machine you own.
#[derive(Debug, Parser)]
#[command(name = "muster", version, max_term_width = 100, after_help = examples::MUSTER)]
pub(crate) struct Cli {
    /// Address of the coordinator [default: the socket in the data folder]
    #[arg(long, env = "MUSTER_ADDR", global = true, value_name = "ADDR")]
    pub(crate) addr: Option<String>,
    /// Print JSON; a failure is JSON too, on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the coordinator and this machine's host agent
    #[command(disable_help_flag = true)]
    Up(Rest),
    /// Carries the host agent
    #[command(hide = true, disable_help_flag = true)]
    Agent(Rest),
    /// End the coordinator; sessions go on unless --sessions stops them
    Down {
        /// Stop all sessions first
        #[arg(long)]
        sessions: bool,
        /// End this machine's host agent too
        #[arg(long)]
        agent: bool,
    },
    /// Show the coordinator, and which machines it reaches
    Status,
    /// Print the versions of this command and of the coordinator
    Version,
    /// Run a program in a session, show its output, and end with its exit code
    #[command(after_help = examples::RUN)]
    Run(Run),
    /// Look at sessions and control them
    #[command(subcommand)]
    Session(Session),
    /// Wait until a session has ended or needs somebody, and print its status
    #[command(after_help = examples::WAIT)]
    Wait(Wait),
    /// Send a line of text to the program of a session
    #[command(after_help = examples::SEND)]
    Send(Send),
    /// Show the messages that wait to be written to a session, or take one back
    Queue(Queue),
    /// Print the output of a session
    #[command(after_help = examples::TAIL)]
    Tail(Tail),
    /// Print a file of any of your machines
    Cat {
        /// HOST:PATH, as in local:~/notes.txt
        file: String,
        /// Bytes FROM-TO, both counted from 0 and included; either may be left out
        #[arg(long, value_name = "A-B")]
        range: Option<String>,
    },
    /// List a folder of any of your machines
    Ls {
        /// HOST:PATH, as in local:~/notes.txt
        folder: String,
    },
    /// Show size, kind and times of a file of any of your machines
    Stat {
        /// HOST:PATH, as in local:~/notes.txt
        file: String,
    },
    /// Add tasks, list them, and set where they stand
    #[command(subcommand)]
    Task(Task),
    /// Watch what happens, one event a line, until Ctrl-C
    Feed {
        /// Go on after this revision, as an earlier line showed it, rather than show all that is there first
        #[arg(long, value_name = "REVISION")]
        after: Option<u64>,
        /// Watch this one session in detail rather than everything in short
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
    },
    /// Print the completion script of a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Names that exist now, for completion scripts
    #[command(hide = true)]
    Names {
        /// Of which things
        kind: NameKind,
    },
}

/// Things that have names to complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NameKind {
    Sessions,
    Tasks,
    Hosts,
}

/// Arguments that somebody else reads.
#[derive(Debug, Args)]
pub(crate) struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _args: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Print the session's id and return
    #[arg(long)]
    pub(crate) detach: bool,
    /// Task that it works on [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// Its part in the task: to plan it or to carry it out
    #[arg(long)]
    pub(crate) slot: Option<Slot>,
    /// Machine that it runs on [default: this one]
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Working directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Kind of program; generic is any that speaks in lines [default: generic]
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,
    /// What it may change: everything, its working directory, or nothing
    #[arg(long)]
    pub(crate) access: Option<Access>,
    /// Variable for the program, with its value or as it is here; repeatable
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Title in lists [default: the prompt's first line, or the program]
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// First message to it; `-` reads standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// The program and its arguments, behind `--`
    #[arg(last = true, value_name = "ARGV")]
    pub(crate) argv: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Slot {
    Plan,
    Exec,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Access {
    Full,
    Workspace,
    Readonly,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    /// List sessions, newest first
    Ls {
        /// Only those that have not ended
        #[arg(long)]
        live: bool,
        /// Also those that Muster uses for itself
        #[arg(long)]
        internal: bool,
        /// Only those of this task
        #[arg(long, value_name = "ID")]
        task: Option<String>,
    },
    /// Show everything about one session
    Show {
        /// Id, or its unique beginning
        session: String,
    },
    /// Show what the status of a session rests on
    Explain {
        /// Id, or its unique beginning
        session: String,
    },
    /// Stop a session: its program is told to end, and killed when it does not
    Stop {
        /// Id, or its unique beginning
        session: String,
        /// End the processes that an ended session has left behind
        #[arg(long)]
        survivors: bool,
    },
    /// Interrupt the program of a session now, as Ctrl-C does
    Interrupt {
        /// Id, or its unique beginning
        session: String,
        /// At once; a generic program knows no other way
        #[arg(long)]
        hard: bool,
    },
    /// Start the program of an ended session again
    Resume {
        /// Id, or its unique beginning
        session: String,
        /// A key of your choice: repeated with it, the program is started only once
        #[arg(long, value_name = "KEY")]
        id: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Id, or its unique beginning
    pub(crate) session: String,
    /// What to wait for: its end, or that somebody is needed
    #[arg(long = "for", value_name = "WHAT", default_value = "exit")]
    pub(crate) wait_for: WaitFor,
    /// Give up after this long, as in 90s, 5m, 2h
    #[arg(long, value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WaitFor {
    Idle,
    Attention,
    Exit,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Id, or its unique beginning
    pub(crate) session: String,
    /// What to send; `-` reads standard input
    pub(crate) text: String,
    /// Send only while this turn of the program is open, or while `none` is
    #[arg(long, value_name = "ID")]
    pub(crate) if_turn: Option<String>,
    /// A key of your choice: repeated with it, the text is still sent only once
    #[arg(long, value_name = "KEY")]
    pub(crate) id: Option<String>,
    /// When it is read: in order, after the turn that is open, or at once in its place
    #[arg(long, default_value = "queue")]
    pub(crate) mode: Mode,
    /// Return only when it has come this far; `seen` and `done` need a program that repeats its
    /// input
    #[arg(long)]
    pub(crate) wait: Option<WaitMessage>,
    /// Keep trying for this long, as in 90s, 5m, 2h
    #[arg(long, value_parser = duration, default_value = "30s")]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Mode {
    Queue,
    AfterTurn,
    Interrupt,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WaitMessage {
    Written,
    Seen,
    Done,
}

#[derive(Debug, Args)]
pub(crate) struct Queue {
    /// Id, or its unique beginning
    pub(crate) session: String,
    #[command(subcommand)]
    pub(crate) command: Option<QueueCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Take back a message that was not written
    Cancel {
        /// Id of the message
        message: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// Id, or its unique beginning
    pub(crate) session: String,
    /// Go on with what comes, until the program ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Where to begin: start, end, OFFSET in bytes, or RUN:OFFSET [default: the last 64 KiB]
    #[arg(long, value_name = "CURSOR")]
    pub(crate) from: Option<String>,
    /// Every byte, also those that came after the end of the program
    #[arg(long)]
    pub(crate) raw: bool,
    /// Standard error of the program, rather than standard output
    #[arg(long)]
    pub(crate) stderr: bool,
    /// Which run [default: the latest]
    #[arg(long, value_name = "N")]
    pub(crate) run: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Add a task and print its id
    Add {
        /// Title
        title: String,
        /// What and why
        #[arg(long)]
        description: Option<String>,
        /// Project
        #[arg(long)]
        project: Option<String>,
        /// Category
        #[arg(long)]
        category: Option<String>,
    },
    /// List tasks, newest first
    Ls {
        /// Only those in this phase
        #[arg(long)]
        phase: Option<String>,
    },
    /// Show everything about one task
    Show {
        /// Id, or its unique beginning
        task: String,
    },
    /// Set where a task stands
    Phase {
        /// Id, or its unique beginning
        task: String,
        /// todo, in_progress, agent_complete, await_human_action, human_verified,
        /// post_work_completed, complete
        phase: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definitions_agree_with_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_of_the_program_are_its_own() {
        let cli = Cli::try_parse_from([
            "muster", "run", "--detach", "--", "bash", "-c", "x", "--json",
        ])
        .unwrap();
        assert!(!cli.json);
        let Command::Run(run) = cli.command else {
            panic!("{cli:?}")
        };
        assert_eq!(run.argv, ["bash", "-c", "x", "--json"]);
        assert!(run.detach);
    }

    #[test]
    fn a_text_may_begin_with_a_dash_behind_two() {
        let cli = Cli::try_parse_from(["muster", "send", "--", "0190", "-x"]).unwrap();
        let Command::Send(send) = cli.command else {
            panic!("{cli:?}")
        };
        assert_eq!((send.session.as_str(), send.text.as_str()), ("0190", "-x"));
        assert!(Cli::try_parse_from(["muster", "send", "0190"]).is_err());
    }
}
