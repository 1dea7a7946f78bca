//! `firndex torture`: does a real process that is killed on real files lose anything?

mod calls;
mod ledger;
pub(super) mod lives;
mod pools;
mod progress;
pub(super) mod victim;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use clap::Args;
use dedup::{fresh_seed, interrupt};
use firndex::{Durability, Engine, OpenError};
use serde_json::{Value, json};
use tempfile::TempDir;
use workload::{Random, mix};

use crate::commands::{engine, minutes};
use crate::count::counted;
use crate::failure::{Failure, Status};
use crate::{output, progress as bars, safety};
use ledger::Ledger;
use pools::Which;
use progress::{Progress, WRITERS_MAX};

/// Writers of a pool, if their number was not asked for.
const WRITERS: u64 = 2;
/// Kills that find one pool; the next child makes a new one, which must grow from nothing.
const KILLS_OF_A_POOL: u64 = 20;
/// Kills that come while the process still opens the pools, perhaps.
const EARLY_PERCENT: u64 = 25;
const EARLY_MS_MAX: u64 = 20;
/// All others come up to so long after the writers have begun.
const LATE_MS_MAX: u64 = 200;
/// Kills after which the next child has to recover the pools, not the judge.
const UNJUDGED_PERCENT: u64 = 25;
/// Of a process to be killed: how often to look how far it is.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Kill writing processes, and look for what they had been promised
///
/// Starts a process that opens a table and a store in real files. Several threads write to each, others read, back up,
/// sync, shrink and compact; the pools grow, are closed, written anew and opened again. The process notes in a shared
/// file which calls have returned. It is killed with SIGKILL at a random moment. Then the pools are opened, checked and
/// read: each call that had returned must have its effect, nothing may be there that no call wrote, and the keys of a
/// call that was cut off must be in the state before or after it. The next process continues with the same pools.
///
/// With --lives it tortures small pools at their limits instead. A life is determined by its seed: a store or a table,
/// a few sizes of values from 0 to 300 KB, a limit that stays, rises or falls, and 20 to 30 openings. One to four
/// threads change it, each its own keys. Every answer is compared with a model, and so are all pairs after each
/// opening. Some processes are killed. With --fill the file system is filled and freed meanwhile. By default the
/// directory is in /dev/shm, and lives that once found something run first.
///
/// The exit status is 1 if a promise was broken. The pools are kept then.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex torture                                   a hundred kills on every engine
  firndex torture --engine level --minutes 60       for an hour
  firndex torture --dir /dev/shm --kills 1000       without a log
  firndex torture --durability commit --json        {\"kills\":…,\"acknowledged\":…,\"lost\":0,…}
  firndex torture --lives                           a thousand lives of small pools
  firndex torture --lives --minutes 60              as many as an hour takes
  firndex torture --lives 1 --seed 7                one life again")]
pub(crate) struct Arguments {
    /// The hash table to torture [default: each in turn]
    #[arg(long, value_parser = engine::names())]
    engine: Option<Engine>,
    /// Kills on each engine
    #[arg(long, value_name = "N", default_value_t = 100)]
    kills: u64,
    /// Live lives of small pools instead: this many [default: 1000, or as many as --minutes allows]
    #[arg(long, value_name = "N", num_args = 0..=1, conflicts_with = "kills")]
    lives: Option<Option<u64>>,
    /// In lives, fill the file system and free it again. It must have 1 GiB at most
    #[arg(long, requires = "lives", conflicts_with = "durability")]
    fill: bool,
    /// Instead of a number of kills, kill for this many minutes on each engine; live lives for so long in all
    #[arg(long, value_name = "M", value_parser = minutes, conflicts_with = "kills")]
    minutes: Option<f64>,
    /// Make the pools in a new directory in this one, and so on its file system [default: that of temporary files; of
    /// lives /dev/shm]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writers of each pool [default: 2; in lives 1 to 4, and 16 at most]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=WRITERS_MAX))]
    threads: Option<u64>,
    /// Determines the calls; the moments of the kills are as the machine runs. Of lives it is the first one's seed, and
    /// the next lives have the next ones [default: a new seed each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// What the pools are asked to survive of power loss [default: periodic on a disk, process in /dev/shm]
    #[arg(long, value_parser = safety::names())]
    durability: Option<Durability>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    if arguments.lives.is_some() {
        return lives::run(arguments);
    }
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let directory = new_directory(arguments.dir.as_deref())?;
    interrupt::remove_on_signal(directory.path().to_owned())?;
    let engines = arguments.engine.map_or_else(|| Engine::ALL.to_vec(), |engine| vec![engine]);
    let mut tallies = Vec::new();
    let mut failed = None;
    for engine in engines {
        let mut run = Run::new(arguments, engine, seed, directory.path())?;
        let ended = run.go(arguments);
        interrupt::give_way();
        let tally = run.tally();
        if !arguments.json {
            output::data(format!("{tally}\n").as_bytes())?;
        }
        let is_sound = tally.is_sound();
        tallies.push(tally);
        if ended.is_err() || !is_sound {
            failed = Some(ended);
            break;
        }
    }
    if arguments.json {
        output::json(&as_json(&tallies, seed))?;
    }
    let Some(ended) = failed else { return Ok(Status::Done) };
    let kept = directory.keep();
    let place = format!("the pools are kept in {}; the seed was {seed}", kept.display());
    ended.context(place.clone())?;
    output::complain(&format!("a promise was broken; {place}"));
    Ok(Status::Absent)
}

fn new_directory(parent: Option<&Path>) -> Result<TempDir> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
    tempfile::Builder::new().prefix("firndex-torture-").tempdir_in(&parent).map_err(|error| {
        Failure::new(
            format!("making a directory in {}", parent.display()),
            "name one that can be written with --dir",
        )
        .caused_by(error)
        .into()
    })
}

