//! What a backup costs those who write meanwhile: their rate before and beside it, and the longest that a call took.
//!
//! `cargo run --release --example backup -p firndex [DIRECTORY [PAIRS [WRITERS]]]`

use firndex::{Durability, Existing, Options, Result, Table};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time that the writers have to themselves, before a backup.
const ALONE: Duration = Duration::from_secs(3);

/// What one writer did in a span of time.
#[derive(Default)]
struct Work {
    operations: AtomicU64,
    longest_us: AtomicU64,
}

fn write(table: &Table, pairs: u64, seed: u64, work: &Work, is_over: &AtomicBool) -> Result<()> {
    let mut random = seed;
    while !is_over.load(Ordering::Relaxed) {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(2 * seed + 1);
        let began = Instant::now();
        table.put((random >> 16) % pairs, random)?;
        work.longest_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        work.operations.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Millions of operations a second, and the longest one, since the last call.
fn told(works: &[Work], began: Instant) -> (f64, u64) {
    let operations: u64 = works.iter().map(|work| work.operations.swap(0, Ordering::Relaxed)).sum();
    let longest = works.iter().map(|work| work.longest_us.swap(0, Ordering::Relaxed)).max();
    (operations as f64 / 1e6 / began.elapsed().as_secs_f64(), longest.unwrap_or(0))
}

fn measure(directory: &Path, durability: Durability, pairs: u64, writers: u64) -> Result<()> {
    let [pool, out] = ["pool", "out"].map(|name| directory.join(format!("backup-example-{name}")));
    let options = Options::new().durability(durability).capacity(pairs);
    let table = options.create_table(&pool)?;
    for first in (0..pairs).step_by(4096) {
        let batch: Vec<_> = (first..pairs.min(first + 4096)).map(|key| (key, !key)).collect();
        table.put_many(&batch)?;
    }
    table.sync()?;
    let works: Vec<Work> = (0..writers).map(|_| Work::default()).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        for (seed, work) in (1..).zip(&works) {
            let (table, is_over) = (&table, &is_over);
            scope.spawn(move || write(table, pairs, seed, work, is_over));
        }
        let began = Instant::now();
        std::thread::sleep(ALONE);
        let (alone, longest_alone) = told(&works, began);
        let began = Instant::now();
        let copied = table.backup(&out, Existing::Replace);
        let (beside, longest_beside) = told(&works, began);
        is_over.store(true, Ordering::Relaxed);
        println!(
            "{durability}: {:?} in {:.1} s; writers {alone:.2} M/s alone, {beside:.2} beside it ({:.2}); longest \
             call {longest_alone} us alone, {longest_beside} us beside it",
            copied?,
            began.elapsed().as_secs_f64(),
            beside / alone
        );
        Ok(())
    })?;
    table.close()?;
    let companions = options.log_files(&pool).map(|files| files.paths)?;
    companions.into_iter().chain([pool, out]).for_each(|path| drop(std::fs::remove_file(path)));
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let mut number = |default| {
        let number = arguments.next().and_then(|number| number.to_str()?.parse().ok());
        number.unwrap_or(default)
    };
    let (pairs, writers) = (number(4_000_000), number(2));
    for durability in [Durability::Process, Durability::Periodic] {
        measure(&directory, durability, pairs, writers)?;
    }
    Ok(())
}
