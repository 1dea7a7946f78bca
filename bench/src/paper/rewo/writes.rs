//! Figure 12 and table 6: insertions, updates and removals in an emptier and in a fuller table.
//!
//! Insertions end at the load factor. Then some random pairs are updated, and others are removed, which are inserted
//! again before the table is filled further. Everything that an operation changed is looked up after it.

use super::NAME;
use super::entrant::writers;
use crate::keys::{Keys, Writer};
use crate::paper::Scene;
use crate::paper::compare::compare;
use crate::paper::lineup::Entrant;
use crate::paper::turns::OPS_PART;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};

/// Load factors of the writes, in tenths.
const LOAD_TENTHS: [u32; 2] = [2, 8];
/// Operations of a kind are at most this part of a table.
const CAPACITY_PART: u64 = 50;

/// Orders of the keys, one per operation.
const UPDATES: u64 = 2;
const REMOVALS: u64 = 3;

pub(super) fn rows(scene: &Scene, setting: &Setting) -> Result<Vec<Row>> {
    let mut entrants: Vec<Entrant> = writers(setting.threads)
        .into_iter()
        .map(|kind| kind.entrant(scene, setting))
        .collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for (step, tenths) in (0..).zip(LOAD_TENTHS) {
        let mut added = Vec::new();
        for entrant in &mut entrants {
            let target = entrant.pairs_at(f64::from(tenths) / 10.0);
            let ops = (setting.ops / OPS_PART).min(entrant.capacity / CAPACITY_PART).max(8);
            entrant.fill(target.saturating_sub(ops), setting)?;
            added.push((entrant.pairs..target).map(|number| entrant.keys.key(number)).collect());
            entrant.pairs = target;
        }
        let inserted = |key| Some(Writer::Insert.value(key));
        rows.extend(compare(NAME, "insert", step, &entrants, &added, setting, &|map, key| {
            map.insert(key, Writer::Insert.value(key))
        })?);
        check("insert", &entrants, &added, 0, inserted)?;

        let updated = some(&entrants, &added, UPDATES, setting);
        rows.extend(compare(NAME, "update", step, &entrants, &updated, setting, &|map, key| {
            map.update(key, Writer::Update.value(key))
        })?);
        check("update", &entrants, &updated, 0, |key| Some(Writer::Update.value(key)))?;

        let removed = some(&entrants, &added, REMOVALS, setting);
        rows.extend(compare(NAME, "remove", step, &entrants, &removed, setting, &|map, key| {
            map.remove(key)
        })?);
        check("remove", &entrants, &removed, 1, |_| None)?;
        for (entrant, removed) in entrants.iter().zip(&removed) {
            for &key in removed {
                let is_back = entrant.map.insert(key, Writer::Insert.value(key));
                ensure!(is_back, "{}: key {key:#x} cannot be inserted again", entrant.name);
            }
        }
    }
    Ok(rows)
}

/// Random keys of each table, as many as `like` has, without duplicates.
fn some(entrants: &[Entrant], like: &[Vec<u64>], salt: u64, setting: &Setting) -> Vec<Vec<u64>> {
    let of = |(entrant, like): (&Entrant, &Vec<u64>)| {
        let order = Keys::new(setting.seed, entrant.pairs).order(salt);
        (0..like.len() as u64).map(|place| entrant.keys.key(order.apply(place))).collect()
    };
    entrants.iter().zip(like).map(of).collect()
}

/// Fails unless the tables hold `expected` for these words and lack `removed` pairs for each of them.
fn check(
    op: &str,
    entrants: &[Entrant],
    words: &[Vec<u64>],
    removed: u64,
    expected: impl Fn(u64) -> Option<u64>,
) -> Result<()> {
    for (Entrant { name, map, pairs, .. }, words) in entrants.iter().zip(words) {
        for &key in words {
            let (found, expected) = (map.get(key), expected(key));
            ensure!(
                found == expected,
                "{name}, {op}: key {key:#x} holds {found:?} instead of {expected:?}"
            );
        }
        let found = map.facts().map(|facts| facts.pairs);
        let expected = Some(pairs - removed * words.len() as u64);
        ensure!(found == expected, "{name}, {op}: {found:?} pairs instead of {expected:?}");
    }
    Ok(())
}
