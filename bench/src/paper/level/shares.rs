//! Figure 8b: for how many updates the bucket has an empty slot.
//!
//! The engine does not tell, but its fences do, which medium `count` counts. To check that they still do, this first
//! tries a table whose updates all have an empty slot and one whose updates may never use it.

use super::NAME;
use super::table::{Table, shape_within};
use crate::keys::{Keys, Writer};
use crate::pool::{Laboratory, counted_memory};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use engines::level::{Design, Shape};
use pmem::medium::measure;

/// At most this many pairs in a table: shares settle soon.
const PAIRS_MAX: u64 = 1 << 18;
/// At most this many updates at each load factor.
const OPS_MAX: u64 = 1 << 16;
/// Load factors of the counts, in twentieths.
const LOAD_TWENTIETHS: std::ops::RangeInclusive<u64> = 1..=19;
/// Most fences of an update that is written like an insertion: one for the item and one for the tokens. An update that
/// writes a log entry has a third, for that.
const FENCES_LOG_FREE_MAX: u64 = 2;

struct Counted {
    table: Table<Laboratory>,
    keys: Keys,
}

impl Counted {
    fn new(slots: u32, log_free_update: bool, pairs: u64, setting: &Setting) -> Result<Counted> {
        let design = Design { in_place_update: false, log_free_update, ..Design::default() };
        let shape = shape_within(Shape { slots, design, ..Shape::default() }, pairs, 1.0);
        let table = Table::new(counted_memory()?, shape, setting.seed)?;
        let keys = Keys::new(setting.seed, table.capacity());
        Ok(Counted { table, keys })
    }

    /// Inserts the pairs from the `from`-th to before the `to`-th; returns the number at which one was refused.
    fn fill(&self, from: u64, to: u64) -> Result<u64> {
        self.table.fill(from..to, |number| {
            let key = self.keys.key(number);
            (key, Writer::Insert.value(key))
        })
    }

    /// Updates the keys of these numbers; returns the part of them that wrote no log entry.
    fn log_free(&self, numbers: &[u64]) -> Result<f64> {
        let mut log_free = 0;
        for key in numbers.iter().map(|&number| self.keys.key(number)) {
            let value = Writer::Update.value(key);
            let (is_done, cost) = measure(|| self.table.update(key, value));
            ensure!(is_done && self.table.get(key) == Some(value), "key {key:#x} is not updated");
            log_free += u64::from(cost.fences <= FENCES_LOG_FREE_MAX);
        }
        Ok(log_free as f64 / numbers.len().max(1) as f64)
    }
}

pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    for (log_free_update, expected) in [(true, 1.0), (false, 0.0)] {
        // A single pair has empty slots next to it.
        let counted = Counted::new(4, log_free_update, 1, setting)?;
        counted.fill(0, 1)?;
        let found = counted.log_free(&[0])?;
        ensure!(
            found == expected,
            "the fences of an update no longer tell whether it wrote a log entry: \
             {found} instead of {expected} of 1 seem to be free of it"
        );
    }
    let mut rows = Vec::new();
    for slots in [2, 4, 8] {
        let counted = Counted::new(slots, true, setting.pairs.min(PAIRS_MAX), setting)?;
        let (capacity, mut before) = (counted.keys.count(), 0);
        for twentieths in LOAD_TWENTIETHS {
            let count = capacity * twentieths / 20;
            if counted.fill(before, count)? < count {
                break;
            }
            before = count;
            let order = Keys::new(setting.seed, count).order(twentieths);
            let ops = setting.ops.min(OPS_MAX).min(count);
            let numbers: Vec<u64> = (0..ops).map(|place| order.apply(place)).collect();
            rows.push(Row {
                medium: Some("count".into()),
                pairs: Some(count),
                load_factor: Some(count as f64 / capacity as f64),
                log_free: Some(counted.log_free(&numbers)?),
                step: Some(twentieths as u32 - 1),
                ..setting.row(NAME, "update_log_free", &format!("{name}-{slots}-slots"))
            });
        }
    }
    Ok(rows)
}
