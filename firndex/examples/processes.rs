//! What it costs to use a pool from another process: `cargo run --release -p firndex --example processes -- 1000000`.
//!
//! The program starts itself once more. That process is the owner of a pool in /dev/shm, or in the temporary directory
//! if there is none; this one is its guest. Both do the same, one after the other, on the same pairs, and the owner
//! does it once more on a pool that lets nobody in: *alone*. A round trip through two pipes, between the same
//! processes, is what the system needs to wake a process and hear from it.

use firndex::{Options, Role, Store, Table};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

type Numbers = Table<u64, u64>;

const ROUNDS: usize = 3;
const BATCH: usize = 32;
const VALUE_BYTES: usize = 100;
/// How long the owner is left alone before it is asked: it sleeps by then.
const LEFT_ALONE: Duration = Duration::from_micros(300);
const WAKES: u64 = 500;

fn main() -> firndex::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, _, directory, pairs] = &arguments[..] {
        return own(Path::new(directory), pairs.parse().expect("a number of pairs"));
    }
    let pairs: u64 =
        arguments.get(1).map_or(20_000, |text| text.parse().expect("a number of pairs"));
    let in_memory = Path::new("/dev/shm");
    let parent = if in_memory.is_dir() { in_memory.to_owned() } else { std::env::temp_dir() };
    let directory = parent.join(format!("firndex-processes-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a directory for the pools");
    let result = compare(&directory, pairs);
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
    result
}

