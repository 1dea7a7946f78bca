//! Rates of several threads.

use super::pairs::KEY_BYTES;
use super::{Trial, room_for};
use crate::cache::{Cache, Room};
use crate::crew::{self, refuse_wrong};
use crate::keys::Keys;
use crate::row::Row;
use anyhow::{Context, Result};
use workload::trace::{Kind, PAIR_BYTES, Scale, Trace};

/// Bytes of a value.
const VALUE_BYTES: usize = PAIR_BYTES as usize - KEY_BYTES;
/// The order of the keys that are looked up.
const GETS: u64 = 41;
/// A cache has room for so many times the pairs, so that it drops none of them.
const ROOM_TO_KEEP: u64 = 2;
/// A cache has room for this part of the pairs, so that it is full after them.
const PART_TO_FILL: u64 = 4;
/// The cache of `get_or_put`, in percent of the working set.
const CACHE_PERCENT: u32 = 20;

/// What a thread has seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) hits: u64,
    wrong: u64,
}

impl Trial<'_> {
    /// Every operation by itself, and both together.
    pub(super) fn rates<C: Cache>(&self, open: &impl Fn(Room) -> Result<C>) -> Result<Vec<Row>> {
        let (pairs, ops) = (self.setting.pairs, self.setting.ops.min(self.setting.pairs));
        let order = Keys::new(self.setting.seed, pairs).order(GETS);
        let stored: Vec<u64> = (0..pairs).collect();
        let asked: Vec<u64> = (0..ops).map(|place| order.apply(place)).collect();
        let kept = open(room_for(pairs * ROOM_TO_KEEP))?;
        self.run("filling", &stored, |numbers| self.put_all(&kept, numbers))?;
        let get_hit = self.run("get_hit", &asked, |numbers| self.get_all(&kept, numbers))?;
        drop(kept);

        let full = open(room_for((pairs / PART_TO_FILL).max(1)))?;
        self.run("filling", &stored, |numbers| self.put_all(&full, numbers))?;
        let fresh: Vec<u64> = (pairs..pairs + ops).collect();
        let put_evict = self.run("put_evict", &fresh, |numbers| self.put_all(&full, numbers))?;
        drop(full);

        let keys = u32::try_from(pairs).context("so many keys have no trace")?;
        let requests = usize::try_from(ops)?;
        let scale = Scale { keys, requests, cache_percent: CACHE_PERCENT };
        let trace = Trace::new(Kind::Zipf10, scale, self.setting.seed)?;
        let asked: Vec<u64> = trace.requests.iter().map(|request| request.key).collect();
        let cache = open(room_for((pairs * u64::from(CACHE_PERCENT) / 100).max(1)))?;
        let both = |numbers: &[u64]| self.get_or_put_all(&cache, numbers);
        self.run("filling", &asked, both)?;
        let get_or_put = self.run("get_or_put", &asked, both)?;
        Ok(vec![get_hit, Row { hit_ratio: None, ..put_evict }, get_or_put])
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

    pub(super) fn put_all(&self, cache: &impl Cache, numbers: &[u64]) -> Result<Seen> {
        let mut value = Vec::new();
        for &number in numbers {
            self.pairs.value(number, VALUE_BYTES, &mut value);
            cache.put(&self.pairs.key(number), &value)?;
        }
        Ok(Seen::default())
    }

    pub(super) fn get_all(&self, cache: &impl Cache, numbers: &[u64]) -> Result<Seen> {
        let mut seen = Seen::default();
        for &number in numbers {
            let is_right = |found: &[u8]| self.pairs.is_value(number, VALUE_BYTES, found);
            if let Some(is_right) = cache.get(&self.pairs.key(number), is_right)? {
                seen.hits += 1;
                seen.wrong += u64::from(!is_right);
            }
        }
        Ok(seen)
    }

    fn get_or_put_all(&self, cache: &impl Cache, numbers: &[u64]) -> Result<Seen> {
        let mut seen = Seen::default();
        for number in numbers {
            let number = std::slice::from_ref(number);
            let got = self.get_all(cache, number)?;
            if got.hits == 0 {
                self.put_all(cache, number)?;
            }
            seen.hits += got.hits;
            seen.wrong += got.wrong;
        }
        Ok(seen)
    }
}
