//! Operations for which tables take turns.

use super::lineup::Entrant;
use super::turns::Turns;
use crate::crew;
use crate::filling::explained;
use crate::keys::{Keys, Writer};
use crate::latencies::{self, Latencies};
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use quanta::Clock;

/// Slices of the operations, between which tables take turns. Means come from half of them, the first and the last
/// among these. The others have a clock around each operation, for the percentiles.
const SLICES: usize = 8;
const IS_FOR_MEANS: [bool; SLICES] = [true, false, false, true, true, false, false, true];

/// Does an operation on each table's words; returns a row for each table.
pub(crate) fn compare(
    paper: &'static str,
    op: &str,
    step: u32,
    entrants: &[Entrant],
    words: &[Vec<u64>],
    setting: &Setting,
    operation: &(dyn Fn(&dyn Map, u64) -> bool + Sync),
) -> Result<Vec<Row>> {
    let clock = Clock::new();
    let mut turns = vec![Turns::default(); entrants.len()];
    let mut percentiles = vec![Latencies::new()?; entrants.len()];
    for (slice, is_for_means) in IS_FOR_MEANS.into_iter().enumerate() {
        for turn in 0..entrants.len() {
            let which = (slice + turn) % entrants.len();
            let (Entrant { name, map, .. }, words) = (&entrants[which], &words[which]);
            let table = &**map;
            let words = slice_of(words, slice);
            let done = if is_for_means {
                let wrong = |words: &[u64]| {
                    words.iter().filter(|&&word| !operation(table, word)).count() as u64
                };
                crew::check(op, words, setting.threads, &wrong)
                    .map(|timing| turns[which].add(words.len(), timing))
            } else {
                let operation = |word| operation(table, word);
                latencies::measure::<1>(op, words, setting.threads, &clock, operation)
                    .and_then(|(measured, _)| percentiles[which].merge(&measured))
            };
            explained(map, setting, done).with_context(|| name.clone())?;
        }
    }
    let rows = entrants.iter().zip(turns.iter().zip(&percentiles));
    Ok(rows
        .map(|(entrant, (turns, percentiles))| {
            percentiles.on(turns.on(entrant.row(paper, op, step, setting)))
        })
        .collect())
}

/// The tables and words of searches and changes of stored pairs, which most papers compare.
pub(crate) struct Round<'a> {
    pub(crate) paper: &'static str,
    pub(crate) step: u32,
    pub(crate) setting: &'a Setting,
    /// Operations of a kind.
    pub(crate) ops: u64,
}

impl Round<'_> {
    /// Inserts the last pairs up to a load factor on the clock, as far as there are any.
    pub(crate) fn insert(&self, entrants: &mut [Entrant], load_factor: f64) -> Result<Vec<Row>> {
        let mut words = Vec::new();
        for entrant in &mut *entrants {
            let target = entrant.pairs_at(load_factor);
            let from = target.saturating_sub(self.ops).max(entrant.pairs);
            entrant.fill(from, self.setting)?;
            words.push((from..target).map(|number| entrant.keys.key(number)).collect());
            entrant.pairs = entrant.pairs.max(target);
        }
        self.compare("insert", entrants, &words, &|map, key| {
            map.insert(key, Writer::Insert.value(key))
        })
    }

    /// Looks up present keys, which have the values of their insertion.
    pub(crate) fn get_hit(&self, entrants: &[Entrant]) -> Result<Vec<Row>> {
        self.compare("get_hit", entrants, &self.some(entrants, 1), &|map, key| {
            map.get(key) == Some(Writer::Insert.value(key))
        })
    }

    /// Looks up absent keys.
    pub(crate) fn get_miss(&self, entrants: &[Entrant]) -> Result<Vec<Row>> {
        let absent =
            |entrant: &Entrant| (0..self.ops).map(|place| entrant.keys.absent(place)).collect();
        let words: Vec<Vec<u64>> = entrants.iter().map(absent).collect();
        self.compare("get_miss", entrants, &words, &|map, key| map.get(key).is_none())
    }

    /// Updates present keys on the clock, and gives them their first values back off it.
    pub(crate) fn update(&self, entrants: &[Entrant]) -> Result<Vec<Row>> {
        let words = self.some(entrants, 2);
        let rows = self.compare("update", entrants, &words, &|map, key| {
            map.update(key, Writer::Update.value(key))
        })?;
        for (Entrant { name, map, .. }, words) in entrants.iter().zip(&words) {
            for &key in words {
                let (found, is_back) = (map.get(key), map.update(key, Writer::Insert.value(key)));
                let is_right = is_back && found == Some(Writer::Update.value(key));
                ensure!(is_right, "{name}: key {key:#x} was updated and holds {found:x?}");
            }
        }
        Ok(rows)
    }

    /// Removes present keys on the clock, and inserts them again off it.
    pub(crate) fn remove(&self, entrants: &[Entrant]) -> Result<Vec<Row>> {
        let words = self.some(entrants, 3);
        let rows = self.compare("remove", entrants, &words, &|map, key| map.remove(key))?;
        for (Entrant { name, map, .. }, words) in entrants.iter().zip(&words) {
            for &key in words {
                let (found, is_back) = (map.get(key), map.insert(key, Writer::Insert.value(key)));
                let is_right = is_back && found.is_none();
                ensure!(is_right, "{name}: key {key:#x} was removed and holds {found:x?}");
            }
        }
        Ok(rows)
    }

    fn compare(
        &self,
        op: &str,
        entrants: &[Entrant],
        words: &[Vec<u64>],
        operation: &(dyn Fn(&dyn Map, u64) -> bool + Sync),
    ) -> Result<Vec<Row>> {
        compare(self.paper, op, self.step, entrants, words, self.setting, operation)
    }

    /// Different random keys of each table.
    fn some(&self, entrants: &[Entrant], salt: u64) -> Vec<Vec<u64>> {
        let of = |entrant: &Entrant| some(entrant, self.setting.seed, self.ops, salt);
        entrants.iter().map(of).collect()
    }
}

/// Up to `ops` different random keys of a table.
pub(crate) fn some(entrant: &Entrant, seed: u64, ops: u64, salt: u64) -> Vec<u64> {
    let order = Keys::new(seed, entrant.pairs).order(salt);
    (0..ops.min(entrant.pairs)).map(|place| entrant.keys.key(order.apply(place))).collect()
}

/// One slice of the words. Each word is in one slice.
fn slice_of(words: &[u64], slice: usize) -> &[u64] {
    let bound = |slice: usize| words.len() * slice / SLICES;
    &words[bound(slice)..bound(slice + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_every_word_once() {
        for count in [8, 9, 100] {
            let words: Vec<u64> = (0..count).collect();
            let slices: Vec<u64> =
                (0..SLICES).flat_map(|slice| slice_of(&words, slice)).copied().collect();
            assert_eq!(slices, words);
        }
    }
}
