//! Figures 11 to 14: insertions, updates, searches and deletions beside the tables with which the paper compares.
//!
//! Cuckoo hashing, PFHT and path hashing change without a log, as in the paper, which gives them its own log-free
//! schemes. All have the same slots. They are filled to load factors 0.2 to 0.85, and the last insertions before each
//! are on the clock; so are searches, updates and deletions then.

use super::{LINEUP, NAME};
use crate::classic::LOAD_PERCENT;
use crate::medium::Medium;
use crate::paper::Scene;
use crate::paper::compare::Round;
use crate::paper::lineup::Entrant;
use crate::paper::turns::OPS_PART;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;

/// Load factors. Above the last one Level hashing refuses pairs of small tables.
const LOAD_FACTORS: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 0.85];
/// Insertions on the clock are at most this part of a table.
const CAPACITY_PART: u64 = 25;
/// On slow media tables are this part of the size, since they take long to fill.
const SLOW_PART: u64 = 3;
/// The paper's latencies of reads and writes.
const MEDIA: [(Medium, bool); 4] = [
    (Medium::Dram, false),
    (Medium::Delay { read_ns: 200, write_back_ns: 200 }, true),
    (Medium::Delay { read_ns: 200, write_back_ns: 600 }, true),
    (Medium::Delay { read_ns: 200, write_back_ns: 1000 }, true),
];

pub(super) fn rows(scene: &Scene) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (medium, flushes) in MEDIA {
        (scene.tell)(&format!("{NAME}, figures 11 to 14, {medium}"));
        let setting = scene.on(medium, flushes);
        // What is waited for there is added, whatever the size.
        let part = if flushes { SLOW_PART } else { 1 };
        let setting = Setting { pairs: (setting.pairs / part).max(1), ..setting };
        rows.extend(on_medium(scene, &setting)?);
    }
    Ok(rows)
}

/// Tables of the same slots: those of a Level hash table that the setting's pairs fill.
pub(super) fn lineup(scene: &Scene, setting: &Setting, names: &[&str]) -> Result<Vec<Entrant>> {
    let [first, others @ ..] = names else { return Ok(Vec::new()) };
    let largest =
        Entrant::largest(*first, setting, 1.0, &|setting| Ok((scene.open(first, setting)?, None)))?;
    let capacity = largest.capacity;
    let like = Setting { capacity: capacity * LOAD_PERCENT / 100, ..setting.clone() };
    let mut entrants = vec![largest];
    entrants.extend(scene.lineup(others, &like, capacity)?);
    Ok(entrants)
}

fn on_medium(scene: &Scene, setting: &Setting) -> Result<Vec<Row>> {
    let mut entrants = lineup(scene, setting, &LINEUP)?;
    let capacity = entrants.first().map_or(0, |entrant| entrant.capacity);
    let mut rows = Vec::new();
    for (step, load_factor) in (0..).zip(LOAD_FACTORS) {
        let ops = (setting.ops / OPS_PART).min(capacity / CAPACITY_PART).max(8);
        let round = Round { paper: NAME, step, setting, ops };
        rows.extend(round.insert(&mut entrants, load_factor)?);
        rows.extend(round.get_hit(&entrants)?);
        rows.extend(round.get_miss(&entrants)?);
        if setting.flushes {
            rows.extend(round.update(&entrants)?);
        }
        rows.extend(round.remove(&entrants)?);
    }
    Ok(rows)
}
