//! Opening after power loss: the pool's file is gone, its checkpoint and log are there.
//!
//! The checkpoint has all pairs, and the log has since grown to half of the size at which the next one is made. Row
//! `open_after_power_loss` is the whole opening. Row `read_files` is the reading of all these files, past the page
//! cache and with as many threads, measured before and after. `ratio` is how many times as long the opening takes.
//! Log and checkpoint are not in the page cache either time.

use super::disk::read_files;
use super::place::{Place, verify};
use super::rows::{named, row};
use crate::keys::{Keys, Writer};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use firndex::{Durability, Engine};
use std::time::Instant;

/// Pairs of a call that changes the table.
const BATCH: u64 = 1000;
/// Salt of the order of changes.
const ORDER: u64 = 21;

/// One round: one pool.
pub(super) fn round(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let place = Place::new(setting)?;
    let options = place.options(engine, setting, Durability::Periodic);
    place.filled(engine, setting, Durability::Periodic)?.close()?;
    // Opened without a log, it forgets the one it had. The next opening makes a checkpoint of all pairs.
    options.clone().durability(Durability::Process).open_table(place.pool())?.close()?;
    let table = options.open_table(place.pool())?;
    let usage = || table.log()?.context("the table has no log");
    anyhow::ensure!(usage()?.checkpoints == 1, "an opening without a log left one to go on with");
    let keys = Keys::new(setting.seed, setting.pairs);
    let order = keys.order(ORDER);
    let (mut from, log_bytes) = (0, usage()?.checkpoint_bytes / 2);
    while usage()?.log_bytes < log_bytes && from < setting.pairs {
        let numbers = from..setting.pairs.min(from + BATCH);
        let pairs: Vec<_> = numbers
            .map(|number| keys.key(order.apply(number)))
            .map(|key| (key, Writer::Update.value(key)))
            .collect();
        table.put_many(&pairs)?;
        from += BATCH;
    }
    table.sync()?;
    std::fs::remove_file(place.pool()).context("removing the pool's file")?;
    drop(table);

    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (bytes, before_s) = read_files(place.logs(), threads)?;
    let started = Instant::now();
    let table = options.open_table(place.pool())?;
    let took_s = started.elapsed().as_secs_f64();
    verify(&table, setting, &[Writer::Insert, Writer::Update])?;
    for number in (0..from.min(setting.pairs)).step_by(101) {
        let key = keys.key(order.apply(number));
        anyhow::ensure!(
            table.get(key)? == Some(Writer::Update.value(key)),
            "key {key:#x} was synced and is not there"
        );
    }
    drop(table);
    let (_, after_s) = read_files(place.logs(), threads)?;

    let read = |read_s: f64| Row {
        took_s: Some(read_s),
        bytes_per_pair: Some(bytes as f64 / setting.pairs as f64),
        threads: Some(threads),
        ..row(setting, "read_files", "machine")
    };
    let opened = Row {
        took_s: Some(took_s),
        ratio: Some(took_s / before_s.min(after_s)),
        threads: Some(threads),
        ..row(setting, "open_after_power_loss", &named(name, Durability::Periodic))
    };
    Ok(vec![read(before_s), read(after_s), opened])
}
