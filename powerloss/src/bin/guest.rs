//! The writer, in the virtual machine: `guest CASE ENGINE` writes until the machine is stopped. What is wrong it says
//! on the console, in lines that the host looks for.

use anyhow::{Context, Result, anyhow};
use firndex::Engine;
use powerloss::cases::{self, Case};
use powerloss::filesystem::DIRECTORY;
use powerloss::machine::{BEGINS, WRONG};
use powerloss::notes::Notes;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};
use workload::Random;

const DISK: &str = "/dev/vda";
const MOUNTED_AT: &str = "/mnt";
/// The shortest and the longest life of a writer that is killed.
const LIFE_MS: [u64; 2] = [100, 3000];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [case, engine] => find(case, engine).and_then(|(case, engine)| run(case, engine)),
        [case, engine, "once"] => find(case, engine).and_then(|(case, engine)| write(case, engine)),
        _ => Err(anyhow!("usage: guest CASE ENGINE")),
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
    if !case.is_killed {
        return write(case, engine);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut random = Random::new(now.as_nanos() as u64);
    loop {
        let mut writer =
            Command::new(env::current_exe()?).args([case.name, engine.name(), "once"]).spawn()?;
        let [shortest, longest] = LIFE_MS;
        thread::sleep(Duration::from_millis(shortest + random.below(longest - shortest)));
        writer.kill()?;
        writer.wait()?;
    }
}

fn write(case: Case, engine: Engine) -> Result<()> {
    let directory = Path::new(MOUNTED_AT).join(DIRECTORY);
    fs::create_dir_all(&directory)?;
    case.write(engine, &directory, &Notes::on_device(Path::new(DISK))?)
}
