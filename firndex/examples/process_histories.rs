//! What several processes on one pool were answered, for a judge:
//! `cargo run --release -p firndex --example process_histories`.
//!
//! Three processes with two threads each, an owner and its guests, change and look up three keys. In most rounds one of
//! them is killed at some moment, in every second one the owner. Each call notes when it began, and when it ended and
//! with what. Each line of the output is the history of one key: what `crashlab/porcupine/run --processes` asks
//! porcupine about. The number of rounds is the argument; odd rounds have a table, even ones a store.

use firndex::{Error, Options, Store, Table};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const WORKERS: usize = 3;
const THREADS: usize = 2;
const CALLS: u64 = 60;
const KEYS: u64 = 3;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Values = Vec<Option<u64>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, _, directory, worker, seed] = &arguments[..] {
        return work(Path::new(directory), worker.parse()?, seed.parse()?);
    }
    let rounds: u64 = arguments.get(1).map_or(Ok(4), |text| text.parse())?;
    (0..rounds).try_for_each(play)
}

/// Pseudo-random numbers, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A table or a store.
enum Pool {
    Table(Table<u64, u64>),
    Store(Store),
}

fn bytes(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(1 + value as usize % 40)
}

fn value(found: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&found[..8]);
    let value = u64::from_le_bytes(first);
    assert_eq!(found, bytes(value), "a value in part");
    value
}

impl Pool {
    fn open(directory: &Path, is_table: bool) -> firndex::Result<Pool> {
        let options = Options::new().guests(true).patience(Duration::from_secs(300));
        let path = directory.join("pool");
        Ok(match is_table {
            true => Pool::Table(options.open_or_create_table(path)?),
            false => Pool::Store(options.open_or_create_store(path)?),
        })
    }

    /// Does one call; the state of each key that it found.
    fn call(&self, call: &Call) -> firndex::Result<Values> {
        let (key, new) = (call.keys[0], call.value.unwrap_or(0));
        match self {
            Pool::Table(table) => Ok(match call.action {
                "get" if call.keys.len() > 1 => table.get_many(&call.keys)?,
                "get" => vec![table.get(key)?],
                "insert" => vec![table.insert(key, new)?],
                "update" => vec![table.update(key, new)?],
                "upsert" => vec![table.put(key, new)?],
                "remove" => vec![table.remove(key)?],
                _ => vec![match table.compare_exchange(key, call.expected, call.value)? {
                    Ok(()) => call.expected,
                    Err(found) => found,
                }],
            }),
            Pool::Store(store) => {
                let name = |key: u64| key.to_string();
                let seen = |found: Option<firndex::Record<'_>>| found.map(|found| value(&found));
                Ok(match call.action {
                    "get" if call.keys.len() > 1 => {
                        let names: Vec<String> = call.keys.iter().copied().map(name).collect();
                        store.get_many(&names)?.into_iter().map(seen).collect()
                    }
                    "get" => vec![seen(store.get(name(key))?)],
                    "insert" => vec![seen(store.insert(name(key), bytes(new))?)],
                    "update" => vec![seen(store.update(name(key), bytes(new))?)],
                    "upsert" => vec![seen(store.put(name(key), bytes(new))?)],
                    "remove" => vec![seen(store.remove(name(key))?)],
                    _ => {
                        let (expected, new) = (call.expected.map(bytes), call.value.map(bytes));
                        let exchange =
                            store.compare_exchange(name(key), expected.as_deref(), new.as_deref());
                        vec![match exchange? {
                            Ok(()) => call.expected,
                            Err(found) => seen(found),
                        }]
                    }
                })
            }
        }
    }
}

/// A call, as it is noted before it begins.
struct Call {
    action: &'static str,
    keys: Vec<u64>,
    value: Option<u64>,
    expected: Option<u64>,
}

const ACTIONS: [&str; 6] = ["get", "insert", "update", "upsert", "remove", "exchange"];

/// What every process of the machine takes for the time.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn json(value: Option<u64>) -> String {
    value.map_or("null".into(), |value| value.to_string())
}

