//! Figure 5: a cache that is searched. After a miss it takes the missing pair in place of a random one.

use super::tested::{CHUNK, Clocked, Entry};
use super::workloads::{Filled, value};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use pmem::Medium;
use workload::operations::{Caching, Operation};
use workload::{Part, Scatter};

/// Percentage of look-ups that hit: the paper's W1 and W2.
const HITS: [u64; 2] = [95, 90];

pub(super) fn rows<M: Medium>(
    entry: Entry,
    load: u64,
    setting: &Setting,
    memory: &dyn Fn() -> Result<M>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for hits in HITS {
        let table = entry.open(load, setting, memory()?)?;
        let row = row(table, entry.name(), load, hits, setting);
        rows.extend(row.with_context(|| format!("{} as a cache", entry.name()))?);
    }
    Ok(rows)
}

/// No row if the table refuses a pair.
fn row(
    table: super::tested::Tested,
    name: &str,
    load: u64,
    hits: u64,
    setting: &Setting,
) -> Result<Option<Row>> {
    let (mut filled, _, is_done) = Filled::new(table, load, setting)?;
    if !is_done {
        return Ok(None);
    }
    // The same keys as those in the table.
    let scatter = Scatter::new(setting.seed);
    let (pairs, share) = (filled.keys.count(), hits as f64 / 100.0);
    let mut operations = Caching::new(pairs, share, scatter, setting.seed, Part::WHOLE)?;
    let mut clocked = Clocked::default();
    let mut some = Vec::with_capacity(CHUNK);
    while clocked.ops < setting.ops && !clocked.is_over() {
        some.clear();
        some.extend(operations.by_ref().take(CHUNK));
        let table = &mut filled.table;
        let done = clocked.time(some.len(), || -> Result<(u64, bool)> {
            let (mut wrong, mut has_room) = (0, true);
            for &operation in &some {
                wrong += u64::from(match operation {
                    Operation::Read(key) => table.get(key) != Some(value(key)),
                    Operation::ReadAbsent(key) => table.get(key).is_some(),
                    Operation::Remove(key) => !table.remove(key),
                    Operation::Insert(key) => {
                        has_room &= table.insert(key, value(key))?;
                        false
                    }
                    _ => true,
                });
            }
            Ok((wrong, has_room))
        });
        let (wrong, has_room) = done?;
        if !has_room {
            return Ok(None);
        }
        ensure!(wrong == 0, "{wrong} of {CHUNK} answers were wrong");
    }
    Ok(Some(clocked.on(filled.row(&format!("cache_{hits}_{load}"), name, setting))))
}
