//! A table grows from nothing to 16 million pairs under two writers, beside two readers that
//! check every answer; then nothing may be lost, doubled or invented.
//!
//! `cargo run --release --example growth -p firndex [FILE]`

use firndex::{Options, Result, Table};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const PAIRS: u64 = 16_000_000;
const WRITERS: u64 = 2;
const READERS: u64 = 2;

/// The `index`-th key of a writer; indices from `PAIRS` on are stored by nobody.
fn key_of(writer: u64, index: u64) -> u64 {
    (index * WRITERS + writer).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn write(table: &Table, writer: u64, stored: &AtomicU64) -> Result<()> {
    for index in 0..PAIRS / WRITERS {
        let key = key_of(writer, index);
        assert_eq!(table.insert(key, !key)?, None, "key {key:#x} was invented");
        stored.store(index + 1, Ordering::Release);
    }
    Ok(())
}

/// Reads until the writers are done; returns the number of answers checked.
fn read(table: &Table, seed: u64, stored: &[AtomicU64]) -> Result<u64> {
    let mut random = seed;
    let mut checked = 0;
    while stored.iter().any(|stored| stored.load(Ordering::Acquire) < PAIRS / WRITERS) {
        for (writer, stored) in (0..).zip(stored) {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(seed);
            if let Some(index) = (random >> 16).checked_rem(stored.load(Ordering::Acquire)) {
                let key = key_of(writer, index);
                assert_eq!(table.get(key)?, Some(!key), "key {key:#x} is lost");
            }
            let absent = key_of(writer, PAIRS + (random >> 40));
            assert_eq!(table.get(absent)?, None, "key {absent:#x} was never stored");
            checked += 2;
        }
    }
    Ok(checked)
}

fn main() -> Result<()> {
    let table = match std::env::args_os().nth(1) {
        Some(path) => Options::new().create_table(path)?,
        None => Table::<u64, u64>::in_memory()?,
    };
    let stored: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let started = Instant::now();
    let answers = std::thread::scope(|scope| {
        let (table, stored) = (&table, &stored[..]);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(table, writer, &stored[writer as usize])))
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|reader| scope.spawn(move || read(table, 2 * reader + 1, stored)))
            .collect();
        for writer in writers {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let answers = readers
            .into_iter()
            .map(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        answers.sum::<Result<u64>>()
    })?;
    println!("grown in {:.1} s beside {answers} checked reads", started.elapsed().as_secs_f64());

    let mut pairs = 0;
    table.for_each(|key, value| {
        assert_eq!(value, !key);
        pairs += 1;
    })?;
    let report = table.check()?;
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!((pairs, report.pairs, table.len()), (PAIRS, PAIRS, PAIRS));
    let stats = table.stats()?;
    println!("{pairs} pairs, all sound; load factor {:.3}", stats.load_factor);
    println!("{:.2} bytes a pair, sidecar included", stats.bytes_per_pair);
    table.close()
}
