//! `firndex-lab completions`: what a shell completes.

use anyhow::Result;
use clap::{Args, Command};
use cli::failure::Status;
use cli::teaching::{self, Shell};

/// Print the completions of this program for a shell
///
/// The script goes to stdout. The shell's manual says where to put it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex-lab completions bash > ~/.local/share/bash-completion/completions/firndex-lab
  firndex-lab completions zsh > ~/.zfunc/_firndex-lab
  firndex-lab completions fish > ~/.config/fish/completions/firndex-lab.fish")]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, program: Command) -> Result<Status> {
    teaching::complete(program, arguments.shell)
}
