//! Figures 2 and 3, tables 2 and 3: one table through both workloads.

use super::NAME;
use super::figures::{MEMORY, WRITES, figure};
use super::tested::{CHUNK, Clocked, Entry, Tested};
use crate::keys::{Keys, Writer};
use crate::paper::turns::OPS_PART;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use pmem::Medium;
use workload::ranks::{Distribution, RankStream, Ranks};
use workload::{Part, Random};

/// Pairs that are removed in a row and inserted in a row: one in `BATCH_PART` slots, at most `BATCH_MAX`.
const BATCH_MAX: u64 = 64;
const BATCH_PART: u64 = 1024;

/// A table, and the numbers of the keys in it.
pub(super) struct Filled {
    pub(super) table: Tested,
    pub(super) keys: Keys,
    live: Vec<u32>,
    /// The number of the next new key.
    next: u64,
    random: Random,
}

pub(super) fn value(key: u64) -> u64 {
    Writer::Insert.value(key)
}

impl Filled {
    /// Fills a table up to a load factor; returns whether it had room.
    pub(super) fn new(
        table: Tested,
        load: u64,
        setting: &Setting,
    ) -> Result<(Filled, Clocked, bool)> {
        let (_, slots) = table.fill();
        let pairs = slots * load / 100;
        let keys = Keys::new(setting.seed, pairs);
        let random = Random::new(setting.seed);
        let mut filled = Filled { table, keys, live: Vec::new(), next: 0, random };
        filled.live.reserve_exact(usize::try_from(pairs)?);
        let mut clocked = Clocked::default();
        let mut is_full = false;
        while filled.next < pairs && !is_full && !clocked.is_filling_over() {
            let some = (CHUNK as u64).min(pairs - filled.next);
            is_full = !filled.insert_new(some, &mut clocked)?;
        }
        ensure!(is_full || filled.next == pairs, "filling took too long: ask for fewer --pairs");
        Ok((filled, clocked, !is_full))
    }

    /// Inserts new keys; returns whether there was room for all.
    fn insert_new(&mut self, count: u64, clocked: &mut Clocked) -> Result<bool> {
        let new: Vec<u64> = (self.next..self.next + count).map(|n| self.keys.key(n)).collect();
        let Filled { table, .. } = self;
        let stored = clocked.time(new.len(), || -> Result<u64> {
            for (index, &key) in (0..).zip(&new) {
                if !table.insert(key, value(key))? {
                    return Ok(index);
                }
            }
            Ok(count)
        })?;
        for number in self.next..self.next + stored {
            self.live.push(u32::try_from(number)?);
        }
        self.next += count;
        Ok(stored == count)
    }

