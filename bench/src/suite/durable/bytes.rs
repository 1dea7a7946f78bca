//! Bytes written per put, once checkpoints follow one another.
//!
//! Single puts replace values from the end of one checkpoint to the end of the next, so that a whole log and a whole
//! checkpoint are counted: values of all keys in turn, then of one key in 100, and then of one key in 10,000.
//! `written` counts what goes to log and checkpoint, `logged` the log's part of it. `written_by_process` is the
//! kernel's count, which includes the pages of the pool's file that it writes back.

use super::place::{Place, verify};
use super::rows::{named, row};
use crate::keys::{Keys, Writer};
use crate::row::Row;
use crate::setting::Setting;
use crate::written;
use anyhow::{Context, Result};
use firndex::{Durability, Engine, LogUse, Table};

/// Puts between two looks at the log's figures.
const PUTS_PER_LOOK: u64 = 1024;
/// Salt of the order of puts.
const ORDER: u64 = 20;
/// One key in so many is put, and what the rows are called.
const PARTS: [(u64, [&str; 3]); 3] = [
    (1, ["written", "logged", "written_by_process"]),
    (100, ["written_hot", "logged_hot", "written_by_process_hot"]),
    (10_000, ["written_hottest", "logged_hottest", "written_by_process_hottest"]),
];

fn usage(table: &Table) -> Result<LogUse> {
    table.log()?.context("the table has no log")
}

/// One round: one table.
pub(super) fn round(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let place = Place::new(setting)?;
    let table = place.filled(engine, setting, Durability::Periodic)?;
    let keys = Keys::new(setting.seed, setting.pairs);
    let order = keys.order(ORDER);
    let name = named(name, Durability::Periodic);
    let mut rows = Vec::new();
    for (part, ops) in PARTS {
        let pairs = (setting.pairs / part).max(1);
        let mut puts = 0;
        let mut until_next_checkpoint = || -> Result<(u64, [u64; 3])> {
            let before = usage(&table)?.checkpoints;
            loop {
                for _ in 0..PUTS_PER_LOOK {
                    let key = keys.key(order.apply(puts % pairs));
                    // A page of values that are as they were would not be written again.
                    table.put(key, puts)?;
                    puts += 1;
                }
                if usage(&table)?.checkpoints > before {
                    // Log records are written a moment after their puts. Without waiting, a window would count its puts
                    // but not their bytes.
                    table.sync()?;
                    let LogUse { written_bytes: all, logged_bytes, .. } = usage(&table)?;
                    return Ok((puts, [all, logged_bytes, written::by_this_process()?]));
                }
            }
        };
        let (first_puts, first) = until_next_checkpoint()?;
        let (puts, last) = until_next_checkpoint()?;
        let per_put = |bytes: u64| bytes as f64 / (puts - first_puts) as f64;
        rows.extend(ops.into_iter().zip(first.into_iter().zip(last)).map(|(op, (from, to))| Row {
            bytes_per_pair: Some(per_put(to - from)),
            ..row(setting, op, &name)
        }));
    }
    for at in 0..setting.pairs {
        let key = keys.key(order.apply(at));
        table.put(key, Writer::Update.value(key))?;
    }
    verify(&table, setting, &[Writer::Insert, Writer::Update])?;
    Ok(rows)
}
