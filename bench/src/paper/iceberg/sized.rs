//! Figures 1, 3, 5 and 6, table 3: tables that were sized in advance.

use super::{IN_DRAM, LOAD_FACTOR, NAME};
use crate::keys::{Keys, Writer};
use crate::paper::Scene;
use crate::paper::compare::{Round, compare};
use crate::paper::lineup::Entrant;
use crate::paper::turns::OPS_PART;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;

/// Pairs that are left when deletions end, as a part of the slots.
const LEFT: f64 = 0.5;
/// Load factors of figure 6, in hundredths.
const FILLS: [u32; 7] = [20, 35, 50, 65, 80, 90, 95];

/// Slots of an IcebergHT for the setting's pairs: a front yard of a power of two, and an eighth behind it.
pub(super) fn slots(setting: &Setting) -> u64 {
    let front = 1u64 << setting.pairs.max(128).ilog2();
    front + front / 8
}

/// Tables with room for as many pairs as such an IcebergHT at [`LOAD_FACTOR`]. They may not grow, if they leave the
/// choice.
pub(super) fn lineup(scene: &Scene, setting: &Setting, names: &[&str]) -> Result<Vec<Entrant>> {
    let slots = slots(setting);
    let capacity = (slots as f64 * LOAD_FACTOR) as u64;
    let setting = Setting { capacity, grows: false, ..setting.clone() };
    scene.lineup(names, &setting, slots)
}

pub(super) fn rows(scene: &Scene, setting: &Setting, names: &[&str]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    (scene.tell)(&format!("{NAME}, {}, {} threads", setting.medium, setting.threads));
    let mut entrants = lineup(scene, setting, names)?;
    let pairs = (slots(setting) as f64 * LOAD_FACTOR) as u64;
    entrants.iter_mut().for_each(|entrant| entrant.pairs = pairs);
    let inserted = |entrant: &Entrant| (0..pairs).map(|number| entrant.keys.key(number)).collect();
    let words: Vec<Vec<u64>> = entrants.iter().map(inserted).collect();
    rows.extend(compare(NAME, "insert", 0, &entrants, &words, setting, &|map, key| {
        map.insert(key, Writer::Insert.value(key))
    })?);
    drop(words);
    for entrant in &entrants {
        if let Some(facts) = entrant.map.facts() {
            rows.push(Row {
                bytes_per_pair: Some(facts.bytes as f64 / facts.pairs as f64),
                level_pairs: Some(facts.level_pairs),
                ..entrant.row(NAME, "space", 0, setting)
            });
        }
    }
    let ops = (setting.ops / OPS_PART * 4).min(pairs);
    let round = Round { paper: NAME, step: 0, setting, ops };
    rows.extend(round.get_hit(&entrants)?);
    rows.extend(round.get_miss(&entrants)?);
    let removed = (slots(setting) as f64 * (LOAD_FACTOR - LEFT)) as u64;
    let order = Keys::new(setting.seed, pairs).order(4);
    let some = |entrant: &Entrant| {
        (0..removed).map(|place| entrant.keys.key(order.apply(place))).collect()
    };
    let words: Vec<Vec<u64>> = entrants.iter().map(some).collect();
    rows.extend(compare(NAME, "remove", 0, &entrants, &words, setting, &|map, key| {
        map.remove(key)
    })?);
    Ok(rows)
}

/// Figure 6, with one thread.
pub(super) fn filled(scene: &Scene) -> Result<Vec<Row>> {
    let setting = &scene.setting;
    let mut entrants = lineup(scene, setting, &IN_DRAM)?;
    let mut rows = Vec::new();
    for (step, percent) in (0..).zip(FILLS) {
        let ops = slots(setting) / 20;
        let round = Round { paper: NAME, step, setting, ops };
        let inserted = round.insert(&mut entrants, f64::from(percent) / 100.0)?;
        for (row, entrant) in inserted.into_iter().zip(&entrants) {
            let facts = entrant.map.facts();
            let bytes_per_pair = facts.map(|facts| facts.bytes as f64 / facts.pairs as f64);
            rows.push(Row { op: "fill".into(), bytes_per_pair, ..row });
        }
    }
    Ok(rows)
}