/// What a run on one engine came to.
#[derive(Debug)]
struct Tally {
    engine: Engine,
    kills: u64,
    acknowledged: u64,
    lost: u64,
    invented: u64,
    /// Times that a pool could not be opened, or was not sound.
    unsound: u64,
}

impl Tally {
    fn is_sound(&self) -> bool {
        (self.lost, self.invented, self.unsound) == (0, 0, 0)
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { engine, lost, invented, unsound, .. } = self;
        let (kills, calls) = (counted(self.kills, "kill"), counted(self.acknowledged, "call"));
        write!(f, "{engine}: {kills}, {calls} acknowledged, {lost} lost, {invented} invented")?;
        if *unsound > 0 {
            write!(f, ", {} not sound", counted(*unsound, "pool"))?;
        }
        Ok(())
    }
}

fn as_json(tallies: &[Tally], seed: u64) -> Value {
    let sum = |count: &dyn Fn(&Tally) -> u64| -> u64 { tallies.iter().map(count).sum() };
    let one = |tally: &Tally| {
        json!({
            "engine": tally.engine.name(),
            "kills": tally.kills,
            "acknowledged": tally.acknowledged,
            "lost": tally.lost,
            "invented": tally.invented,
            "unsound": tally.unsound,
        })
    };
    json!({
        "seed": seed,
        "kills": sum(&|tally| tally.kills),
        "acknowledged": sum(&|tally| tally.acknowledged),
        "lost": sum(&|tally| tally.lost),
        "invented": sum(&|tally| tally.invented),
        "unsound": sum(&|tally| tally.unsound),
        "engines": tallies.iter().map(one).collect::<Vec<_>>(),
    })
}

/// A run on one engine.
struct Run {
    program: PathBuf,
    victim: victim::Arguments,
    progress: Progress,
    random: Random,
    ledgers: [Ledger; 2],
    kills: u64,
    /// Acknowledged by pools that are gone.
    acknowledged: u64,
    lost: u64,
    invented: u64,
    unsound: u64,
}

