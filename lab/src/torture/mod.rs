//! `firndex-lab torture`: does a real process that is killed on real files lose anything?

mod arguments;
pub(super) mod caches;
mod calls;
mod ledger;
pub(super) mod lives;
mod pools;
mod progress;
pub(super) mod victim;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use cli::count::counted;
use cli::failure::Status;
use cli::{output, progress as bars};
use dedup::{fresh_seed, interrupt};
use firndex::{Engine, OpenError};
use serde_json::{Value, json};
use tempfile::TempDir;
use workload::{Random, mix};

pub(crate) use arguments::Arguments;
use arguments::new_directory;
use ledger::Ledger;
use pools::Which;
use progress::Progress;

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

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    if arguments.lives.is_some() {
        return lives::run(arguments);
    }
    if arguments.caches {
        return caches::run(arguments);
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
    keep(directory, seed, ended)
}

/// Keeps the pools of a run that broke a promise or could not go on, and says where they are.
fn keep(directory: TempDir, seed: u64, ended: Result<()>) -> Result<Status> {
    let kept = directory.keep();
    let place = format!("the pools are kept in {}; the seed was {seed}", kept.display());
    ended.context(place.clone())?;
    output::complain(&format!("a promise was broken; {place}"));
    Ok(Status::Absent)
}

/// A bar of kills, and whether so many are all.
fn kills_of(arguments: &Arguments) -> (bars::Step, impl Fn(u64) -> bool) {
    let time = arguments
        .minutes
        .map(|minutes| Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX));
    let started = Instant::now();
    let step = match time {
        Some(_) => bars::unknown("torturing", "kills"),
        None => bars::count("torturing", "kills", arguments.kills),
    };
    let kills_max = arguments.kills;
    let is_over = move |kills: u64| match time {
        Some(time) => started.elapsed() >= time,
        None => kills >= kills_max,
    };
    (step, is_over)
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
        let (step, is_over) = kills_of(arguments);
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
    use firndex::Durability;

    use super::*;

    /// A run whose pools hold what writer 0 did in `CALLS` calls, all acknowledged.
    const CALLS: u64 = 3000;

    fn run_in(dir: &Path) -> Run {
        let arguments = Arguments {
            threads: Some(1),
            // Else a pool that is gone is restored.
            durability: Some(Durability::Process),
            ..Arguments::default()
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

    fn open(run: &Run, which: Which) -> cli::pool::Pool {
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
                cli::pool::Pool::Table(table) => {
                    assert!(table.remove(key.0).unwrap().is_some());
                    table.put(77 << 32, 1).unwrap();
                }
                cli::pool::Pool::Store(store) => {
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
