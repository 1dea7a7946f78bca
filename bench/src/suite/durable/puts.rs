//! Puts that survive power loss, by one thread and by many.
//!
//! Each map has all pairs. Puts replace values in random order; each thread has a separate part. The clock stops when
//! everything that was put is durable. Then the last puts are looked up.

use super::disk::write_blocks;
use super::rows::row;
use crate::crew;
use crate::durable_map::{DurableMap, OnDisk, Open};
use crate::keys::Keys;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

/// How long a row's threads put.
const DURATION: Duration = Duration::from_millis(1000);
/// Puts between two looks at the clock. A look costs as much as a put.
const PUTS_PER_LOOK: usize = 16;
/// Each map has at most this many pairs: other authors' maps take minutes for more.
const PAIRS_MAX: u64 = 1_000_000;
/// Pairs in a call.
const BATCH: usize = 1000;
/// Pairs in a call that fills a map.
const FILL_BATCH: u64 = 50_000;
/// Threads of single puts and of batches.
const THREADS: [usize; 2] = [1, 2];
/// Threads of single puts if threads wait together.
const THREADS_OF_GROUPS: [usize; 4] = [1, 2, 16, 64];
/// This many of each thread's last puts are looked up.
const CHECKS: usize = 4096;
/// Salt of the order of puts.
const ORDER: u64 = 18;

struct Puts<'a> {
    map: &'a dyn DurableMap,
    /// In the order of the puts.
    keys: &'a [u64],
    /// At most this many puts of all threads together.
    puts_max: u64,
}

/// A value that tells a put from those before it.
fn value(key: u64, stamp: u64) -> u64 {
    (key ^ stamp).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Puts<'_> {
    /// Puts with this many threads; returns the puts a second.
    fn run(&self, threads: usize, batch: usize, stamp: u64) -> Result<f64> {
        let step = if batch > 1 { batch } else { PUTS_PER_LOOK };
        let pair = |keys: &[u64], put: usize| {
            let key = keys[put % keys.len()];
            (key, value(key, stamp))
        };
        let parts = crew::split(self.keys, threads);
        let (done, timing) = crew::run(parts.clone(), |keys| -> Result<usize> {
            let puts_max = self.puts_max as usize / threads;
            let ends = Instant::now() + DURATION;
            let mut done = 0;
            while done == 0 || done < puts_max && Instant::now() < ends {
                let pairs = (done..done + step).map(|put| pair(keys, put));
                if batch > 1 {
                    self.map.put_many(&pairs.collect::<Vec<_>>())?;
                } else {
                    for (key, value) in pairs {
                        self.map.put(key, value)?;
                    }
                }
                done += step;
            }
            self.map.sync()?;
            Ok(done)
        })?;
        let done = done.into_iter().collect::<Result<Vec<usize>>>()?;
        for (keys, &done) in parts.into_iter().zip(&done) {
            for put in done.saturating_sub(CHECKS)..done {
                let (key, expected) = pair(keys, put);
                let found = self.map.get(key)?;
                ensure!(
                    found == Some(expected),
                    "key {key:#x} holds {found:?} instead of {expected}"
                );
            }
        }
        Ok(done.iter().sum::<usize>() as f64 / timing.elapsed_s)
    }
}

/// One round of one map.
pub(super) fn round(contender: &OnDisk<impl Open>, setting: &Setting) -> Result<Vec<Row>> {
    let pairs = setting.pairs.min(PAIRS_MAX);
    let setting = &Setting { pairs, capacity: pairs, ..setting.clone() };
    let directory = tempfile::tempdir_in(&setting.directory)
        .with_context(|| format!("files in {}", setting.directory.display()))?;
    let map = (contender.open)(setting, directory.path())?;
    let keys = Keys::new(setting.seed, pairs);
    for from in (0..pairs).step_by(FILL_BATCH as usize) {
        let numbers = from..pairs.min(from + FILL_BATCH);
        let batch: Vec<_> = numbers.map(|number| (keys.key(number), 0)).collect();
        map.put_many(&batch)?;
    }
    map.sync()?;
    let blocks = write_blocks(&setting.directory, setting.ops)?;
    let mut rows: Vec<Row> = blocks.iter().map(|blocks| blocks.row(setting)).collect();
    let bare_per_s = blocks[2].per_s;
    let order = keys.order(ORDER);
    let in_order: Vec<u64> = (0..pairs).map(|number| keys.key(order.apply(number))).collect();
    let threads: &[usize] = if contender.groups { &THREADS_OF_GROUPS } else { &THREADS };
    let singles = threads.iter().map(|&threads| ("put", threads, 1));
    let batches = THREADS.iter().map(|&threads| ("put_many", threads, BATCH));
    for ((op, threads, batch), stamp) in singles.chain(batches).zip(1..) {
        let puts = Puts { map: &*map, keys: &in_order, puts_max: setting.ops };
        let rate =
            puts.run(threads, batch, stamp).with_context(|| format!("{op}, {threads} threads"))?;
        rows.push(Row {
            threads: Some(threads),
            batch: (batch > 1).then_some(batch),
            promise: Some(contender.promise),
            ops_per_s: Some(rate),
            ratio: Some(rate / bare_per_s),
            ..row(setting, op, &contender.name)
        });
    }
    Ok(rows)
}
