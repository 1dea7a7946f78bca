//! The writer, in the virtual machine: `guest CASE` writes until the machine is stopped. What is wrong it says on the
//! console, in lines that the host looks for.

use anyhow::{Context, Result};
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
const LIFE_MS: [u64; 2] = [50, 1500];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] => find(name).and_then(run),
        [name, "once"] => find(name).and_then(write),
        _ => Err(anyhow::anyhow!("usage: guest CASE")),
    };
    if let Err(error) = done {
        println!("{WRONG} {error:#}");
    }
}

fn find(name: &str) -> Result<Case> {
    cases::named(name).with_context(|| format!("no case is called {name}"))
}

fn run(case: Case) -> Result<()> {
    println!("{BEGINS}");
    if !case.is_killed {
        return write(case);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut random = Random::new(now.as_nanos() as u64);
    loop {
        let mut writer = Command::new(env::current_exe()?).args([case.name, "once"]).spawn()?;
        let [shortest, longest] = LIFE_MS;
        thread::sleep(Duration::from_millis(shortest + random.below(longest - shortest)));
        writer.kill()?;
        writer.wait()?;
    }
}

fn write(case: Case) -> Result<()> {
    let directory = Path::new(MOUNTED_AT).join(DIRECTORY);
    fs::create_dir_all(&directory)?;
    case.write(&directory, &Notes::on_device(Path::new(DISK))?)
}
