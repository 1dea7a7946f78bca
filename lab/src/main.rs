//! The laboratory of firndex: it crashes the engines on a simulated machine, kills real processes on real files, and
//! measures.
//!
//! Streams and exit statuses are those of the command `firndex`.

mod bench;
mod completions;
mod crash;
mod man;
mod minutes;
mod peers;
mod repro;
mod torture;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Command as Clap, CommandFactory, FromArgMatches, Parser, Subcommand};
use cli::failure::Status;
use cli::program;

use torture::{caches, lives, victim};

const NAME: &str = "firndex-lab";

const FIRST_STEPS: &str = "\
First steps:
  firndex-lab crash                       crash the engines everywhere, on a simulated machine
  firndex-lab torture                     kill writing processes, on real files
  firndex-lab bench micro                 measure each operation by itself
  firndex-lab repro                       repeat the papers' measurements

Data goes to stdout, everything else to stderr. Exit status: 0 done, 1 a broken promise, 2 error.";

/// The exit statuses of a command, which end its help.
fn exit_status(command: &str) -> &'static str {
    match command {
        "crash" | "torture" => {
            "Exit status: 0 every promise was kept, 1 a promise was broken, 2 an error."
        }
        _ => "Exit status: 0 done, 2 an error.",
    }
}

/// The laboratory of firndex
///
/// Crashes, tortures and measures the hash tables that `firndex` keeps pools in. `firndex-lab help COMMAND` explains
/// each command with examples.
#[derive(Debug, Parser)]
#[command(name = NAME, version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = FIRST_STEPS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Crash(crash::Arguments),
    Torture(torture::Arguments),
    Bench(Box<bench::Arguments>),
    Repro(Box<repro::Arguments>),
    Completions(completions::Arguments),
    Man(man::Arguments),
    /// The process that `torture` starts and kills
    #[command(name = victim::COMMAND, hide = true)]
    TortureVictim(victim::Arguments),
    /// The process that lives a life of `torture`
    #[command(name = lives::COMMAND, hide = true)]
    TortureLife(lives::ChildArguments),
    /// The process with a cache that `torture` starts and kills
    #[command(name = caches::COMMAND, hide = true)]
    TortureCache(caches::VictimArguments),
}

fn main() -> ExitCode {
    program::run(NAME, run).into()
}

/// The program's arguments and help texts.
fn command() -> Clap {
    program::with_exit_statuses(Arguments::command(), exit_status)
}

fn run() -> Result<Status> {
    let Some(matches) = program::asked_for(command(), std::env::args_os())? else {
        return Ok(Status::Done);
    };
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match arguments.command {
        Command::Crash(arguments) => crash::run(&arguments),
        Command::Torture(arguments) => torture::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Repro(arguments) => repro::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, command()),
        Command::Man(arguments) => man::run(&arguments, command()),
        Command::TortureVictim(arguments) => victim::run(&arguments),
        Command::TortureLife(arguments) => lives::run_child(&arguments),
        Command::TortureCache(arguments) => caches::run_victim(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::{command, exit_status};

    #[test]
    fn arguments_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_subcommand_teaches_by_example_and_tells_its_exit_status() {
        for command in command().get_subcommands_mut().filter(|command| !command.is_hide_set()) {
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(help.contains(&format!("firndex-lab {name} ")), "no example in: {help}");
            assert!(help.contains(exit_status(&name)), "no exit status in: {help}");
        }
    }
}
