//! The subcommands, one file each.

mod backup;
mod check;
mod compact;
mod completions;
mod convert;
mod create;
mod del;
mod demo;
mod dump;
mod get;
mod load;
mod man;
mod put;
mod remove;
mod salvage;
mod scan;
mod serve;
mod shrink;
mod stat;
mod target;

use std::ffi::OsString;

use anyhow::Result;
use clap::{Command as Clap, CommandFactory, FromArgMatches, Parser, Subcommand};
use demo::writer;

use crate::failure::Status;
use crate::program::{self, Start};

/// The program's name.
pub const NAME: &str = "firndex";

const FIRST_STEPS: &str = "\
First steps:
  firndex demo                            deduplicate files while the writer is killed
  firndex create fruit.firn               a new pool, in one file
  firndex put fruit.firn apple red        store a pair
  firndex get fruit.firn apple            prints: red
  firndex del fruit.firn apple            remove it
  firndex load fruit.firn more.csv        store a whole file
  firndex dump fruit.firn all.csv         write all pairs to a file
  firndex stat fruit.firn                 show how full and how large it is
  firndex check fruit.firn                verify that every pair is where it must be
  firndex backup fruit.firn monday.firn   write a clean copy
  firndex convert fruit.firn other.firn --engine level    to another engine
  firndex salvage bad.firn saved.firn     copy what still reads well out of a damaged pool
  firndex serve fruit.firn                keep it open for other processes
  firndex shrink sparse.firn              make the index smaller
  firndex compact sparse.firn             make the file smaller
  firndex remove fruit.firn               remove a pool, with its log and checkpoint

Data goes to stdout, everything else to stderr. Exit status: 0 done or found, 1 absent or a broken
promise, 2 error.";

/// The exit statuses of a command, which end its help.
fn exit_status(command: &str) -> &'static str {
    match command {
        "get" | "del" => "Exit status: 0 done, 1 the key is absent, 2 an error.",
        "check" => "Exit status: 0 the pool is sound, 2 it is not, or an error.",
        "salvage" => "Exit status: 0 nothing is missing, 2 something is or may be, or an error.",
        "demo" => "Exit status: 0 every promise was kept, 1 a promise was broken, 2 an error.",
        _ => "Exit status: 0 done, 2 an error.",
    }
}

/// A crash-safe hash index in one file
///
/// A pool is a file that holds a concurrent hash index. Once a put returns, its pair survives the process, even one
/// killed by SIGKILL. A pool that was cut off recovers when it is opened again. `firndex help COMMAND` explains each
/// command with examples.
#[derive(Debug, Parser)]
#[command(name = NAME, version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = FIRST_STEPS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Create(create::Arguments),
    Put(put::Arguments),
    Get(get::Arguments),
    Del(del::Arguments),
    Load(load::Arguments),
    Dump(dump::Arguments),
    Scan(scan::Arguments),
    Stat(stat::Arguments),
    Check(check::Arguments),
    Backup(backup::Arguments),
    Convert(convert::Arguments),
    Salvage(salvage::Arguments),
    Serve(serve::Arguments),
    Shrink(shrink::Arguments),
    Compact(compact::Arguments),
    Remove(remove::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    /// The process that `demo` starts and kills
    #[command(name = writer::COMMAND, hide = true)]
    DemoWriter(writer::Arguments),
}

/// The program's arguments and help texts.
pub fn command() -> Clap {
    program::with_exit_statuses(Arguments::command(), exit_status)
}

/// Runs the subcommand that these arguments ask for, of which the first is the program's name. `again` tells what
/// starts it once more.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    again: impl FnOnce() -> Result<Start>,
) -> Result<Status> {
    let matches = program::asked_for(command(), arguments)?;
    let Some(matches) = matches else { return Ok(Status::Done) };
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments, again),
        Command::Create(arguments) => create::run(&arguments),
        Command::Put(arguments) => put::run(&arguments),
        Command::Get(arguments) => get::run(&arguments),
        Command::Del(arguments) => del::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Salvage(arguments) => salvage::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Shrink(arguments) => shrink::run(&arguments),
        Command::Compact(arguments) => compact::run(&arguments),
        Command::Remove(arguments) => remove::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, command()),
        Command::Man(arguments) => man::run(&arguments, command()),
        Command::DemoWriter(arguments) => writer::run(&arguments),
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
        for command in command().get_subcommands_mut() {
            if command.is_hide_set() {
                continue;
            }
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(help.contains(&format!("firndex {name} ")), "no example in: {help}");
            assert!(help.contains(exit_status(&name)), "no exit status in: {help}");
        }
    }
}
