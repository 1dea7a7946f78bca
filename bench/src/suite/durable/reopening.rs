//! One change of a closed pool: opening, a put, `sync`, closing.
//!
//! Row `reopen_put` is that of a pool whose log goes on. `reopen_put_anew` is that of one whose log is gone, so that a
//! whole checkpoint is made. `took_s` is the median time of the whole, and `bytes_per_pair` what the kernel counts as
//! written for the one pair, pages of the pool's file included.

use super::disk::written_bytes;
use super::place::{Place, verify};
use super::rows::{named, row};
use crate::keys::{Keys, Writer};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use firndex::{Durability, Engine, Table};
use std::time::Instant;

/// Openings whose median counts.
const OPENINGS: u64 = 5;

/// Seconds and bytes of one opening, one put and closing.
fn change(
    setting: &Setting,
    number: u64,
    open: impl FnOnce() -> Result<Table>,
) -> Result<(f64, u64)> {
    let key = Keys::new(setting.seed, setting.pairs).key(number % setting.pairs);
    let (before, started) = (written_bytes()?, Instant::now());
    let table = open()?;
    ensure!(table.put(key, Writer::Update.value(key))?.is_some(), "key {key:#x} was not there");
    table.sync()?;
    table.close()?;
    Ok((started.elapsed().as_secs_f64(), written_bytes()? - before))
}

fn median<T: Copy + PartialOrd>(mut all: Vec<T>) -> Option<T> {
    all.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    all.get(all.len() / 2).copied()
}

/// One round: one pool.
pub(super) fn round(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let (place, mode) = (Place::new(setting)?, Durability::Periodic);
    place.filled(engine, setting, mode)?.close()?;
    let options = place.options(engine, setting, mode);
    let (mut on, mut anew) = (Vec::new(), Vec::new());
    for number in 0..OPENINGS {
        on.push(change(setting, number, || Ok(options.open_table(place.pool())?))?);
        anew.push(change(setting, number, || place.opened_anew(engine, setting, mode))?);
    }
    verify(&options.open_table(place.pool())?, setting, &[Writer::Insert, Writer::Update])?;
    let rows = [("reopen_put", on), ("reopen_put_anew", anew)].map(|(op, all)| Row {
        took_s: median(all.iter().map(|one| one.0).collect()),
        bytes_per_pair: median(all.iter().map(|one| one.1 as f64).collect()),
        ..row(setting, op, &named(name, mode))
    });
    Ok(rows.into())
}
