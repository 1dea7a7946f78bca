//! Operations for which tables take turns.

use super::entrant::Entrant;
use crate::crew;
use crate::direct::Direct;
use crate::filling::explained;
use crate::latencies::{self, Latencies};
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::paper::turns::Turns;
use anyhow::{Context, Result};
use pmem::Medium;
use quanta::Clock;

/// Slices of the operations, between which tables take turns. Every other slice has a clock around each operation, for
/// the percentiles; means come from the other slices.
const SLICES: usize = 8;

/// Does an operation on each table's words; returns a row for each table.
pub(super) fn compare<M: Medium>(
    op: &str,
    step: u32,
    entrants: &[Entrant<M>],
    words: &[Vec<u64>],
    setting: &Setting,
    operation: impl Fn(&Direct<M>, u64) -> bool + Sync,
) -> Result<Vec<Row>> {
    let clock = Clock::new();
    let mut turns = vec![Turns::default(); entrants.len()];
    let mut percentiles = vec![Latencies::new()?; entrants.len()];
    for slice in 0..SLICES {
        for turn in 0..entrants.len() {
            let which = (slice + turn) % entrants.len();
            let (Entrant { name, map, .. }, words) = (&entrants[which], &words[which]);
            let words = slice_of(words, slice);
            let done = if slice % 2 == 0 {
                let wrong = |words: &[u64]| {
                    words.iter().filter(|&&word| !operation(map, word)).count() as u64
                };
                crew::check(op, words, setting.threads, &wrong)
                    .map(|timing| turns[which].add(words.len(), timing))
            } else {
                let operation = |word| operation(map, word);
                latencies::measure::<1>(op, words, setting.threads, &clock, operation)
                    .and_then(|(measured, _)| percentiles[which].merge(&measured))
            };
            explained(map, setting, done).with_context(|| name.clone())?;
        }
    }
    let rows = entrants.iter().zip(turns.iter().zip(&percentiles));
    Ok(rows
        .map(|(entrant, (turns, percentiles))| {
            percentiles.on(turns.on(row(op, step, entrant, setting)))
        })
        .collect())
}

/// A row of a table as it is.
pub(super) fn row<M: Medium>(op: &str, step: u32, entrant: &Entrant<M>, setting: &Setting) -> Row {
    Row {
        pairs: Some(entrant.pairs),
        load_factor: Some(entrant.pairs as f64 / entrant.capacity as f64),
        step: Some(step),
        ..setting.row("rewo", op, &entrant.name)
    }
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
