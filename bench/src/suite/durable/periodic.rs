//! What a log costs changes: two tables, one with a log and one without, take turns with the same changes.
//!
//! `ratio` is the rate with a log in units of the rate without, `cpu_ratio` the same for processor time. Processor time
//! is that of the whole process. It includes the log's threads, and checkpoints: a turn with a log ends when everything
//! is durable and no checkpoint is being made. The clock stops when everything is durable.

use super::place::{Place, settle};
use super::rows::{cpu_ns, named, row};
use crate::crew::refuse_wrong;
use crate::keys::{Keys, Writer};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::{Durability, Engine, Table};
use rustix::time::ClockId;
use std::ops::Range;
use std::time::Instant;
use workload::{Part, Permutation};

/// Turns of each table.
const TURNS: usize = 4;
/// This part of the insertions is off the clock: the first ones touch the pages.
const FRESH_PART: u64 = 16;
/// Salt of the order of all changes except the insertions.
const ORDER: u64 = 19;

/// What the changes of one table took.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    wall_s: f64,
    cpu_s: f64,
    checkpoints: u64,
}

/// A change, and which answers would be right.
#[derive(Debug, Clone, Copy)]
enum Change {
    Insert,
    Update,
    UpdateMany,
    Remove,
    InsertMany,
}

/// Processor time of this process so far, in seconds.
fn process_s() -> f64 {
    cpu_ns(ClockId::ProcessCPUTime) as f64 / 1e9
}

struct Measured {
    durability: Durability,
    table: Table,
    _place: Place,
}

impl Measured {
    fn new(engine: Engine, setting: &Setting, durability: Durability) -> Result<Measured> {
        let place = Place::new(setting)?;
        let table = place.options(engine, setting, durability).create_table(place.pool())?;
        Ok(Measured { durability, table, _place: place })
    }

    fn checkpoints(&self) -> Result<u64> {
        Ok(self.table.log()?.map_or(0, |log| log.checkpoints))
    }

    fn finish(&self) -> Result<()> {
        if self.durability != Durability::Process {
            self.table.sync()?;
        }
        Ok(())
    }

    /// One turn.
    fn change(
        &self,
        setting: &Setting,
        change: Change,
        keys: &[u64],
        spent: &mut Spent,
    ) -> Result<()> {
        let checkpoints = self.checkpoints()?;
        let (started, cpu_before_s) = (Instant::now(), process_s());
        let wrong = apply(&self.table, change, keys, setting.batch)?;
        self.finish()?;
        spent.wall_s += started.elapsed().as_secs_f64();
        settle(&self.table, setting)?;
        spent.cpu_s += process_s() - cpu_before_s;
        spent.checkpoints += self.checkpoints()? - checkpoints;
        refuse_wrong(&format!("{change:?}"), wrong, keys.len() as u64)
    }
}

/// Changes the table; returns the number of wrong answers.
fn apply(table: &Table, change: Change, keys: &[u64], batch: usize) -> Result<u64> {
    let mut wrong = 0;
    let many = |write: Writer, before: Option<Writer>| -> Result<u64> {
        let mut wrong = 0;
        let mut pairs = Vec::with_capacity(batch);
        let mut found = vec![None; batch];
        for keys in keys.chunks(batch) {
            pairs.clear();
            pairs.extend(keys.iter().map(|&key| (key, write.value(key))));
            let found = &mut found[..keys.len()];
            match before {
                Some(_) => table.update_many_into(&pairs, found)?,
                None => table.insert_many_into(&pairs, found)?,
            }
            let expected = keys.iter().map(|&key| before.map(|before| before.value(key)));
            let is_wrong = |(expected, found): &(Option<u64>, &Option<u64>)| expected != *found;
            wrong += expected.zip(found.iter()).filter(is_wrong).count() as u64;
        }
        Ok(wrong)
    };
    match change {
        Change::UpdateMany => return many(Writer::Upsert, Some(Writer::Update)),
        Change::InsertMany => return many(Writer::Insert, None),
        Change::Insert => {
            for &key in keys {
                wrong += u64::from(table.insert(key, Writer::Insert.value(key))?.is_some());
            }
        }
        Change::Update => {
            for &key in keys {
                let before = table.update(key, Writer::Update.value(key))?;
                wrong += u64::from(before != Some(Writer::Insert.value(key)));
            }
        }
        Change::Remove => {
            for &key in keys {
                wrong += u64::from(table.remove(key)? != Some(Writer::Upsert.value(key)));
            }
        }
    }
    Ok(wrong)
}

/// One round: two tables.
pub(super) fn round(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let tables = [Durability::Process, Durability::Periodic]
        .map(|durability| Measured::new(engine, setting, durability));
    let [without, with] = tables;
    let tables = [without?, with?];
    let keys = Keys::new(setting.seed, setting.pairs);
    let order = keys.order(ORDER);
    let fresh = setting.pairs / FRESH_PART;
    let some = setting.ops.min(setting.pairs);
    let kinds: [(&str, Change, Range<u64>); 5] = [
        ("insert", Change::Insert, fresh..setting.pairs),
        ("update", Change::Update, 0..some),
        ("update_many", Change::UpdateMany, 0..some),
        ("remove", Change::Remove, 0..some),
        ("insert_many", Change::InsertMany, 0..some),
    ];
    for measured in &tables {
        let first: Vec<u64> = (0..fresh).map(|number| keys.key(number)).collect();
        let wrong = apply(&measured.table, Change::Insert, &first, setting.batch)?;
        refuse_wrong("filling", wrong, fresh)?;
        measured.finish()?;
    }
    let mut rows = Vec::new();
    for (op, change, numbers) in kinds {
        let order = (!matches!(change, Change::Insert)).then_some(&order);
        rows.extend(turns(name, setting, &tables, keys, order, (op, change, numbers))?);
    }
    Ok(rows)
}

fn turns(
    name: &str,
    setting: &Setting,
    tables: &[Measured; 2],
    keys: Keys,
    order: Option<&Permutation>,
    (op, change, numbers): (&str, Change, Range<u64>),
) -> Result<Vec<Row>> {
    let mut spent = [Spent::default(); 2];
    let count = numbers.end - numbers.start;
    for (turn, part) in Part::all(TURNS).enumerate() {
        let numbers = part.range(count).map(|number| numbers.start + number);
        let numbers = numbers.map(|number| order.map_or(number, |order| order.apply(number)));
        let words: Vec<u64> = numbers.map(|number| keys.key(number)).collect();
        // Each table comes first in every other turn.
        for which in [turn % 2, 1 - turn % 2] {
            tables[which].change(setting, change, &words, &mut spent[which])?;
        }
    }
    let is_many = matches!(change, Change::UpdateMany | Change::InsertMany);
    let [without, with] = spent;
    let rows = tables.iter().zip(spent).map(|(measured, spent)| {
        let is_logged = measured.durability != Durability::Process;
        Row {
            batch: is_many.then_some(setting.batch),
            ops_per_s: Some(count as f64 / spent.wall_s),
            cpu_ns: Some(spent.cpu_s * 1e9 / count as f64),
            ratio: is_logged.then_some(without.wall_s / with.wall_s),
            cpu_ratio: is_logged.then_some(with.cpu_s / without.cpu_s),
            checkpoints: is_logged.then_some(spent.checkpoints as f64),
            ..row(setting, op, &named(name, measured.durability))
        }
    });
    Ok(rows.collect())
}
