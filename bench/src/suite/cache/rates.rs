//! Rates of several threads.

use super::asking::Seen;
use super::{CACHE_PERCENT, Trial, cached, room_for, zipf};
use crate::cache::{Cache, Room};
use crate::crew::{self, refuse_wrong};
use crate::keys::Keys;
use crate::row::Row;
use anyhow::{Context, Result};

/// The order of the keys that are looked up.
const GETS: u64 = 41;
/// A cache has room for so many times the pairs, so that it drops none of them.
const ROOM_TO_KEEP: u64 = 2;
/// A cache has room for this part of the pairs, so that it is full after them.
const PART_TO_FILL: u64 = 4;

impl Trial<'_> {
    fn ops(&self) -> u64 {
        self.setting.ops.min(self.setting.pairs)
    }

    fn stored(&self) -> Vec<u64> {
        (0..self.setting.pairs).collect()
    }

    pub(super) fn get_hit<C: Cache>(&self, make: &impl Fn(Room) -> Result<C>) -> Result<Row> {
        let pairs = self.setting.pairs;
        let order = Keys::new(self.setting.seed, pairs).order(GETS);
        let asked: Vec<u64> = (0..self.ops()).map(|place| order.apply(place)).collect();
        let kept = make(room_for(pairs * ROOM_TO_KEEP))?;
        self.run("filling", &self.stored(), |numbers| self.pairs.put_all(&kept, numbers))?;
        self.run("get_hit", &asked, |numbers| self.pairs.get_all(&kept, numbers))
    }

    pub(super) fn put_evict<C: Cache>(&self, make: &impl Fn(Room) -> Result<C>) -> Result<Row> {
        let pairs = self.setting.pairs;
        let full = make(room_for((pairs / PART_TO_FILL).max(1)))?;
        self.run("filling", &self.stored(), |numbers| self.pairs.put_all(&full, numbers))?;
        let fresh: Vec<u64> = (pairs..pairs + self.ops()).collect();
        let row = self.run("put_evict", &fresh, |numbers| self.pairs.put_all(&full, numbers))?;
        Ok(Row { hit_ratio: None, ..row })
    }

    pub(super) fn get_or_put<C: Cache>(&self, make: &impl Fn(Room) -> Result<C>) -> Result<Row> {
        let asked = zipf(self.setting.pairs, self.ops(), self.setting.seed)?;
        let cache = make(room_for(cached(self.setting.pairs, CACHE_PERCENT)))?;
        let both = |numbers: &[u64]| self.pairs.get_or_put_all(&cache, numbers);
        self.run("filling", &asked, both)?;
        self.run("get_or_put", &asked, both)
    }

    /// Times `work` over the numbers, a part of them in each thread.
    fn run(
        &self,
        op: &str,
        numbers: &[u64],
        work: impl Fn(&[u64]) -> Result<Seen> + Sync,
    ) -> Result<Row> {
        let (seen, timing) = crew::run(crew::split(numbers, self.setting.threads), work)?;
        let seen = seen.into_iter().collect::<Result<Vec<Seen>>>().context(op.to_owned())?;
        let count = numbers.len() as u64;
        refuse_wrong(op, seen.iter().map(|seen| seen.wrong).sum(), count)?;
        let hits: u64 = seen.iter().map(|seen| seen.hits).sum();
        let row = Row {
            hit_ratio: Some(hits as f64 / count as f64),
            cpu_share: timing.cpu_share,
            ..self.row(op)
        };
        Ok(row.with_rate(count as f64 / timing.elapsed_s, None))
    }
}