/// A process of a round. Its file has a line for each beginning and each end.
fn work(directory: &Path, worker: usize, seed: u64) -> Result<()> {
    let pool = Pool::open(directory, seed % 2 == 1)?;
    let notes = Mutex::new(File::create(directory.join(format!("notes-{worker}")))?);
    let note = |line: String| notes.lock().expect("no thread panics").write_all(line.as_bytes());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (pool, note) = (&pool, &note);
                let thread = worker * THREADS + thread;
                scope.spawn(move || {
                    calls(pool, thread, seed, note).map_err(|error| error.to_string())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    Ok(())
}

fn calls(
    pool: &Pool,
    thread: usize,
    seed: u64,
    note: &dyn Fn(String) -> std::io::Result<()>,
) -> Result<()> {
    let mut random = Random(seed << 8 | thread as u64);
    let mut last = None;
    for number in 0..CALLS {
        let action = ACTIONS[random.below(9).saturating_sub(3) as usize];
        let is_batch = action == "get" && random.below(3) == 0;
        let keys = if is_batch { (0..KEYS).collect() } else { vec![random.below(KEYS)] };
        let new = 1 + thread as u64 * CALLS + number;
        let value = match action {
            "get" | "remove" => None,
            "exchange" => Some(new).filter(|_| random.below(4) > 0),
            _ => Some(new),
        };
        let call = Call { action, keys, value, expected: last };
        let keys: Vec<String> = call.keys.iter().map(u64::to_string).collect();
        let began = now_ns();
        note(format!(
            "{thread} {number} began {began} {action} {} {} {}\n",
            keys.join(","),
            json(value),
            json(call.expected)
        ))?;
        match pool.call(&call) {
            Ok(found) => {
                let ended = now_ns().max(began + 1);
                last = found[0];
                let found: Vec<String> = found.into_iter().map(json).collect();
                note(format!("{thread} {number} ended {ended} {}\n", found.join(",")))?;
            }
            // It was made or not.
            Err(Error::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn start(directory: &Path, worker: usize, seed: u64) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("work").arg(directory).args([worker.to_string(), seed.to_string()]);
    Ok(command.stdin(Stdio::null()).spawn()?)
}

/// One round, whose histories go to the output.
fn play(round: u64) -> Result<()> {
    let directory =
        std::env::temp_dir().join(format!("firndex-histories-{}-{round}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let played = play_in(&directory, round);
    std::fs::remove_dir_all(&directory)?;
    played
}

fn play_in(directory: &Path, round: u64) -> Result<()> {
    // The first one is there before the others, so it is the owner.
    let is_table = round % 2 == 1;
    let mut workers = vec![start(directory, 0, round)?];
    while !directory.join("notes-0").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    for worker in 1..WORKERS {
        workers.push(start(directory, worker, round)?);
    }
    let mut random = Random(round);
    let victim = match round % 4 {
        0 => None,
        1 | 2 => Some(0),
        _ => Some(random.below(WORKERS as u64) as usize),
    };
    if let Some(victim) = victim {
        std::thread::sleep(Duration::from_micros(random.below(4000)));
        workers[victim].kill()?;
    }
    for (worker, child) in workers.iter_mut().enumerate() {
        let ended = child.wait()?;
        if !ended.success() && Some(worker) != victim {
            return Err(format!("round {round}: worker {worker} ended with {ended}").into());
        }
    }
    let pool = Pool::open(directory, is_table)?;
    let all = Call { action: "get", keys: (0..KEYS).collect(), value: None, expected: None };
    let last = pool.call(&all)?;
    let mut histories = vec![Vec::new(); KEYS as usize];
    for worker in 0..WORKERS {
        read_notes(&directory.join(format!("notes-{worker}")), &mut histories)?;
    }
    let mut out = std::io::stdout().lock();
    for (key, (calls, last)) in histories.iter().zip(last).enumerate() {
        writeln!(
            out,
            r#"{{"ID":"round {round}, key {key}","Initial":null,"Calls":[{}],"Final":{},"Allowed":true}}"#,
            calls.join(","),
            json(last)
        )?;
    }
    Ok(())
}

/// Adds the calls of a process to the histories of their keys. Its last lines may be missing, or cut off.
fn read_notes(path: &Path, histories: &mut [Vec<String>]) -> Result<()> {
    // A process that was killed early has none.
    let Ok(file) = File::open(path) else { return Ok(()) };
    let mut begun: Vec<Vec<String>> = Vec::new();
    let mut ended: Vec<Vec<String>> = Vec::new();
    for line in BufReader::new(file).lines() {
        let words: Vec<String> = line?.split(' ').map(str::to_owned).collect();
        match (words.get(2).map(String::as_str), words.len()) {
            (Some("began"), 8) => begun.push(words),
            (Some("ended"), 5) => ended.push(words),
            _ => {}
        }
    }
    for words in begun {
        let [thread, number, _, began, action, keys, value, expected] = &words[..] else {
            continue;
        };
        let end = ended.iter().find(|end| end[0] == *thread && end[1] == *number);
        let found: Vec<&str> = end.map_or(Vec::new(), |end| end[4].split(',').collect());
        for (at, key) in keys.split(',').enumerate() {
            let of_end = match end {
                Some(end) => format!(r#","Return":{},"Found":{}"#, end[3], found[at]),
                // A look-up that was cut off has told nobody anything.
                None if action == "get" => continue,
                None => String::new(),
            };
            histories[key.parse::<usize>()?].push(format!(
                r#"{{"Thread":{thread},"Action":"{action}","Value":{value},"Expected":{expected},"Call":{began}{of_end}}}"#
            ));
        }
    }
    Ok(())
}
