//! What others notice when a process ends by SIGKILL: `cargo run --release -p firndex --example takeover -- 1000000`.
//!
//! The program starts itself: as the owner of a table of so many pairs in /dev/shm, or in the temporary directory if
//! there is none, and as a guest that changes it. This process is a guest, too. It times
//!
//! * its longest call after the other guest was killed;
//! * its first change after the owner was killed: it opens the table for that, and is the owner;
//! * opening the table, and a first change, after a kill with no guest beside: what anybody pays.

use firndex::{Options, Role, Table};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Numbers = Table<u64, u64>;

const ROUNDS: usize = 3;
const GUESTS_KILLED: usize = 50;
/// How long calls are timed after a guest was killed.
const TIMED: Duration = Duration::from_millis(20);
const BATCH: u64 = 1 << 16;

fn main() -> firndex::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    match &arguments[1..] {
        [role, path, pairs] if role == "own" => own(Path::new(path), number(pairs)),
        [role, path] if role == "change" => change(Path::new(path)),
        [] => measure(20_000),
        [pairs] => measure(number(pairs)),
        _ => panic!("one argument is expected: a number of pairs"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number of pairs")
}

/// Opens or fills the table, and waits to be killed.
fn own(path: &Path, pairs: u64) -> firndex::Result<()> {
    let table: Numbers = Options::new().guests(true).open_or_create_table(path)?;
    for first in (table.len()..pairs).step_by(BATCH as usize) {
        let batch: Vec<(u64, u64)> =
            (first..pairs.min(first + BATCH)).map(|key| (key, key)).collect();
        table.put_many(&batch)?;
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// A guest that makes changes until it is killed.
fn change(path: &Path) -> firndex::Result<()> {
    let table = Numbers::open(path)?;
    println!("ready");
    for key in (0..1000).cycle() {
        table.put(key, key)?;
    }
    Ok(())
}

/// A process that is killed when this is dropped.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().expect("a process of this one's");
        self.0.wait().expect("it ends");
    }
}

/// This program in another role, which is ready.
fn start(role: &str, path: &Path, pairs: Option<u64>) -> Victim {
    let program = std::env::current_exe().expect("this program's own file");
    let mut command = Command::new(program);
    command.arg(role).arg(path).args(pairs.map(|pairs| pairs.to_string()));
    let child = command.stdout(Stdio::piped()).spawn().expect("this program once more");
    let mut victim = Victim(child);
    let mut said = String::new();
    let out = victim.0.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut said).expect("it speaks");
    assert_eq!(said, "ready\n");
    victim
}

fn measure(pairs: u64) -> firndex::Result<()> {
    let in_memory = Path::new("/dev/shm");
    let parent = if in_memory.is_dir() { in_memory.to_owned() } else { std::env::temp_dir() };
    let directory = parent.join(format!("firndex-takeover-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a directory for the pool");
    let result = measure_in(&directory.join("table"), pairs);
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
    result
}

fn measure_in(path: &Path, pairs: u64) -> firndex::Result<()> {
    let owner = start("own", path, Some(pairs));
    let table = Numbers::open(path)?;
    assert_eq!(table.role(), Role::Guest);
    let mut longest = Vec::new();
    for _ in 0..GUESTS_KILLED {
        drop(start("change", path, None));
        longest.push(longest_call(&table)?);
    }
    print("longest call after a guest was killed", longest);
    table.close()?;
    drop(owner);

    let (mut taken_over, mut opened) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let owner = start("own", path, Some(pairs));
        let table: Numbers = Options::new().guests(true).open_table(path)?;
        assert_eq!(table.put(1, 1)?, Some(1));
        drop(owner);
        let began = Instant::now();
        assert_eq!(table.put(2, 2)?, Some(2));
        taken_over.push(began.elapsed());
        assert_eq!((table.role(), table.len()), (Role::Owner, pairs));
        table.close()?;

        drop(start("own", path, Some(pairs)));
        let began = Instant::now();
        let table = Numbers::open(path)?;
        assert_eq!(table.put(2, 2)?, Some(2));
        opened.push(began.elapsed());
        table.close()?;
    }
    print("first change after the owner was killed", taken_over);
    print("opening after a kill, and a change", opened);
    Ok(())
}

/// The longest of some calls, of which each changes a pair and looks at another.
fn longest_call(table: &Numbers) -> firndex::Result<Duration> {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    for key in (0..1000).cycle() {
        let called = Instant::now();
        if called - began >= TIMED {
            break;
        }
        table.put(key, key)?;
        assert_eq!(table.get(key)?, Some(key));
        longest = longest.max(called.elapsed());
    }
    Ok(longest)
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (median, most) = (ms(times[times.len() / 2]), ms(times[times.len() - 1]));
    println!("{what:40} median {median:8.2} ms, most {most:8.2} ms");
}
