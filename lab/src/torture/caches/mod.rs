//! `firndex-lab torture --caches`: does a cache whose process is killed return anything that it must not?

mod ledger;
mod soak;
mod user;
mod values;
mod verdict;
mod victim;
mod witness;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result};
use cli::count::counted;
use cli::failure::Status;
use cli::output;
use dedup::{fresh_seed, interrupt};
use firndex::{Cache, Options};
use serde_json::{Value, json};
use workload::{Random, mix};

use super::arguments::{Arguments, new_directory};
use super::{
    EARLY_MS_MAX, EARLY_PERCENT, KILLS_OF_A_POOL, LATE_MS_MAX, LOOK_EVERY, UNJUDGED_PERCENT,
};
use ledger::Ledger;
use values::{Read, Source};
use verdict::Breach;
pub(crate) use victim::{Arguments as VictimArguments, COMMAND, run as run_victim};
use witness::{Witness, now_ms};

/// Threads that use a cache, if their number was not asked for.
const THREADS: u64 = 4;
/// Judgements after which the closed cache is opened once more, for reading only.
const READ_ONLY_PERCENT: u64 = 30;

pub(super) fn run(arguments: &Arguments) -> Result<Status> {
    if let Some(operations) = arguments.soak {
        return soak::run(arguments, operations);
    }
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let directory = new_directory(arguments.dir.as_deref())?;
    interrupt::remove_on_signal(directory.path().to_owned())?;
    let mut run = Run::new(arguments, seed, directory.path())?;
    let ended = run.go(arguments);
    interrupt::give_way();
    let tally = run.tally();
    if arguments.json {
        output::json(&tally.json(seed))?;
    } else {
        output::data(format!("{tally}\n").as_bytes())?;
    }
    if ended.is_ok() && tally.is_sound() {
        return Ok(Status::Done);
    }
    super::keep(directory, seed, ended)
}

/// What a run came to.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    calls: u64,
    /// Entries that were there after a kill.
    found: u64,
    breaches: [u64; Breach::COUNT],
    /// Times that a cache could not be opened, or was not sound.
    unsound: u64,
}

impl Tally {
    fn is_sound(&self) -> bool {
        self.breaches == [0; Breach::COUNT] && self.unsound == 0
    }

    fn json(&self, seed: u64) -> Value {
        let mut json = json!({
            "seed": seed,
            "kills": self.kills,
            "acknowledged": self.calls,
            "found": self.found,
            "unsound": self.unsound,
        });
        for (breach, count) in Breach::ALL.iter().zip(self.breaches) {
            json[breach.key()] = count.into();
        }
        json
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kills, calls) = (counted(self.kills, "kill"), counted(self.calls, "call"));
        write!(f, "caches: {kills}, {calls} acknowledged, {} found", self.found)?;
        for (breach, count) in Breach::ALL.iter().zip(self.breaches) {
            write!(f, ", {count} {}", breach.name())?;
        }
        if self.unsound > 0 {
            write!(f, ", {} not sound", counted(self.unsound, "cache"))?;
        }
        Ok(())
    }
}

struct Run {
    program: PathBuf,
    victim: victim::Arguments,
    random: Random,
    source: Source,
    ledger: Ledger,
    /// But for what the ledger counts.
    so_far: Tally,
}

impl Run {
    fn new(arguments: &Arguments, seed: u64, directory: &Path) -> Result<Run> {
        let dir = directory.join("cache");
        std::fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        let victim = victim::Arguments {
            dir,
            durability: arguments.durability,
            threads: arguments.threads.unwrap_or(THREADS),
            seed,
            life: 0,
            parent: std::process::id(),
        };
        Ok(Run {
            program: std::env::current_exe().context("finding this program's own file")?,
            random: Random::new(mix(seed)),
            source: victim.source(),
            ledger: victim.ledger()?,
            victim,
            so_far: Tally::default(),
        })
    }

    fn tally(&self) -> Tally {
        let (before, now) = (&self.so_far, self.ledger.breaches());
        Tally {
            calls: before.calls + self.ledger.calls(),
            breaches: std::array::from_fn(|breach| before.breaches[breach] + now[breach]),
            ..*before
        }
    }

