//! Figure 5: searches before and after expansions, in the order of the levels and the fuller first.
//!
//! Two tables of the same pairs, static and dynamic, grow from a 64th of the pairs through six
//! expansions at [`EXPAND_AT`]. At load factors a tenth apart, both are searched in turns on the same
//! keys, present and absent ones, going round the keys where they are fewer than the searches.

use super::table::{Table, shape_within};
use super::{EXPAND_AT, OPS_PART, Turns};
use crate::contender::Setting;
use crate::crew;
use crate::direct::memory;
use crate::keys::{Keys, Writer};
use crate::row::Row;
use anyhow::{Result, ensure};
use engines::level::{Design, Shape};
use pmem::medium::Dram;

const EXPANSIONS: u32 = 6;
/// Load factors at which is searched, in hundredths. None of them directly after an expansion: a table
/// learns during insertions which level is the fuller one.
const LOAD_PERCENTS: [u64; 9] = [5, 15, 25, 35, 45, 55, 65, 75, 85];
/// Slices of the searches, between which the tables take turns.
const SLICES: usize = 4;

struct Searched {
    contender: String,
    table: Table<Dram>,
}

struct Session<'a> {
    setting: &'a Setting,
    keys: Keys,
    searched: [Searched; 2],
    count: u64,
    rows: Vec<Row>,
    step: u32,
}

pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    let shape = shape_within(Shape::default(), setting.pairs >> EXPANSIONS, EXPAND_AT);
    let searched = |variant: &str, dynamic_search| -> Result<Searched> {
        let design = Design { dynamic_search, ..Design::default() };
        let table = Table::new(memory()?, Shape { design, ..shape }, setting.seed)?;
        Ok(Searched { contender: format!("{name}-{variant}"), table })
    };
    let mut session = Session {
        setting,
        keys: Keys::new(setting.seed, setting.pairs),
        searched: [searched("static", false)?, searched("dynamic", true)?],
        count: 0,
        rows: Vec::new(),
        step: 0,
    };
    for expansions in 0..=EXPANSIONS {
        session.between_expansions(expansions)?;
        if expansions < EXPANSIONS {
            session.searched.iter().try_for_each(|searched| searched.table.expand())?;
        }
    }
    for Searched { table, .. } in &session.searched {
        table.check(session.count, |number| pair(session.keys, number))?;
    }
    Ok(session.rows)
}

fn pair(keys: Keys, number: u64) -> (u64, u64) {
    let key = keys.key(number);
    (key, Writer::Insert.value(key))
}

impl Session<'_> {
    /// Fills both tables up to [`EXPAND_AT`], or until they are full, which small ones may be before.
    fn between_expansions(&mut self, expansions: u32) -> Result<()> {
        let capacity = self.searched[0].table.capacity();
        ensure!(
            self.searched[1].table.capacity() == capacity,
            "the tables expanded at different times"
        );
        for percent in LOAD_PERCENTS {
            let target = capacity * percent / 100;
            if target <= self.count {
                continue;
            }
            let (keys, numbers) = (self.keys, self.count..target);
            let [first, second] = &self.searched;
            // One thread: only who inserts often finds out which level is fuller.
            let reached = first.table.fill(numbers.clone(), |number| pair(keys, number))?;
            let numbers = numbers.start..reached;
            let also = second.table.fill(numbers, |number| pair(keys, number))?;
            ensure!(reached == also, "the order of searches made another pair be refused");
            self.count = reached;
            if reached < target {
                return Ok(());
            }
            self.search("get_hit", expansions, capacity)?;
            self.search("get_miss", expansions, capacity)?;
            self.step += 1;
        }
        Ok(())
    }

    /// Adds a row for each of the tables.
    fn search(&mut self, op: &str, expansions: u32, capacity: u64) -> Result<()> {
        let (setting, keys, count) = (self.setting, self.keys, self.count);
        let ops = (setting.ops / OPS_PART).max(1);
        let is_hit = op == "get_hit";
        let order = Keys::new(setting.seed, count).order(u64::from(self.step));
        let words: Vec<u64> = match is_hit {
            true => (0..ops).map(|place| keys.key(order.apply(place % count))).collect(),
            false => (0..ops).map(|place| keys.absent(place)).collect(),
        };
        let mut turns = [Turns::default(); 2];
        for (slice, words) in words.chunks(words.len().div_ceil(SLICES)).enumerate() {
            // First this one, then that one, then the other way round.
            for turn in 0..2 {
                let which = (slice + turn) % 2;
                let table = &self.searched[which].table;
                let timing = crew::check(op, words, setting.threads, |words| match is_hit {
                    true => wrong(words, |key| table.get(key) == Some(Writer::Insert.value(key))),
                    false => wrong(words, |key| table.get(key).is_none()),
                })?;
                turns[which].add(words.len(), timing);
            }
        }
        for (Searched { contender, .. }, turns) in self.searched.iter().zip(&turns) {
            let row = Row {
                pairs: Some(count),
                load_factor: Some(count as f64 / capacity as f64),
                expansions: Some(expansions),
                step: Some(self.step),
                ..setting.row("level", op, contender)
            };
            self.rows.push(turns.on(row));
        }
        Ok(())
    }
}

#[inline(always)]
fn wrong(keys: &[u64], right: impl Fn(u64) -> bool) -> u64 {
    keys.iter().map(|&key| u64::from(!right(key))).sum()
}
