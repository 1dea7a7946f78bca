//! The writer, in the virtual machine: `guest CASE ENGINE` writes until the machine is stopped, and so does `guest dax`
//! on a DAX file system. What is wrong it says on the console, in lines that the host looks for.

use anyhow::{Context, Result, anyhow};
use firndex::Engine;
use powerloss::cases::{self, Case};
use powerloss::dax;
use powerloss::filesystem::DIRECTORY;
use powerloss::machine::{BEGINS, WRONG};
use powerloss::notes::Notes;
use powerloss::victim;
use std::path::Path;
use std::{env, fs};

const DISK: &str = "/dev/vda";
const MOUNTED_AT: &str = "/mnt";
/// The shortest and the longest life of a writer that is killed.
const LIFE_MS: [u64; 2] = [100, 3000];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["dax"] => {
            println!("{BEGINS}");
            dax::guest::run(Path::new(MOUNTED_AT))
        }
        ["dax", pool] => dax::guest::write(Path::new(MOUNTED_AT), pool),
        [case, engine] => find(case, engine).and_then(|(case, engine)| run(case, engine)),
        [case, engine, "once"] => find(case, engine).and_then(|(case, engine)| write(case, engine)),
        _ => Err(anyhow!("usage: guest CASE ENGINE, or guest dax")),
    };
    if let Err(error) = done {
        println!("{WRONG} {error:#}");
    }
}

fn find(case: &str, engine: &str) -> Result<(Case, Engine)> {
    let found = cases::named(case).with_context(|| format!("no case is called {case}"))?;
    Ok((found, engine.parse().map_err(|error| anyhow!("{error}"))?))
}

fn run(case: Case, engine: Engine) -> Result<()> {
    println!("{BEGINS}");
    if case.is_killed {
        return victim::run_and_kill(&[case.name, engine.name(), "once"], LIFE_MS, |_| Ok(()));
    }
    write(case, engine)
}

fn write(case: Case, engine: Engine) -> Result<()> {
    let directory = Path::new(MOUNTED_AT).join(DIRECTORY);
    fs::create_dir_all(&directory)?;
    case.write(engine, &directory, &Notes::on_device(Path::new(DISK))?)
}
