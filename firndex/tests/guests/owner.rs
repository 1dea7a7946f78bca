//! Owners of pools, in processes of their own.

use firndex::{Cache, Durability, Engine, Options, Store, Table};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const ROLE: &str = "FIRNDEX_GUESTS_ROLE";
const PATH: &str = "FIRNDEX_GUESTS_PATH";
const ENGINE: &str = "FIRNDEX_GUESTS_ENGINE";
const DURABILITY: &str = "FIRNDEX_GUESTS_DURABILITY";

/// Longer than anything takes that is to come: a test that waits for it has failed.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(300);

/// What a process opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Store,
    Words,
    /// Keys of 16 and values of 24 bytes.
    Wide,
    /// Of [`CACHE_BYTES`].
    Cache,
}

pub(crate) const CACHE_BYTES: u64 = 4 << 20;

pub(crate) type WideKey = [u8; 16];
pub(crate) type WideValue = [u64; 3];

/// An engine that takes such pairs.
pub(crate) fn wide_engine() -> Engine {
    let takes = |engine: &&Engine| engine.description().pair_bytes_max >= 40;
    *Engine::ALL.iter().find(takes).unwrap()
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Store => "store",
            Kind::Words => "words",
            Kind::Wide => "wide",
            Kind::Cache => "cache",
        }
    }
}

/// A process that has a pool open; it is killed when dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// Open, for what it says later.
    _output: Lines<BufReader<ChildStdout>>,
}

/// The options of a guest that waits as long as it takes.
pub(crate) fn patient() -> Options {
    Options::new().patience(FOR_EVER)
}

impl Process {
    /// Opens or creates a pool, whose other processes are to be its guests, and lets them in.
    pub(crate) fn owner(
        kind: Kind,
        path: &Path,
        engine: Engine,
        durability: Durability,
    ) -> Process {
        let process = Process::start(kind, path, engine, durability);
        assert_eq!(process.1, "owner");
        process.0
    }

    /// The same of a process that may become either; its role.
    pub(crate) fn start(
        kind: Kind,
        path: &Path,
        engine: Engine,
        durability: Durability,
    ) -> (Process, String) {
        let mut command = role(kind.name(), path);
        command.env(ENGINE, engine.name()).env(DURABILITY, durability.name());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = said.find_map(|line| Some(line.unwrap().split_once("is the ")?.1.to_owned()));
        let role = line.expect("the process has said what it is");
        let input = child.stdin.take();
        (Process { child, input, _output: said }, role)
    }

    pub(crate) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Has it close the pool, which must go well.
    pub(crate) fn close(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the process is this one's child, and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    if let Some(numbers) = role.strip_prefix("add ") {
        return add(&path, numbers);
    }
    if let Some(worker) = role.strip_prefix("work ") {
        return crate::torture::work::<Store>(&path, worker.parse().unwrap());
    }
    if let Some(worker) = role.strip_prefix("cache ") {
        return crate::torture::work::<Cache>(&path, worker.parse().unwrap());
    }
    if let Some(round) = role.strip_prefix("put ") {
        return put(&path, round);
    }
    if role == "fill" {
        return fill(&path);
    }
    if role == "outlive" {
        return crate::ends::outlive(&path);
    }
    if role == "churn" {
        return churn(&path);
    }
    let engine: Engine = std::env::var(ENGINE).unwrap().parse().unwrap();
    let durability = std::env::var(DURABILITY).unwrap();
    let durability = Durability::ALL.iter().find(|one| one.name() == durability).unwrap();
    let options = patient().engine(engine).guests(true).durability(*durability);
    match role.as_str() {
        "store" => {
            let store: Store = options.open_or_create_store(&path).unwrap();
            wait(&store);
            store.close().unwrap();
        }
        "words" => {
            let table: Table = options.open_or_create_table(&path).unwrap();
            wait(&table);
            table.close().unwrap();
        }
        "wide" => {
            let table: Table<WideKey, WideValue> = options.open_or_create_table_of(&path).unwrap();
            wait(&table);
            table.close().unwrap();
        }
        "cache" => {
            let cache = options.open_or_create_cache(&path, CACHE_BYTES).unwrap();
            wait(&cache);
            cache.close().unwrap();
        }
        other => panic!("no role is called {other}"),
    }
}

