//! A guest of a firndex pool beside LMDB, with one writing process: `peers/run --example processes -- 1000000`.
//!
//! Keys of 16 and values of 100 bytes, in /dev/shm. The program starts itself once more, as the owner of the store;
//! this process is its guest. LMDB has this process alone, no sync, and a transaction for each call. Answers are
//! compared.

use anyhow::{Context, Result, ensure};
use firndex::{Options, Role, Store};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 3;
const VALUE_BYTES: usize = 100;
const ROWS: [&str; 3] = ["put, present", "get, present", "get, absent"];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, _, path] = &arguments[..] {
        return own(Path::new(path));
    }
    let pairs: u64 = arguments.get(1).map_or(Ok(100_000), |text| text.parse())?;
    let directory = tempfile::tempdir_in("/dev/shm")?;
    let path = directory.path().join("store");
    let mut owner = Command::new(std::env::current_exe()?)
        .args([Path::new("own"), &path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(owner.stdout.take().context("a pipe")?).read_line(&mut line)?;
    ensure!(line == "ready\n", "the owner said {line:?}");
    let store = Store::open(&path)?;
    ensure!(store.role() == Role::Guest, "this process is the owner");
    let lmdb = Lmdb::open(&directory.path().join("lmdb"))?;
    for key in 0..pairs {
        store.put(name(key), value(key))?;
        lmdb.put(&name(key), &value(key))?;
    }
    let mut times = [[[0.0; ROUNDS]; 2]; ROWS.len()];
    for round in 0..ROUNDS {
        let of_store = measure(
            pairs,
            |key, value| Ok(store.put(key, value).map(drop)?),
            |key, see| Ok(see(store.get(key)?.as_deref())),
        )?;
        let of_lmdb =
            measure(pairs, |key, value| lmdb.put(key, value), |key, see| lmdb.get(key, see))?;
        for (row, both) in of_store.into_iter().zip(of_lmdb).enumerate() {
            (times[row][0][round], times[row][1][round]) = both;
        }
    }
    println!("{:16} {:>8} {:>8} {:>7}", "median of 3, ns", "guest", "lmdb", "ratio");
    for (what, mut rounds) in ROWS.iter().zip(times) {
        rounds.iter_mut().for_each(|rounds| rounds.sort_by(f64::total_cmp));
        let [guest, lmdb] = rounds.map(|rounds| rounds[ROUNDS / 2]);
        println!("{what:16} {guest:8.0} {lmdb:8.0} {:7.1}", lmdb / guest);
    }
    drop(owner.stdin.take());
    ensure!(owner.wait()?.success(), "the owner ended otherwise");
    Ok(())
}

fn own(path: &Path) -> Result<()> {
    let store = Options::new().guests(true).create_store(path)?;
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(store.close()?)
}

fn name(key: u64) -> [u8; 16] {
    let mut name = *b"0123456789abcdef";
    name[..8].copy_from_slice(&key.to_le_bytes());
    name
}

fn value(key: u64) -> [u8; VALUE_BYTES] {
    [key as u8; VALUE_BYTES]
}

/// Nanoseconds of each row's call.
fn measure(
    pairs: u64,
    put: impl Fn(&[u8], &[u8]) -> Result<()>,
    get: impl Fn(&[u8], &mut dyn FnMut(Option<&[u8]>)) -> Result<()>,
) -> Result<[f64; ROWS.len()]> {
    let key = |turn: u64| turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % pairs;
    let time = |work: &dyn Fn(u64) -> Result<()>| {
        let began = Instant::now();
        for turn in 0..pairs {
            work(turn)?;
        }
        Ok::<_, anyhow::Error>(began.elapsed().as_nanos() as f64 / pairs as f64)
    };
    let demand = |at: u64, expected: Option<[u8; VALUE_BYTES]>| {
        let mut is_right = false;
        get(&name(at), &mut |found| {
            is_right = found == expected.as_ref().map(|value| &value[..]);
        })?;
        ensure!(is_right, "key {at} has another value");
        Ok(())
    };
    Ok([
        time(&|turn| put(&name(key(turn)), &value(key(turn))))?,
        time(&|turn| demand(key(turn), Some(value(key(turn)))))?,
        time(&|turn| demand(pairs + turn, None))?,
    ])
}

struct Lmdb {
    env: Env,
    pairs: Database<'static, Bytes, Bytes>,
}

impl Lmdb {
    fn open(directory: &Path) -> Result<Lmdb> {
        std::fs::create_dir(directory)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(64 << 30);
        // SAFETY: the flag leaves out syncs alone; the directory is temporary.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
        // SAFETY: the directory is this process's own.
        let env = unsafe { options.open(directory)? };
        let transaction = env.write_txn()?;
        let pairs = env
            .create_databases_and_commit(transaction, |opener, transaction| {
                let made = opener.create_database(transaction, None);
                made.map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Lmdb { env, pairs })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.pairs.put(&mut transaction, key, value)?;
        transaction.commit().context("committing")
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(Option<&[u8]>)) -> Result<()> {
        let transaction = self.env.read_txn()?;
        see(self.pairs.get(&transaction, key)?);
        Ok(())
    }
}