    /// Kills and judges until the end or the first violation.
    fn go(&mut self, arguments: &Arguments) -> Result<()> {
        let (step, is_over) = super::kills_of(arguments);
        while !is_over(self.so_far.kills) && self.tally().is_sound() {
            let kills = self.so_far.kills;
            if kills.is_multiple_of(KILLS_OF_A_POOL) && kills > 0 {
                self.begin_anew()?;
            }
            self.live_and_die()?;
            let kills = self.so_far.kills;
            step.set_position(kills);
            let is_last = is_over(kills) || (kills + 1).is_multiple_of(KILLS_OF_A_POOL);
            if is_last || !self.random.percent(UNJUDGED_PERCENT) {
                self.judge()?;
            }
        }
        Ok(())
    }

    /// Removes the cache. The next process makes a new one, of another capacity.
    fn begin_anew(&mut self) -> Result<()> {
        self.so_far = self.tally();
        let dir = &self.victim.dir;
        let removed = std::fs::remove_dir_all(dir).and_then(|()| std::fs::create_dir(dir));
        removed.with_context(|| format!("emptying {}", dir.display()))?;
        self.victim.seed = mix(self.victim.seed);
        (self.source, self.ledger) = (self.victim.source(), self.victim.ledger()?);
        Ok(())
    }

    /// One process, from its start to its death.
    fn live_and_die(&mut self) -> Result<()> {
        self.victim.life += 1;
        let calls_before = self.ledger.calls();
        let mut process = self.victim.start(&self.program)?;
        let ms_max = if self.random.percent(EARLY_PERCENT) {
            EARLY_MS_MAX
        } else {
            while self.ledger.calls() == calls_before {
                process.demand_life()?;
                std::thread::sleep(LOOK_EVERY);
            }
            LATE_MS_MAX
        };
        std::thread::sleep(Duration::from_micros(self.random.below(1000 * ms_max)));
        process.kill()?;
        self.so_far.kills += 1;
        Ok(())
    }

    /// Opens, checks and reads the cache.
    fn judge(&mut self) -> Result<()> {
        let path = self.victim.path();
        if path.exists() {
            Witness::new(&self.ledger, &self.source, 0).measure(&path)?;
        }
        let cache = match self.victim.open(&self.ledger, &mut self.random) {
            Ok((cache, _)) => cache,
            Err(error) => {
                self.unsound(&Error::new(error).to_string());
                return Ok(());
            }
        };
        self.so_far.found += self.read(&cache)?;
        Witness::new(&self.ledger, &self.source, 0).measure(&path)?;
        cache.close()?;
        if self.random.percent(READ_ONLY_PERCENT) {
            let cache = Options::new().read_only(true).open_cache(&path)?;
            self.read(&cache)?;
        }
        Ok(())
    }

    fn unsound(&mut self, what: &str) {
        self.so_far.unsound += 1;
        output::complain(&format!("{}: {what}", self.victim.path().display()));
    }

