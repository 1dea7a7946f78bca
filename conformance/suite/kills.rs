//! Processes killed with SIGKILL while they write to a mapped file.
//!
//! The test starts its own binary again, to run [`process_to_be_killed`] alone, kills it at a random moment and judges
//! what is in the file. A second mapped file tells what had returned: each writer counts the operations that it has
//! begun and those that have returned. Operations follow from their number, so the test can replay them.

use crate::harness::{Engine, FileBacking, Random, Setup, within};
use index::Index;
use pmem::file::{Access, PoolFile};
use pmem::medium::{Mapped, Memory};
use pmem::{Medium, Offset, OpenError, Pool};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use workload::effort;

/// Tells the process that will be killed what to do: mode and directory.
const ORDERS: &str = "FIRNDEX_TEST_PROCESS_TO_BE_KILLED";
const WRITERS: usize = 2;
/// Held while one of these tests runs. A child that another test has forked has copies of this process's descriptors
/// until it comes to its `exec`. With them it has the locks on pool files that this process believes it has closed.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Bytes to which pools may grow.
const LIMIT_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Create,
    Grow,
    Steady,
}

impl Mode {
    const ALL: [(Mode, &str); 3] =
        [(Mode::Create, "create"), (Mode::Grow, "grow"), (Mode::Steady, "steady")];

    fn name(self) -> &'static str {
        Mode::ALL.iter().find(|(mode, _)| *mode == self).expect("all are listed").1
    }

    fn named(name: &str) -> Mode {
        Mode::ALL.iter().find(|(_, known)| *known == name).expect("a known mode").0
    }
}

/// The number of operations that each writer has begun and that have returned, in a mapped file.
struct Progress(Mapped);

impl Progress {
    fn open(directory: &Path) -> Progress {
        let path = directory.join("progress");
        let file =
            std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.expect("a file for the progress");
        let size = file.metadata().expect("a file").len();
        let medium = Memory::mapped(file, size, 4096, true).expect("the progress is mapped");
        medium.grow(4096).expect("a page");
        Progress(medium)
    }

    fn begun(writer: usize) -> Offset {
        Offset(128 * writer as u64)
    }

    fn returned(writer: usize) -> Offset {
        Progress::begun(writer).word(1)
    }

    fn set(&self, at: Offset, count: u64) {
        self.0.store_release(at, count);
    }

    fn get(&self, at: Offset) -> u64 {
        self.0.load(at)
    }
}

fn setup(engine: &'static Engine, variant: usize) -> Setup {
    Setup { variant, limit_bytes: LIMIT_BYTES, ..Setup::of(engine) }
}

/// An open table in a pool file, created first if there is none.
struct FileTable {
    index: Box<dyn Index<u64, u64>>,
    pool: Arc<Pool<Mapped>>,
    _file: PoolFile,
}

impl FileTable {
    fn create(path: &Path, setup: Setup) -> Result<Self, OpenError> {
        let mut file = PoolFile::create(path)?;
        let spec = setup.spec();
        let pool = Arc::new(Pool::create(file.mapped(0, LIMIT_BYTES)?, &spec, file.place())?);
        let index = setup.engine.open(Arc::clone(&pool), setup.settings())?;
        file.publish()?;
        Ok(FileTable { index, pool, _file: file })
    }

    fn open(path: &Path, setup: Setup) -> Result<Self, OpenError> {
        let (file, superblock) = PoolFile::open(path, Access::Write)?;
        let medium = file.mapped(superblock.end, LIMIT_BYTES)?;
        let pool = Arc::new(Pool::open(medium, file.place())?);
        let index = setup.engine.open(Arc::clone(&pool), setup.settings())?;
        Ok(FileTable { index, pool, _file: file })
    }

    fn pairs(&self) -> HashMap<u64, u64> {
        let mut pairs = HashMap::new();
        self.index
            .for_each(&mut |key, value| {
                assert_eq!(pairs.insert(key, value), None, "key {key:#x} twice");
            })
            .unwrap();
        pairs
    }

    fn perform(&self, operation: &Operation) {
        let _write = self.pool.write().expect("the pool may be written");
        let done = match operation {
            &Operation::Insert(key, value) => self.index.insert(key, value).map(drop),
            &Operation::Update(key, value) => self.index.update(key, value).map(drop),
            &Operation::Remove(key) => self.index.remove(key).map(drop),
            Operation::UpsertMany(pairs) => {
                let upserted = self.index.upsert_many(pairs, &mut vec![None; pairs.len()]);
                upserted.map_err(index::Error::from)
            }
        };
        done.expect("there is space");
    }
}

