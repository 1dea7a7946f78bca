//! Processes that write and are killed at any moment, creation, growth and recovery included.
//! Whatever had returned is there afterwards, and nothing else but what was under way.

use crate::{effort, places, processes};
use firndex::{Engine, Options};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use workload::Random;

const THREADS: u64 = 2;
const KEYS: u64 = 12_000;
/// Written once when a process begins; what the test harness prints is plain ASCII.
const BEGUN: u8 = 0xef;
/// Written by thread *n* as `ACKNOWLEDGED + n` after each operation.
const ACKNOWLEDGED: u8 = 0xf0;
/// Kills on each engine, and those of a usual run.
const KILLS: u64 = 9;
const KILLS_USUAL: u64 = 4;

#[derive(Debug, Clone, Copy)]
enum Act {
    Put,
    Update,
    Remove,
}

/// An operation on a thread's own keys. Its value is a tag, unique over all processes.
#[derive(Debug, Clone, Copy)]
struct Step {
    key: u64,
    act: Act,
    tag: u64,
}

/// The operations of a thread of the process with this seed, in order. One process of three mostly
/// removes, so that tables shrink as well as they grow.
fn steps(seed: u64, thread: u64) -> impl Iterator<Item = Step> {
    let mut random = Random::new(seed << 8 | thread);
    (0..).map(move |number| {
        let key = random.below(KEYS) * THREADS + thread;
        let puts = if seed % 3 == 2 { 1 } else { 6 };
        let act = match random.below(10) {
            drawn if drawn < puts => Act::Put,
            drawn if drawn < puts + 2 => Act::Update,
            _ => Act::Remove,
        };
        Step { key, act, tag: seed << 40 | thread << 32 | number }
    })
}

impl Step {
    fn after(&self, before: Option<u64>) -> Option<u64> {
        match self.act {
            Act::Put => Some(self.tag),
            Act::Update => before.map(|_| self.tag),
            Act::Remove => None,
        }
    }
}

/// A store's value: the tag, and a filler of a length that follows from it.
fn value_of(tag: u64) -> Vec<u8> {
    let mut random = Random::new(tag);
    let filler = match random.below(400) {
        0 => 300_000,
        1..20 => 5000,
        _ => random.below(60) as usize,
    };
    let mut value = tag.to_le_bytes().to_vec();
    value.resize(8 + filler, tag as u8);
    value
}

fn tag_of(value: &[u8]) -> u64 {
    let tag = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert!(value == value_of(tag), "a value that was not stored so");
    tag
}

/// Does all steps until killed, beside someone who shrinks the table.
fn act_until_killed(
    seed: u64,
    shrink: impl Fn() -> firndex::Result<bool> + Sync,
    act: impl Fn(&Step) + Sync,
) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                shrink().unwrap();
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        for thread in 0..THREADS {
            let act = &act;
            scope.spawn(move || {
                let mut output = processes::unbuffered_output();
                for step in steps(seed, thread) {
                    act(&step);
                    output.write_all(&[ACKNOWLEDGED + thread as u8]).unwrap();
                }
            });
        }
    });
}

/// A role.
pub(crate) fn write_store(options: &Options, path: &Path, seed: u64) {
    processes::unbuffered_output().write_all(&[BEGUN]).unwrap();
    let store = options.open_or_create_store(path).unwrap();
    act_until_killed(
        seed,
        || store.shrink(),
        |step| {
            let key = step.key.to_le_bytes();
            match step.act {
                Act::Put => drop(store.put(key, value_of(step.tag)).unwrap()),
                Act::Update => drop(store.update(key, value_of(step.tag)).unwrap()),
                Act::Remove => drop(store.remove(key).unwrap()),
            }
        },
    );
}

/// A role.
pub(crate) fn write_table(options: &Options, path: &Path, seed: u64) {
    processes::unbuffered_output().write_all(&[BEGUN]).unwrap();
    let table = options.open_or_create_table(path).unwrap();
    act_until_killed(
        seed,
        || table.shrink(),
        |step| {
            match step.act {
                Act::Put => table.put(step.key, step.tag).unwrap(),
                Act::Update => table.update(step.key, step.tag).unwrap(),
                Act::Remove => table.remove(step.key).unwrap(),
            };
        },
    );
}

/// The states that each key may be in: several where an operation was under way at a kill.
#[derive(Default)]
struct Model(HashMap<u64, Vec<Option<u64>>>);

impl Model {
    fn states(&mut self, key: u64) -> &mut Vec<Option<u64>> {
        self.0.entry(key).or_insert_with(|| vec![None])
    }

    /// Takes in what the process with this seed did before it was killed.
    fn apply(&mut self, seed: u64, acknowledged: &[u8]) {
        for thread in 0..THREADS {
            let acknowledgement = ACKNOWLEDGED + thread as u8;
            let returned = acknowledged.iter().filter(|&&byte| byte == acknowledgement).count();
            for (number, step) in steps(seed, thread).take(returned + 1).enumerate() {
                let states = self.states(step.key);
                let mut after: Vec<_> = states.iter().map(|&state| step.after(state)).collect();
                if number == returned {
                    after.extend(states.iter());
                }
                after.sort_unstable();
                after.dedup();
                *states = after;
            }
        }
    }