impl Run {
    fn new(arguments: &Arguments, engine: Engine, seed: u64, directory: &Path) -> Result<Run> {
        let dir = directory.join(engine.name());
        std::fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        let victim = victim::Arguments {
            dir,
            engine,
            durability: arguments.durability,
            writers: arguments.threads.unwrap_or(WRITERS) as usize,
            seed,
            life: 0,
            parent: std::process::id(),
        };
        Ok(Run {
            program: std::env::current_exe().context("finding this program's own file")?,
            progress: victim.progress()?,
            random: Random::new(mix(seed)),
            ledgers: ledgers(&victim),
            victim,
            kills: 0,
            acknowledged: 0,
            lost: 0,
            invented: 0,
            unsound: 0,
        })
    }

    fn tally(&self) -> Tally {
        Tally {
            engine: self.victim.engine,
            kills: self.kills,
            acknowledged: self.acknowledged + acknowledged(&self.ledgers),
            lost: self.lost,
            invented: self.invented,
            unsound: self.unsound,
        }
    }

    /// Kills and judges until the end or the first violation.
    fn go(&mut self, arguments: &Arguments) -> Result<()> {
        let time = arguments
            .minutes
            .map(|minutes| Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX));
        let started = Instant::now();
        let step = match time {
            Some(_) => bars::unknown("torturing", "kills"),
            None => bars::count("torturing", "kills", arguments.kills),
        };
        let is_over = |kills: u64| match time {
            Some(time) => started.elapsed() >= time,
            None => kills >= arguments.kills,
        };
        while !is_over(self.kills) && self.tally().is_sound() {
            if self.kills.is_multiple_of(KILLS_OF_A_POOL) && self.kills > 0 {
                self.begin_anew()?;
            }
            self.live_and_die()?;
            step.set_position(self.kills);
            let is_last = is_over(self.kills) || (self.kills + 1).is_multiple_of(KILLS_OF_A_POOL);
            if is_last || !self.random.percent(UNJUDGED_PERCENT) {
                self.judge()?;
            }
        }
        Ok(())
    }

    /// Removes the pools. The next process makes new ones.
    fn begin_anew(&mut self) -> Result<()> {
        self.acknowledged += acknowledged(&self.ledgers);
        let dir = &self.victim.dir;
        let removed = std::fs::remove_dir_all(dir).and_then(|()| std::fs::create_dir(dir));
        removed.with_context(|| format!("emptying {}", dir.display()))?;
        self.victim.seed = mix(self.victim.seed);
        self.progress = self.victim.progress()?;
        self.ledgers = ledgers(&self.victim);
        Ok(())
    }

    /// One process, from its start to its death.
    fn live_and_die(&mut self) -> Result<()> {
        self.victim.life += 1;
        let writers = self.victim.writers;
        let begun_before = self.progress.begun(writers);
        let mut process = self.victim.start(&self.program)?;
        let ms_max = if self.random.percent(EARLY_PERCENT) {
            EARLY_MS_MAX
        } else {
            while self.progress.begun(writers) == begun_before {
                process.demand_life()?;
                std::thread::sleep(LOOK_EVERY);
            }
            LATE_MS_MAX
        };
        std::thread::sleep(Duration::from_micros(self.random.below(1000 * ms_max)));
        process.kill()?;
        self.kills += 1;
        for (pool, ledger) in self.ledgers.iter_mut().enumerate() {
            let marks = (0..writers).map(|writer| self.progress.mark(pool, writer));
            ledger.enter(&marks.collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Opens, checks and reads the pools.
    fn judge(&mut self) -> Result<()> {
        for which in Which::BOTH {
            let path = which.path(&self.victim.dir);
            let said = |text: &str| output::complain(&format!("{}: {text}", path.display()));
            let pool = match which.open(&path, &self.victim.options()) {
                Ok(pool) => Some(pool),
                // The process was killed before it came to make it; or else its pairs are lost.
                Err(firndex::Error::Open(OpenError::Missing { .. })) => None,
                Err(error) => {
                    self.unsound += 1;
                    said(&Error::new(error).to_string());
                    continue;
                }
            };
            let mut found = std::collections::HashMap::new();
            if let Some(pool) = &pool {
                let report = pool.check()?;
                if !report.is_sound() {
                    self.unsound += 1;
                    report.findings.iter().for_each(|finding| said(&finding.to_string()));
                }
                match pools::contents(pool, self.victim.source(which)) {
                    Ok(pairs) => found = pairs,
                    Err(error) => {
                        self.unsound += 1;
                        said(&format!("{error:#}"));
                        continue;
                    }
                }
            }
            let verdict = self.ledgers[which as usize].judge(&found);
            self.lost += verdict.lost;
            self.invented += verdict.invented;
            verdict.told.iter().for_each(|violation| said(violation));
            pool.map_or(Ok(()), |pool| pool.close())?;
        }
        Ok(())
    }
}

fn ledgers(victim: &victim::Arguments) -> [Ledger; 2] {
    Which::BOTH.map(|which| Ledger::new(victim.source(which), victim.writers))
}

fn acknowledged(ledgers: &[Ledger; 2]) -> u64 {
    ledgers.iter().map(Ledger::acknowledged).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose pools hold what writer 0 did in `CALLS` calls, all acknowledged.
    const CALLS: u64 = 3000;

    fn run_in(dir: &Path) -> Run {
        let arguments = Arguments {
            engine: None,
            kills: 1,
            minutes: None,
            dir: None,
            threads: Some(1),
            lives: None,
            fill: false,
            seed: None,
            // Else a pool that is gone is restored.
            durability: Some(Durability::Process),
            json: false,
        };
        let mut run = Run::new(&arguments, Engine::ALL[0], 5, dir).unwrap();
        for which in Which::BOTH {
            let (pool, source) = (open(&run, which), run.victim.source(which));
            for number in 0..CALLS {
                pools::perform(&pool, source, &source.call(0, number)).unwrap();
            }
            pool.close().unwrap();
            let mark = ledger::Mark { begun: CALLS, returned: CALLS };
            run.ledgers[which as usize].enter(&[mark]);
        }
        run
    }

    fn open(run: &Run, which: Which) -> crate::pool::Pool {
        which.open_or_create(&which.path(&run.victim.dir), &run.victim.options()).unwrap()
    }

    #[test]
    fn pools_are_read_as_they_are_and_a_change_that_nobody_made_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let mut run = run_in(directory.path());
        run.judge().unwrap();
        assert!(run.tally().is_sound(), "{:?}", run.tally());
        assert_eq!(run.tally().acknowledged, 2 * CALLS);

        // A put in each pool is taken back, and each gets a pair that nobody put there.
        for which in Which::BOTH {
            let (pool, source) = (open(&run, which), run.victim.source(which));
            let present = pools::contents(&pool, source).unwrap();
            let key = present.keys().find(|key| !key.is_counter()).unwrap();
            match &pool {
                crate::pool::Pool::Table(table) => {
                    assert!(table.remove(key.0).unwrap().is_some());
                    table.put(77 << 32, 1).unwrap();
                }
                crate::pool::Pool::Store(store) => {
                    assert!(store.remove(key.bytes()).unwrap().is_some());
                    store.put(calls::Key(77 << 32).bytes(), "1").unwrap();
                }
            }
            pool.close().unwrap();
        }
        run.judge().unwrap();
        let tally = run.tally();
        assert_eq!((tally.lost, tally.invented, tally.unsound), (2, 2, 0), "{tally:?}");
        assert!(tally.to_string().ends_with("6,000 calls acknowledged, 2 lost, 2 invented"));

        // A pool that is gone has lost all; one that cannot be opened is counted, too.
        std::fs::remove_file(Which::Table.path(&run.victim.dir)).unwrap();
        std::fs::write(Which::Store.path(&run.victim.dir), "no pool").unwrap();
        run.judge().unwrap();
        assert!(run.lost > 1000 && run.unsound == 1, "{:?}", run.tally());
    }
}
