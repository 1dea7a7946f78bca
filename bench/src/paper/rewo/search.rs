//! Figures 10 and 11 and table 5: searches as tables fill up.
//!
//! At each load factor all tables are searched in turns: for present keys by a zipfian law with the run's skew
//! (`get_hit_zipf`), for present keys with equal frequency (`get_hit_uniform`), and for absent keys (`get_miss`).
//! Before each of these, other keys by the same law are looked up off the clock, to fill the cached tables.
//!
//! One more table has a cached table as large as itself, which is refilled at each load factor. If it then holds every
//! pair, its rows are of contender `rewo-full`, otherwise of `rewo-c1`.

use super::NAME;
use super::entrant::{WHOLE, lineup};
use crate::crew;
use crate::keys::Writer;
use crate::map::Map;
use crate::paper::Scene;
use crate::paper::compare::compare;
use crate::paper::lineup::Entrant;
use crate::paper::turns::OPS_PART;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use workload::Part;
use workload::ranks::{Distribution, RankStream, Ranks};

/// Load factors of the searches, in tenths.
const LOAD_TENTHS: [u32; 4] = [2, 4, 6, 8];
/// Look-ups per pair that warm up a cached table. At every load factor other keys are popular, and a cached table drops
/// the formerly popular ones as slowly as unpopular ones come by.
pub(super) const WARM_UPS_PER_PAIR: u64 = 8;

pub(super) fn rows(scene: &Scene, setting: &Setting) -> Result<Vec<Row>> {
    let kinds = lineup(setting.threads).into_iter().chain([WHOLE]);
    let mut entrants: Vec<Entrant> =
        kinds.map(|kind| kind.entrant(scene, setting)).collect::<Result<_>>()?;
    let ops = setting.ops.div_ceil(OPS_PART).max(16);
    let warm_ups = ops.max(setting.pairs * WARM_UPS_PER_PAIR);
    let mut rows = Vec::new();
    for tenths in LOAD_TENTHS {
        for entrant in &mut entrants {
            entrant.fill(entrant.pairs_at(f64::from(tenths) / 10.0), setting)?;
        }
        if let Some(Entrant { name, handle: Some(table), .. }) = entrants.last_mut() {
            *name = if table.refill() { "rewo-full".into() } else { WHOLE.name() };
        }
        let step = tenths / 2 - 1;
        let zipf = Distribution::Zipfian { theta: setting.skew };
        for (op, law) in [("get_hit_zipf", zipf), ("get_hit_uniform", Distribution::Uniform)] {
            let words = |part, ops| -> Result<Vec<Vec<u64>>> {
                entrants.iter().map(|entrant| stored(entrant, law, setting, part, ops)).collect()
            };
            let [warm_up, timed] = [Part::new(0, 2)?, Part::new(1, 2)?];
            let is_right = |map: &dyn Map, key| map.get(key) == Some(Writer::Insert.value(key));
            for entrant in entrants.iter().filter(|entrant| entrant.is_cached()) {
                let words = stored(entrant, law, setting, warm_up, warm_ups)?;
                crew::check("warming up", &words, setting.threads, &|words| {
                    words.iter().filter(|&&key| !is_right(&*entrant.map, key)).count() as u64
                })?;
            }
            rows.extend(compare(
                NAME,
                op,
                step,
                &entrants,
                &words(timed, ops)?,
                setting,
                &is_right,
            )?);
        }
        let absent: Vec<Vec<u64>> = entrants
            .iter()
            .map(|entrant| (0..ops).map(|place| entrant.keys.absent(place)).collect())
            .collect();
        let is_right = |map: &dyn Map, key| map.get(key).is_none();
        rows.extend(compare(NAME, "get_miss", step, &entrants, &absent, setting, &is_right)?);
    }
    Ok(rows)
}

/// Keys of a table, as often as a law requires them.
fn stored(
    entrant: &Entrant,
    law: Distribution,
    setting: &Setting,
    part: Part,
    count: u64,
) -> Result<Vec<u64>> {
    let mut words = vec![0; count as usize];
    RankStream::new(law, entrant.pairs, setting.seed, part)?.fill(&mut words);
    words.iter_mut().for_each(|word| *word = entrant.keys.key(*word));
    Ok(words)
}
