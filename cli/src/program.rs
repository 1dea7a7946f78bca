//! What a program does around its commands: it reads its arguments, gives help, and ends with a status.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process;

use anyhow::Result;
use clap::{ArgMatches, Command};

use crate::failure::{Ended, Status};
use crate::{limits, output};

/// What starts this program once more.
#[derive(Debug)]
pub struct Start {
    /// The file that is executed.
    pub program: PathBuf,
    /// What stands before the arguments of a command.
    pub arguments: Vec<OsString>,
}

impl Start {
    pub(crate) fn command(&self) -> process::Command {
        let mut command = process::Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}

/// Runs the program with this name, whose exit status this returns. It is called once in a process.
pub fn run(name: &'static str, run: impl FnOnce() -> Result<Status>) -> Status {
    output::set_program(name);
    let error = match limits::turn_into_errors().and_then(|()| run()) {
        Ok(status) => return status,
        Err(error) => error,
    };
    let ended = error.downcast_ref::<Ended>();
    if ended.is_none_or(Ended::is_told) {
        output::error(&error);
    }
    if let Some(ended) = ended {
        ended.end();
    }
    Status::Failed
}

/// The program's arguments and help texts; the help of each command ends with its exit statuses.
pub fn with_exit_statuses(program: Command, of: impl Fn(&str) -> &'static str) -> Command {
    program.mut_subcommands(|command| {
        let said = command.get_after_long_help().map(ToString::to_string);
        let help = said.map_or_else(String::new, |examples| format!("{examples}\n\n"));
        let status = of(command.get_name());
        command.after_long_help(help + status)
    })
}

/// What these arguments ask for, of which the first is the program's name; `None` if it is help, which is then given.
/// Whoever asks for what there is not is answered here.
pub fn asked_for(
    program: Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Option<ArgMatches>> {
    match program.try_get_matches_from(arguments) {
        Ok(matches) => Ok(Some(matches)),
        Err(error) if error.use_stderr() => error.exit(),
        Err(asked) => {
            let help = asked.render();
            let is_styled = output::to_terminal() && std::env::var_os("NO_COLOR").is_none();
            let text = if is_styled { help.ansi().to_string() } else { help.to_string() };
            output::data(text.as_bytes())?;
            Ok(None)
        }
    }
}
