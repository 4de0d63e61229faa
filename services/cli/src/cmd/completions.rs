//! `muster completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{args::Cli, exit::Failure, out};

/// Prints the completions for a shell.
pub(crate) fn run(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "muster", &mut script);
    out::bytes(&script)
}
