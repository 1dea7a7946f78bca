//! What a program does around its commands: it reads its arguments, gives help, and ends with a status.

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Command};

use crate::failure::{Ended, Status};
use crate::{limits, output};

/// The `main` of the program with this name: what `run` came to is the exit status.
pub fn main(name: &'static str, run: impl FnOnce() -> Result<Status>) -> ExitCode {
    output::set_program(name);
    let error = match limits::turn_into_errors().and_then(|()| run()) {
        Ok(status) => return status.into(),
        Err(error) => error,
    };
    let ended = error.downcast_ref::<Ended>();
    if ended.is_none_or(Ended::is_told) {
        output::error(&error);
    }
    if let Some(ended) = ended {
        ended.end();
    }
    Status::Failed.into()
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

/// What was asked for; `None` if it was help, which is then given. Whoever asks for what there is not is answered here.
pub fn asked_for(program: Command) -> Result<Option<ArgMatches>> {
    match program.try_get_matches() {
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
