//! `powerloss --kernel K --initramfs I --work DIR --kept DIR [OPTIONS] [CASE...]`, called by the script `run`; with
//! `dax` instead of cases by the script `tests/dax/run`.

use anyhow::{Context, Result, anyhow, bail, ensure};
use firndex::Engine;
use powerloss::cases::{self, Case};
use powerloss::dax;
use powerloss::machine::Machine;
use powerloss::trial::Trial;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use workload::Random;

const IMAGES: usize = 150;
const SECONDS: f64 = 3.0;
const DAX_KILLS: usize = 6;
const DAX_SECONDS: f64 = 6.0;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("powerloss: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well.
fn run() -> Result<bool> {
    let (options, names) = arguments()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let seed = number(&options, "seed", now)?;
    // What the guest does when does not follow from it.
    println!("seed {seed}");
    let mut random = Random::new(seed);
    if names == ["dax"] {
        return dax_trial(&options)?.run(&mut random);
    }
    let trial = trial(&options)?;
    let cases: Vec<Case> = if names.is_empty() {
        cases::ALL.to_vec()
    } else {
        names.iter().map(|name| case(name)).collect::<Result<_>>()?
    };
    let began = Instant::now();
    let mut engines = engines(&options, &mut random)?;
    let (mut images, mut violations, mut is_well) = (0, 0, true);
    for case in &cases {
        engines.rotate_left(1);
        let outcome = trial.run(case, engines[0], &mut random)?;
        if case.is_hasty {
            // The judge must find what was planted.
            if outcome.violations == 0 {
                println!("{}: was not found out", case.name);
                is_well = false;
            }
            continue;
        }
        images += outcome.images;
        violations += outcome.violations;
    }
    println!("images {images}, violations {violations} ({} s)", began.elapsed().as_secs());
    Ok(is_well && violations == 0)
}

fn case(name: &str) -> Result<Case> {
    cases::named(name).with_context(|| {
        let names: Vec<_> = cases::ALL.iter().map(|case| case.name).collect();
        format!("no case is called {name}; there are {}", names.join(", "))
    })
}

/// The engines whose turn it is, one after another: each run begins with another one.
fn engines(options: &HashMap<String, String>, random: &mut Random) -> Result<Vec<Engine>> {
    if let Some(name) = options.get("engine") {
        return Ok(vec![name.parse().map_err(|error| anyhow!("{error}"))?]);
    }
    let mut engines = Engine::ALL.to_vec();
    let first = random.index(engines.len());
    engines.rotate_left(first);
    Ok(engines)
}

fn trial(options: &HashMap<String, String>) -> Result<Trial> {
    Ok(Trial {
        machine: machine(options)?,
        work: path(options, "work")?,
        kept: path(options, "kept")?,
        images: number(options, "images", IMAGES)?,
        writes_for: Duration::from_secs_f64(number(options, "seconds", SECONDS)?),
    })
}

fn dax_trial(options: &HashMap<String, String>) -> Result<dax::host::Trial> {
    Ok(dax::host::Trial {
        machine: machine(options)?,
        work: path(options, "work")?,
        kept: path(options, "kept")?,
        kills: number(options, "kills", DAX_KILLS)?,
        writes_for: Duration::from_secs_f64(number(options, "seconds", DAX_SECONDS)?),
    })
}

fn machine(options: &HashMap<String, String>) -> Result<Machine> {
    Ok(Machine { kernel: path(options, "kernel")?, initramfs: path(options, "initramfs")? })
}

fn path(options: &HashMap<String, String>, name: &str) -> Result<PathBuf> {
    options.get(name).map(Into::into).ok_or_else(|| anyhow!("--{name} is missing"))
}

fn number<T: FromStr>(options: &HashMap<String, String>, name: &str, default: T) -> Result<T> {
    let parse =
        |text: &String| text.parse().map_err(|_| anyhow!("--{name} wants a number, not {text:?}"));
    options.get(name).map_or(Ok(default), parse)
}

/// Options with their values, and the rest.
fn arguments() -> Result<(HashMap<String, String>, Vec<String>)> {
    let known =
        ["kernel", "initramfs", "work", "kept", "images", "kills", "seconds", "seed", "engine"];
    let (mut options, mut names) = (HashMap::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.strip_prefix("--") else {
            names.push(argument);
            continue;
        };
        ensure!(known.contains(&option), "no option is called {argument}");
        let Some(value) = arguments.next() else { bail!("{argument} wants a value") };
        options.insert(option.to_owned(), value);
    }
    Ok((options, names))
}
