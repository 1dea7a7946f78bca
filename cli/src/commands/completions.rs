//! `firndex completions`: what a shell completes.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::failure::Status;
use crate::output;

/// Print the completions of this program for a shell
///
/// The script goes to stdout. The shell's manual says where to put it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex completions bash > ~/.local/share/bash-completion/completions/firndex
  firndex completions zsh > ~/.zfunc/_firndex
  firndex completions fish > ~/.config/fish/completions/firndex.fish")]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command(), "firndex", &mut script);
    output::data(&script)?;
    Ok(Status::Done)
}