enum Operation {
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    UpsertMany(Vec<(u64, u64)>),
}

impl Operation {
    /// Operation `number` of a writer.
    fn numbered(mode: Mode, writer: usize, number: u64) -> Operation {
        let mut random = Random::new((writer as u64) << 48 | number);
        let key_of = |index: u64| index << 1 | writer as u64;
        let any = match mode {
            Mode::Grow => number + 1,
            Mode::Create | Mode::Steady => 400,
        };
        let value = random.word();
        let key = key_of(random.below(any));
        match (random.below(10), mode) {
            (0..6, Mode::Grow) => Operation::Insert(key_of(number), value),
            (0..4, _) => Operation::Insert(key, value),
            (4 | 5, _) => Operation::Update(key, value),
            (6, Mode::Grow) | (6 | 7, _) => Operation::Remove(key),
            _ => {
                let from = random.below(any);
                Operation::UpsertMany(
                    (from..from + 20).map(|index| (key_of(index), value ^ index)).collect(),
                )
            }
        }
    }

    /// The keys that it sets, and their new states, given the present ones.
    fn effects(&self, state: impl Fn(u64) -> Option<u64>) -> Vec<(u64, Option<u64>)> {
        match self {
            &Operation::Insert(key, value) => vec![(key, state(key).or(Some(value)))],
            &Operation::Update(key, value) => vec![(key, state(key).map(|_| value))],
            &Operation::Remove(key) => vec![(key, None)],
            Operation::UpsertMany(pairs) => pairs.iter().map(|&(k, v)| (k, Some(v))).collect(),
        }
    }
}

/// What the killed process does; nothing if this process is not to be killed.
pub(crate) fn process_to_be_killed<B: FileBacking>(engine: &'static Engine) {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let (mode, directory) = orders.split_once(':').expect("mode and directory");
    let directory = PathBuf::from(directory);
    let progress = Progress::open(&directory);
    // The process that will kill this one holds the other end. If it is gone, this process ends, too.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    if Mode::named(mode) == Mode::Create {
        create_pools(engine, &directory, &progress);
    } else {
        write_on(engine, Mode::named(mode), &directory, &progress);
    }
}

fn create_pools(engine: &'static Engine, directory: &Path, progress: &Progress) {
    let (begun, returned) = (Progress::begun(0), Progress::returned(0));
    let mut number = progress.get(begun);
    loop {
        progress.set(begun, number + 1);
        let table = FileTable::create(
            &directory.join(format!("pool-{number}")),
            setup(engine, number as usize % 2),
        )
        .expect("a pool is made");
        table.perform(&Operation::Insert(number, !number));
        progress.set(returned, number + 1);
        number += 1;
    }
}

fn write_on(engine: &'static Engine, mode: Mode, directory: &Path, progress: &Progress) {
    let table =
        FileTable::open(&directory.join("pool"), setup(engine, 0)).expect("the pool is opened");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let table = &table;
            scope.spawn(move || {
                let (begun, returned) = (Progress::begun(writer), Progress::returned(writer));
                let mut number = progress.get(begun);
                loop {
                    progress.set(begun, number + 1);
                    table.perform(&Operation::numbered(mode, writer, number));
                    progress.set(returned, number + 1);
                    number += 1;
                }
            });
        }
    });
}

/// A running process, killed at the latest when dropped.
struct Victim(Child);