/// The owner: measures when it is told to, and echoes what else it is told.
fn own(directory: &Path, pairs: u64) -> firndex::Result<()> {
    let (table, store) = filled(&Options::new().guests(true), directory, "", pairs)?;
    let (alone_table, alone_store) = filled(&Options::new(), directory, "alone-", pairs)?;
    println!("ready");
    let mut told = [0];
    while std::io::stdin().read_exact(&mut told).is_ok() {
        let rates = match &told {
            b"m" => measure(&table, &store, pairs)?.to_vec(),
            b"a" => measure(&alone_table, &alone_store, pairs)?.to_vec(),
            _ => Vec::new(),
        };
        println!("{}", rates.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
    }
    for table in [table, alone_table] {
        table.close()?;
    }
    store.close()?;
    alone_store.close()
}

/// New pools with so many pairs.
fn filled(
    options: &Options,
    directory: &Path,
    prefix: &str,
    pairs: u64,
) -> firndex::Result<(Numbers, Store)> {
    let table: Numbers = options.create_table(directory.join(format!("{prefix}table")))?;
    let store = options.create_store(directory.join(format!("{prefix}store")))?;
    for key in 0..pairs {
        table.put(key, key)?;
        store.put(name(key), [key as u8; VALUE_BYTES])?;
    }
    Ok((table, store))
}

const ROWS: [&str; 9] = [
    "table: get",
    "table: get, absent",
    "table: get_many of 32",
    "table: put",
    "table: put_many of 32",
    "store: get",
    "store: get_owned",
    "store: get_many of 32",
    "store: put",
];

fn name(key: u64) -> [u8; 16] {
    let mut name = *b"0123456789abcdef";
    name[..8].copy_from_slice(&key.to_le_bytes());
    name
}

fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> firndex::Result<()> {
    assert_eq!(found, expected);
    Ok(())
}

/// Nanoseconds of each row's operation. Each answer is compared.
fn measure(table: &Numbers, store: &Store, pairs: u64) -> firndex::Result<[f64; ROWS.len()]> {
    let key = |turn: u64| turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % pairs;
    let time = |work: &dyn Fn(u64) -> firndex::Result<()>, step: usize| {
        let began = Instant::now();
        for turn in (0..pairs).step_by(step) {
            work(turn)?;
        }
        firndex::Result::Ok(began.elapsed().as_nanos() as f64 / pairs as f64)
    };
    let keys = |turn: u64| -> [u64; BATCH] { std::array::from_fn(|at| key(turn + at as u64)) };
    Ok([
        time(&|turn| same(table.get(key(turn))?, Some(key(turn))), 1)?,
        time(&|turn| same(table.get(pairs + turn)?, None), 1)?,
        time(&|turn| same(table.get_many(&keys(turn))?, keys(turn).map(Some).to_vec()), BATCH)?,
        time(&|turn| same(table.put(key(turn), key(turn))?, Some(key(turn))), 1)?,
        time(
            &|turn| {
                let pairs = keys(turn).map(|key| (key, key));
                same(table.put_many(&pairs)?, keys(turn).map(Some).to_vec())
            },
            BATCH,
        )?,
        time(
            &|turn| {
                let found = store.get(name(key(turn)))?.expect("it was put");
                same(&*found, &[key(turn) as u8; VALUE_BYTES])
            },
            1,
        )?,
        time(
            &|turn| {
                let found = store.get_owned(name(key(turn)))?.expect("it was put");
                same(&*found, &[key(turn) as u8; VALUE_BYTES])
            },
            1,
        )?,
        time(
            &|turn| {
                let names = keys(turn).map(name);
                for (found, key) in store.get_many(&names)?.into_iter().zip(keys(turn)) {
                    assert_eq!(*found.expect("it was put"), [key as u8; VALUE_BYTES]);
                }
                Ok(())
            },
            BATCH,
        )?,
        time(&|turn| store.put(name(key(turn)), [key(turn) as u8; VALUE_BYTES]).map(drop), 1)?,
    ])
}

fn compare(directory: &Path, pairs: u64) -> firndex::Result<()> {
    let program = std::env::current_exe().expect("this program's own file");
    let mut owner = Command::new(program)
        .args([Path::new("own"), directory])
        .arg(pairs.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program once more");
    let told = owner.stdin.take().expect("a pipe");
    let said = BufReader::new(owner.stdout.take().expect("a pipe"));
    let result = compare_with(told, said, directory, pairs);
    assert!(owner.wait().expect("the owner ends").success());
    result
}

/// As [`compare`], beside an owner that hears and speaks through these.
fn compare_with(
    mut told: ChildStdin,
    mut said: BufReader<ChildStdout>,
    directory: &Path,
    pairs: u64,
) -> firndex::Result<()> {
    let mut hear = |told: Option<(&mut ChildStdin, &[u8])>| {
        let mut line = String::new();
        told.map_or(Ok(()), |(told, what)| told.write_all(what)).expect("the owner hears");
        said.read_line(&mut line).expect("the owner speaks");
        line
    };
    assert_eq!(hear(None), "ready\n");
    let table: Numbers = Table::open(directory.join("table"))?;
    let store = Store::open(directory.join("store"))?;
    assert_eq!((table.role(), store.role()), (Role::Guest, Role::Guest));
    // Of who is alone, of the owner, of the guest.
    let mut all = [[[0.0; ROUNDS]; ROWS.len()]; 3];
    let mut wakes = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (which, measured) in [b"a", b"m"].iter().zip(&mut all) {
            let line = hear(Some((&mut told, *which)));
            let rates = line.split_whitespace().map(|rate| rate.parse::<f64>().expect("a number"));
            rates.enumerate().for_each(|(row, rate)| measured[row][round] = rate);
        }
        let rates = measure(&table, &store, pairs)?;
        rates.into_iter().enumerate().for_each(|(row, rate)| all[2][row][round] = rate);
        for turn in 0..WAKES {
            std::thread::sleep(LEFT_ALONE);
            let began = Instant::now();
            assert_eq!(table.put(turn % pairs, turn % pairs)?, Some(turn % pairs));
            wakes[0].push(began.elapsed());
            std::thread::sleep(LEFT_ALONE);
            let began = Instant::now();
            hear(Some((&mut told, b"e")));
            wakes[1].push(began.elapsed());
        }
    }
    println!(
        "{:24} {:>7} {:>7} {:>6} {:>7} {:>6}",
        "median of 3, ns", "alone", "owner", "ratio", "guest", "ratio"
    );
    for (row, what) in ROWS.iter().enumerate() {
        let [alone, own, guest] = all.map(|mut rates| {
            rates[row].sort_by(f64::total_cmp);
            rates[row][ROUNDS / 2]
        });
        let [of_alone, of_own] = [alone / own, own / guest];
        println!("{what:24} {alone:7.0} {own:7.0} {of_alone:6.2} {guest:7.0} {of_own:6.2}");
    }
    let [put, pipes] = &mut wakes;
    for (what, times) in [("put, owner asleep", put), ("two pipes", pipes)] {
        times.sort();
        let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e6;
        println!("{what:24} median {:5.1}, 99 % {:6.1} µs", at(50), at(99));
    }
    Ok(())
}