    /// Removes random keys.
    fn remove_some(&mut self, count: u64, clocked: &mut Clocked) -> Result<()> {
        let mut old = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let number = self.live.swap_remove(self.random.index(self.live.len()));
            old.push(self.keys.key(number.into()));
        }
        let Filled { table, .. } = self;
        let wrong = clocked
            .time(old.len(), || old.iter().map(|&key| u64::from(!table.remove(key))).sum::<u64>());
        ensure!(wrong == 0, "{wrong} of {count} keys were not there to be removed");
        Ok(())
    }

    /// Replaces `count` pairs; returns the removals, the insertions, and whether there was room.
    pub(super) fn replace(&mut self, count: u64) -> Result<(Clocked, Clocked, bool)> {
        let batch = (self.table.fill().1 / BATCH_PART).clamp(1, BATCH_MAX);
        let (mut removals, mut insertions) = (Clocked::default(), Clocked::default());
        while insertions.ops < count && !removals.is_over() && !insertions.is_over() {
            self.remove_some(batch, &mut removals)?;
            if !self.insert_new(batch, &mut insertions)? {
                return Ok((removals, insertions, false));
            }
        }
        Ok((removals, insertions, true))
    }

    /// Looks up `count` random keys, which are present or not.
    fn look_up(&mut self, count: u64, is_there: bool) -> Result<Clocked> {
        let mut clocked = Clocked::default();
        let mut places = vec![0; CHUNK];
        let stored = self.live.len() as u64;
        let mut stream =
            RankStream::new(Distribution::Uniform, stored, self.random.word(), Part::WHOLE)?;
        while clocked.ops < count && !clocked.is_over() {
            stream.fill(&mut places);
            for place in &mut places {
                *place = match is_there {
                    true => self.keys.key(self.live[*place as usize].into()),
                    false => self.keys.absent(*place),
                };
            }
            let Filled { table, .. } = &*self;
            let wrong = clocked.time(CHUNK, || {
                let is_wrong = |key: u64| table.get(key) != is_there.then(|| value(key));
                places.iter().filter(|&&key| is_wrong(key)).count()
            });
            ensure!(wrong == 0, "{wrong} of {CHUNK} look-ups were answered wrongly");
        }
        Ok(clocked)
    }

    /// A row of the table as it is.
    pub(super) fn row(&self, op: &str, name: &str, setting: &Setting) -> Row {
        let (pairs, slots) = self.table.fill();
        let part = |count: u64| count as f64 / slots as f64;
        Row {
            pairs: Some(pairs),
            load_factor: Some(part(pairs)),
            stashed: self.table.stashed().map(part),
            ..setting.row(NAME, op, name)
        }
    }
}

pub(super) fn rows<M: Medium>(
    entry: Entry,
    load: u64,
    setting: &Setting,
    memory: &dyn Fn() -> Result<M>,
) -> Result<Vec<Row>> {
    let table = entry.open(load, setting, memory()?)?;
    let name = entry.name();
    both(table, name, load, setting).with_context(|| format!("{name} at {load} %"))
}

fn both(table: Tested, name: &str, load: u64, setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let empty = table.writes();
    let (mut filled, insertions, is_done) = Filled::new(table, load, setting)?;
    if !is_done {
        return Ok(vec![filled.row(&format!("full_wo_{load}"), name, setting)]);
    }
    let ops = setting.ops.div_ceil(OPS_PART);
    let written = |filled: &Filled, before| {
        let (now, before) = (filled.table.writes()?, before);
        Some(now.since(before?).per_transaction())
    };
    let insert = |filled: &Filled, clocked: Clocked, workload: &str, before| {
        let op = format!("insert_{workload}_{load}");
        let row = filled.row(&op, name, setting);
        let paper = figure(&WRITES, name, &format!("{workload}_{load}"));
        clocked.on(Row { writes: written(filled, before), paper, ..row })
    };
    let look_ups = |filled: &mut Filled, workload: &str| -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (op, is_there) in [("get_hit", true), ("get_miss", false)] {
            let clocked = filled.look_up(ops, is_there)?;
            let op = format!("{op}_{workload}_{load}");
            rows.push(clocked.on(filled.row(&op, name, setting)));
        }
        Ok(rows)
    };
    rows.push(insert(&filled, insertions, "wo", empty));
    rows.extend(look_ups(&mut filled, "wo")?);
    let (bytes, (_, slots)) = (filled.table.bytes(), filled.table.fill());
    rows.push(Row {
        bytes_per_pair: Some(bytes as f64 / slots as f64),
        paper: figure(&MEMORY, name, &load.to_string()),
        ..filled.row(&format!("memory_{load}"), name, setting)
    });

    let before = filled.table.writes();
    let (removals, insertions, is_done) = filled.replace(setting.ops.min(slots))?;
    if !is_done {
        rows.push(filled.row(&format!("full_wh_{load}"), name, setting));
        return Ok(rows);
    }
    rows.push(insert(&filled, insertions, "wh", before));
    rows.push(removals.on(filled.row(&format!("remove_wh_{load}"), name, setting)));
    rows.extend(look_ups(&mut filled, "wh")?);
    filled.table.check(filled.live.len() as u64)?;
    Ok(rows)
}