impl Victim {
    /// Starts the process, which runs the sibling of the calling test.
    fn start(mode: Mode, directory: &Path) -> Victim {
        let this_test =
            std::thread::current().name().expect("tests run in named threads").to_owned();
        let (theme, _) = this_test.rsplit_once("::").expect("a test in a module");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--nocapture", "--exact", &format!("{theme}::process_to_be_killed")])
            .env(ORDERS, format!("{}:{}", mode.name(), directory.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        Victim(command.spawn().expect("the process is started"))
    }

    /// Waits until a condition holds that the process is sure to reach.
    fn wait_until(&mut self, is_so: impl Fn() -> bool) {
        while !is_so() {
            self.assert_lives();
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn assert_lives(&mut self) {
        assert_eq!(self.0.try_wait().expect("a child"), None, "the process ended by itself");
    }

    fn kill(mut self) {
        self.assert_lives();
        self.0.kill().expect("the process is killed");
        self.0.wait().expect("the process has ended");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process, waits until it is under way, and kills it a little later.
fn run_and_kill(mode: Mode, directory: &Path, progress: &Progress, random: &mut Random) {
    let writers = if mode == Mode::Create { 1 } else { WRITERS };
    let begun = || (0..writers).map(|writer| progress.get(Progress::begun(writer))).sum::<u64>();
    let before = begun();
    let mut victim = Victim::start(mode, directory);
    // Some are killed early, perhaps in recovery, most of them later.
    if random.percent(80) {
        let most = if mode == Mode::Create { 6 } else { 3000 };
        let further = 1 + random.below(most);
        victim.wait_until(|| begun() >= before + further);
    }
    // So that kills hit different places. How long this takes does not matter.
    std::thread::sleep(Duration::from_micros(random.below(3000)));
    victim.kill();
}

fn directory<B: FileBacking>() -> tempfile::TempDir {
    tempfile::tempdir_in(B::directory()).expect("a temporary directory")
}

pub(crate) fn killed_while_creating<B: FileBacking>(engine: &'static Engine) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = within(120);
    let directory = directory::<B>();
    let progress = Progress::open(directory.path());
    let mut random = Random::new(1);
    let mut from = 0;
    for _ in 0..effort::of(12, 6) {
        run_and_kill(Mode::Create, directory.path(), &progress, &mut random);
        let (begun, returned) =
            (progress.get(Progress::begun(0)), progress.get(Progress::returned(0)));
        for number in from..begun {
            let path = directory.path().join(format!("pool-{number}"));
            match FileTable::open(&path, setup(engine, 0)) {
                Ok(table) => {
                    let pairs = table.pairs();
                    let whole = HashMap::from([(number, !number)]);
                    let is_partial = number >= returned && pairs.is_empty();
                    assert!(is_partial || pairs == whole, "pool {number}: {pairs:?}");
                    assert!(table.index.check().is_sound());
                    table.perform(&Operation::Insert(5000, 1));
                }
                Err(OpenError::Missing { .. }) if number >= returned => {}
                Err(error) => panic!("pool {number} of {returned}: {error}"),
            }
        }
        from = begun;
    }
    assert!(from >= 10, "only {from} pools were begun");
}

pub(crate) fn killed_while_growing<B: FileBacking>(engine: &'static Engine) {
    killed_while_writing::<B>(engine, Mode::Grow);
}

pub(crate) fn killed_in_a_steady_state<B: FileBacking>(engine: &'static Engine) {
    killed_while_writing::<B>(engine, Mode::Steady);
}

fn killed_while_writing<B: FileBacking>(engine: &'static Engine, mode: Mode) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = within(120);
    let directory = directory::<B>();
    let path = directory.path().join("pool");
    let progress = Progress::open(directory.path());
    drop(FileTable::create(&path, setup(engine, 0)).expect("a pool is made"));
    let mut random = Random::new(2);
    let mut model = HashMap::new();
    let mut done = [0; WRITERS];
    for kill in 0..effort::of(15, 5) {
        run_and_kill(mode, directory.path(), &progress, &mut random);
        let table = FileTable::open(&path, setup(engine, 0)).expect("what was killed is recovered");
        let mut either = HashMap::new();
        for (writer, done) in done.iter_mut().enumerate() {
            let begun = progress.get(Progress::begun(writer));
            let returned = progress.get(Progress::returned(writer));
            assert!(returned <= begun && begun <= returned.max(*done) + 1);
            for number in *done..begun {
                let operation = Operation::numbered(mode, writer, number);
                let effects = operation.effects(|key| model.get(&key).copied());
                if number >= returned {
                    either.extend(effects);
                    continue;
                }
                for (key, state) in effects {
                    match state {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
            }
            // The next process goes on from here, whatever became of the last operation.
            progress.set(Progress::returned(writer), begun);
            *done = begun;
        }
        let pairs = table.pairs();
        for (&key, &value) in &model {
            let found = pairs.get(&key).copied();
            assert!(
                found == Some(value) || either.get(&key) == Some(&found),
                "kill {kill}: key {key:#x} is {found:x?}, but {value:x} had been returned"
            );
        }
        for (&key, &value) in &pairs {
            let is_known = model.get(&key) == Some(&value);
            assert!(
                is_known || either.get(&key) == Some(&Some(value)),
                "kill {kill}: key {key:#x}"
            );
            assert_eq!(table.index.get(key), Some(value));
        }
        let report = table.index.check();
        assert!(report.is_sound(), "kill {kill}: {:#?}", report.findings);
        model = pairs;
    }
    assert!(done.iter().sum::<u64>() > 1000, "operations: {done:?}");
}