    /// Compares with what is there, which then is what counts.
    fn adopt(&mut self, found: &HashMap<u64, u64>) {
        for key in found.keys() {
            assert!(self.0.contains_key(key), "key {key} was never stored");
        }
        for (key, states) in &mut self.0 {
            let state = found.get(key).copied();
            assert!(states.contains(&state), "key {key} is {state:x?}, expected {states:x?}");
            *states = vec![state];
        }
    }
}

/// Opens a store, in which all must be well, and reads it.
fn read_store(path: &Path) -> HashMap<u64, u64> {
    let store = Options::new().open_store(path).unwrap();
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    let mut found = HashMap::new();
    let visit = |key: &[u8], value: &[u8]| {
        let key = u64::from_le_bytes(key.try_into().unwrap());
        assert!(found.insert(key, tag_of(value)).is_none(), "key {key} is there twice");
    };
    store.for_each(visit).unwrap();
    for (key, &tag) in &found {
        assert_eq!(store.get(key.to_le_bytes()).unwrap().as_deref().map(tag_of), Some(tag));
    }
    assert_eq!((store.len(), report.pairs), (found.len() as u64, found.len() as u64));
    found
}

fn read_table(path: &Path) -> HashMap<u64, u64> {
    let table = Options::new().open_table(path).unwrap();
    let report = table.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    let mut found = HashMap::new();
    let visit = |key, tag| {
        assert!(found.insert(key, tag).is_none(), "key {key} is there twice");
    };
    table.for_each(visit).unwrap();
    for (&key, &tag) in &found {
        assert_eq!(table.get(key).unwrap(), Some(tag));
    }
    assert_eq!((table.len(), report.pairs), (found.len() as u64, found.len() as u64));
    found
}

/// What is done to whom.
#[derive(Clone, Copy)]
struct Torture {
    role: &'static str,
    in_directory: fn() -> TempDir,
    read: fn(&Path) -> HashMap<u64, u64>,
    /// Operations after which a process is killed, at most.
    operations_max: u64,
    /// Whether the power fails with each kill: what counts then is checkpoint and log.
    loses_power: bool,
}

impl Torture {
    fn on_all_engines(self) {
        for &engine in Engine::ALL {
            kill_on(engine, self);
        }
    }
}

fn kill_on(engine: Engine, torture: Torture) {
    let Torture { role, in_directory, read, operations_max, loses_power } = torture;
    let directory = in_directory();
    let path = directory.path().join("pool");
    let mut model = Model::default();
    let mut random = Random::new(role.len() as u64);
    let (mut operations, mut expected) = (0u64, 0u64);
    for seed in 1..=effort::of(KILLS, KILLS_USUAL) {
        let mut command = processes::process(role, engine, &path, seed);
        let mut writer = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = writer.stdout.take().unwrap();
        let mut byte = [0];
        while byte != [BEGUN] {
            output.read_exact(&mut byte).unwrap();
        }
        // Some soon, in creation or recovery: a moment that the clock chooses, and nothing depends on.
        // Some after a number of operations, in growth.
        let mut acknowledged = match seed % 3 {
            0 => Vec::new(),
            _ => vec![0; random.below(operations_max) as usize],
        };
        let least = acknowledged.len();
        output.read_exact(&mut acknowledged).unwrap();
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        writer.kill().unwrap();
        writer.wait().unwrap();
        output.read_to_end(&mut acknowledged).unwrap();
        expected += least as u64;
        operations += acknowledged.len() as u64;
        model.apply(seed, &acknowledged);
        let has_checkpoint = places::checkpoint(&path).is_some();
        if loses_power && path.exists() && has_checkpoint {
            std::fs::remove_file(&path).unwrap();
            if seed % 4 != 0 {
                model.adopt(&read(&path));
            }
            continue;
        }
        // Left as it is now and then, the next process recovers it, and may be killed at that.
        if path.exists() && seed % 4 != 0 {
            // Killed early, it may not have opened the pool yet.
            assert!(acknowledged.is_empty() || !firndex::inspect(&path).unwrap().clean);
            model.adopt(&read(&path));
            assert!(firndex::inspect(&path).unwrap().clean);
        } else if !path.exists() {
            assert!(acknowledged.is_empty());
        }
    }
    assert!(operations >= expected && expected > operations_max / 12, "{operations}, {expected}");
    model.adopt(&read(&path));
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_of_pool = name == "pool" || name == "pool.safe";
        assert!(is_of_pool, "{name} was left behind");
    }
}

const STORES: Torture = Torture {
    role: "write store",
    in_directory: places::in_ram,
    read: read_store,
    operations_max: 12_000,
    loses_power: false,
};
const TABLES: Torture = Torture { role: "write table", read: read_table, ..STORES };

#[test]
fn killed_stores_in_memory() {
    STORES.on_all_engines();
}

#[test]
fn killed_stores_on_a_disk() {
    Torture { in_directory: places::on_disk, ..STORES }.on_all_engines();
}

#[test]
fn killed_tables_in_memory() {
    TABLES.on_all_engines();
}

#[test]
fn killed_tables_on_a_disk() {
    Torture { in_directory: places::on_disk, ..TABLES }.on_all_engines();
}

/// Every operation waits until it survives power loss.
const WITHOUT_POWER: Torture = Torture {
    role: "commit store",
    in_directory: places::on_disk,
    operations_max: 1500,
    loses_power: true,
    ..STORES
};

#[test]
fn committed_stores_without_power() {
    WITHOUT_POWER.on_all_engines();
}

#[test]
fn committed_tables_without_power() {
    Torture { role: "commit table", read: read_table, ..WITHOUT_POWER }.on_all_engines();
}