    /// Checks all that there is, and looks up each key; how many there were. What a key was found to have is what it
    /// has from then on.
    fn read(&mut self, cache: &Cache) -> Result<u64> {
        let report = cache.check()?;
        if !report.is_sound() {
            report.findings.iter().for_each(|finding| output::complain(&finding.to_string()));
            self.unsound("it is not sound");
        }
        let mut witness = Witness::new(&self.ledger, &self.source, 0);
        let mut found = HashSet::new();
        let start_ms = now_ms();
        cache.for_each(|key, value| {
            match self.source.number_of(key) {
                Some(key) => {
                    found.insert(key);
                    witness.judge(witness.before(key).at(start_ms), value);
                }
                None => witness.tell(Breach::Wrong, format!("a key that nobody put: {key:x?}")),
            }
            true
        })?;
        for key in 0..self.ledger.keys() {
            let before = witness.before(key);
            let Some(value) = cache.get(self.source.key(key))? else { continue };
            if let Read::Version(version) = witness.judge(before, &value) {
                self.ledger.settle(key, version);
            }
        }
        Ok(found.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::verdict::NEVER;
    use super::*;

    /// Of the caches here.
    const CAPACITY_BYTES: u64 = 4 << 20;

    /// A run whose cache has each key's first version, if there can be room for it, all acknowledged.
    fn run_in(dir: &Path) -> Run {
        let arguments = Arguments { caches: true, seed: Some(1), ..Arguments::default() };
        let run = Run::new(&arguments, 1, dir).unwrap();
        change(&run, |cache| {
            let has_room = |key: &u64| first_of(&run, *key).len() < CAPACITY_BYTES as usize / 8;
            for key in (0..run.ledger.keys()).filter(has_room) {
                let version = run.ledger.begin(key, NEVER);
                put(&run, cache, key, version);
                run.ledger.acknowledge(key, version, NEVER);
            }
        });
        run
    }

    fn change(run: &Run, change: impl FnOnce(&Cache)) {
        run.ledger.begin_opening(CAPACITY_BYTES);
        let cache = Cache::open_or_create(run.victim.path(), CAPACITY_BYTES).unwrap();
        run.ledger.end_opening();
        change(&cache);
        cache.close().unwrap();
    }

    fn put(run: &Run, cache: &Cache, key: u64, version: u64) {
        let mut value = Vec::new();
        run.source.fill(key, version, &mut value);
        cache.put(run.source.key(key), &value).unwrap();
    }

    /// A key's first version.
    fn first_of(run: &Run, key: u64) -> Vec<u8> {
        let mut value = Vec::new();
        run.source.fill(key, 1, &mut value);
        value
    }

    /// A key of which versions can be told from others.
    fn long_key(run: &Run) -> u64 {
        (0..).find(|key| (30..1000).contains(&first_of(run, *key).len())).unwrap()
    }

    #[track_caller]
    fn demand(spoil: impl FnOnce(&Run, u64), expected: Option<Breach>) {
        let directory = tempfile::tempdir().unwrap();
        let mut run = run_in(directory.path());
        spoil(&run, long_key(&run));
        run.judge().unwrap();
        let tally = run.tally();
        assert_eq!(tally.is_sound(), expected.is_none(), "{tally:?}");
        for breach in Breach::ALL {
            assert_eq!(tally.breaches[breach as usize] > 0, expected == Some(breach), "{tally:?}");
        }
        assert_eq!(tally.unsound, 0);
        assert!(tally.found > 500, "{tally:?}");
    }

    #[test]
    fn a_cache_as_it_should_be_is_found_sound() {
        demand(|_, _| {}, None);
        // A removal that was cut off may have taken place, or not.
        demand(|run, key| assert_eq!(run.ledger.begin(key, NEVER), 2), None);
        demand(|run, key| change(run, |cache| drop(cache.remove(run.source.key(key)))), None);
    }

    #[test]
    fn each_kind_of_violation_is_noticed() {
        // A removal that had returned is taken back.
        let removed = |run: &Run, key| {
            let version = run.ledger.begin(key, NEVER);
            run.ledger.acknowledge(key, version, NEVER);
        };
        demand(removed, Some(Breach::Old));
        demand(|run, key| run.ledger.clear(key, 1), Some(Breach::Old));
        demand(|run, key| run.ledger.set_ends(key, 1, 1), Some(Breach::Expired));
        let put_by_nobody = |run: &Run, key: u64| change(run, |cache| put(run, cache, key, 2));
        demand(put_by_nobody, Some(Breach::Wrong));
        let with_a_key_of_nobody =
            |run: &Run, _| change(run, |cache| cache.put("nobody's", "1").unwrap());
        demand(with_a_key_of_nobody, Some(Breach::Wrong));
        let grown = |run: &Run, _| {
            let file = std::fs::File::options().write(true).open(run.victim.path()).unwrap();
            file.set_len(1 << 30).unwrap();
        };
        demand(grown, Some(Breach::Large));
    }

    #[test]
    fn what_was_found_is_what_a_key_has_from_then_on() {
        let directory = tempfile::tempdir().unwrap();
        let mut run = run_in(directory.path());
        let key = long_key(&run);
        let version = run.ledger.begin(key, NEVER);
        change(&run, |cache| put(&run, cache, key, version));
        run.judge().unwrap();
        assert!(run.tally().is_sound(), "{:?}", run.tally());
        change(&run, |cache| put(&run, cache, key, 1));
        run.judge().unwrap();
        assert!(run.tally().breaches[Breach::Old as usize] > 0, "{:?}", run.tally());
        let line = run.tally().to_string();
        assert!(line.contains(", 0 wrong, ") && !line.contains(", 0 old, "), "{line}");
    }

    #[test]
    fn a_cache_that_cannot_be_opened_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let mut run = run_in(directory.path());
        firndex::remove(run.victim.path()).unwrap();
        std::fs::write(run.victim.path(), "no cache").unwrap();
        run.judge().unwrap();
        assert_eq!(run.tally().unsound, 1);
        assert!(run.tally().to_string().ends_with(", 1 cache not sound"));
    }
}