/// Says that the pool is open, and waits for the end of the input.
fn wait(pool: &firndex::Pool) {
    let mut out = std::fs::File::options().write(true).open("/proc/self/fd/1").unwrap();
    let role = format!("{:?}", pool.role()).to_lowercase();
    writeln!(out, "\nthis is the {role}").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A process that plays a role at a path.
pub(crate) fn role(role: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "role", "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    command.env(ROLE, role).env(PATH, path);
    command
}

/// A process that does something and ends; it is killed when dropped.
pub(crate) struct Helper(Child);

impl Helper {
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    pub(crate) fn has_succeeded(&mut self) -> bool {
        self.0.wait().unwrap().success()
    }

    /// What it says, if that is wanted.
    pub(crate) fn said(&mut self) -> ChildStdout {
        self.0.stdout.take().unwrap()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Threads of an [`adder`].
pub(crate) const ADDER_THREADS: u64 = 3;

/// A guest whose threads each add one to counters so many times.
pub(crate) fn adder(path: &Path, counters: u64, times: u64) -> Helper {
    Helper(role(&format!("add {counters} {times}"), path).spawn().unwrap())
}

fn add(path: &Path, numbers: &str) {
    let (counters, times) = numbers.split_once(' ').unwrap();
    let (counters, times): (u64, u64) = (counters.parse().unwrap(), times.parse().unwrap());
    let table: Table<u64, u64> = patient().never_own(true).open_table(path).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..ADDER_THREADS {
            scope.spawn(|| {
                for turn in 0..times {
                    table.modify(turn % counters, |sum| Some(sum.unwrap_or(0) + 1)).unwrap();
                }
            });
        }
    });
}

/// A guest that fills a pool with a limit.
pub(crate) fn filler(path: &Path) -> Helper {
    Helper(role("fill", path).spawn().unwrap())
}

fn fill(path: &Path) {
    let table: Table<u64, u64> = patient().never_own(true).open_table(path).unwrap();
    let refused = (0..).find_map(|key| table.put(key, key).err()).unwrap();
    assert!(matches!(refused, firndex::Error::PoolFull(_)), "{refused:?}");
    assert!(refused.to_string().contains("max_bytes"), "{refused}");
    let pairs: Vec<(u64, u64)> = (1 << 32..(1 << 32) + 5000).map(|key| (key, key)).collect();
    let before = table.len();
    let failed = table.put_many(&pairs).unwrap_err();
    assert!(matches!(failed.error(), firndex::Error::PoolFull(_)), "{failed:?}");
    assert_eq!(table.len(), before + failed.done() as u64);
    for (at, (key, value)) in pairs.iter().enumerate() {
        assert_eq!(table.get(*key).unwrap(), failed.is_done(at).then_some(*value));
    }
}

/// Keys of a [`churner`].
pub(crate) const CHURNED_KEYS: u64 = 40;

/// A guest that replaces and removes values, over and over.
pub(crate) fn churner(path: &Path) -> Helper {
    Helper(role("churn", path).spawn().unwrap())
}

/// What it stores under a key; the value's first byte tells which of its values it is.
pub(crate) fn churned(key: &str, number: u8) -> Vec<u8> {
    vec![number; 1 + usize::from(number) * (1 + key.len() % 3)]
}

fn churn(path: &Path) {
    let store = patient().never_own(true).open_store(path).unwrap();
    for turn in 0..400u64 {
        for number in 0..CHURNED_KEYS {
            let key = number.to_string();
            match (turn + number) % 7 {
                0 => drop(store.remove(&key).unwrap()),
                _ => {
                    let value = churned(&key, (turn * 31 + number * 7) as u8);
                    store.put(&key, value).unwrap();
                }
            }
        }
    }
}

/// What a [`putter`] puts.
pub(crate) const PUTS: u64 = 3000;

/// A guest that puts pairs one after the other and says so.
pub(crate) fn putter(path: &Path, round: u64) -> Helper {
    Helper(role(&format!("put {round}"), path).stdout(Stdio::piped()).spawn().unwrap())
}

fn put(path: &Path, round: &str) {
    let mut out = std::fs::File::options().write(true).open("/proc/self/fd/1").unwrap();
    writeln!(out).unwrap();
    let store = patient().open_store(path).unwrap();
    for key in 0..PUTS {
        let key = format!("of the guest {round} {key}");
        // One that may have been done or not is done again.
        while store.put(&key, [3; 50]).is_err_and(|error| {
            assert!(matches!(error, firndex::Error::Interrupted), "{error:?}");
            true
        }) {}
        writeln!(out, "put {key}").unwrap();
    }
    store.close().unwrap();
}
