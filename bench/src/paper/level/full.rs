//! Figures 2 and 4: how full a table gets before it refuses a pair.

use super::NAME;
use super::table::{Table, shape_within};
use crate::keys::{Keys, Writer};
use crate::pool::memory;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use engines::level::{Design, Shape};

const EXPANSIONS: u32 = 6;

pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    let all = Design::default();
    let without_d4 = Design { movement: false, ..all };
    let without_d3 = Design { two_levels: false, ..without_d4 };
    let without_d2 = Design { two_hashes: false, ..without_d3 };
    let mut rows = Vec::new();
    for (variant, design) in
        [("d1", without_d2), ("d1-d2", without_d3), ("d1-d2-d3", without_d4), ("d1-d2-d3-d4", all)]
    {
        rows.push(full(&format!("{name}-{variant}"), design, setting)?);
    }
    for (variant, bottom_to_top) in [("without-b2t", false), ("with-b2t", true)] {
        let design = Design { bottom_to_top, ..all };
        rows.extend(expansions(&format!("{name}-{variant}"), design, setting)?);
    }
    Ok(rows)
}

fn pair(keys: Keys, number: u64) -> (u64, u64) {
    let key = keys.key(number);
    (key, Writer::Insert.value(key))
}

/// Fills a table of this design until it refuses a pair. The load factor is based on the slots of the levels that the
/// design uses.
fn full(contender: &str, design: Design, setting: &Setting) -> Result<Row> {
    let shape = shape_within(Shape { design, ..Shape::default() }, setting.pairs, 1.0);
    let table: Table<_> = Table::new(memory()?, shape, setting.seed)?;
    let slots = table.slots(if design.two_levels { 2 } else { 1 });
    let keys = Keys::new(setting.seed, slots + 1);
    let count = table.fill(0..slots + 1, |number| pair(keys, number))?;
    ensure!(count <= slots, "a table of {slots} slots took {count} pairs");
    table.check(count, |number| pair(keys, number))?;
    Ok(Row {
        pairs: Some(count),
        load_factor: Some(count as f64 / slots as f64),
        ..setting.row(NAME, "full", contender)
    })
}

/// Grows a table through six expansions, each after it has refused a pair.
fn expansions(contender: &str, design: Design, setting: &Setting) -> Result<Vec<Row>> {
    let shape = Shape { design, ..Shape::default() };
    let shape = shape_within(shape, setting.pairs >> (EXPANSIONS - 1), 1.0);
    let table: Table<_> = Table::new(memory()?, shape, setting.seed)?;
    let keys = Keys::new(setting.seed, setting.pairs);
    let mut rows = Vec::new();
    let mut count = 0;
    for expansion in 1..=EXPANSIONS {
        let slots = table.capacity();
        count = table.fill(count..slots + 1, |number| pair(keys, number))?;
        ensure!(count <= slots, "a table of {slots} slots took {count} pairs");
        rows.push(Row {
            pairs: Some(count),
            load_factor: Some(count as f64 / slots as f64),
            expansions: Some(expansion),
            step: Some(expansion - 1),
            ..setting.row(NAME, "expansion", contender)
        });
        table.expand()?;
        let expanded = table.capacity();
        ensure!(expanded == 2 * slots, "a table of {slots} slots was expanded to {expanded}");
    }
    table.check(count, |number| pair(keys, number))?;
    Ok(rows)
}
