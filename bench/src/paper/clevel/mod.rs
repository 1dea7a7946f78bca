//! The Clevel hashing paper's own measurements, of which its slides have the figures: [`engines::clevel`] beside Level
//! hashing as its paper has it, CCEH, pmemkv's concurrent map and P-CLHT.
//!
//! * `growth`: the load factors at which tables expand if they do not expand earlier.
//! * `insert`, `get_hit`, `get_miss`, `update`, `remove`: micro-benchmarks of tables that were sized in advance, with
//!   one thread and with all.
//! * `read_0` to `read_100`: macro-benchmarks, reads and insertions in proportions, on tables that grow meanwhile.

mod claims;

use super::compare::Round;
use super::lineup::Entrant;
use super::mixed::load_and_run;
use super::turns::OPS_PART;
use super::{Paper, Part, Scene, costs, level};
use crate::filling::check;
use crate::keys::{Keys, Writer};
use crate::map::{Facts, Failure};
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use firndex::Engine;
use workload::operations::Mix;

const ENGINE: Engine = Engine::Clevel;
/// Its rows are of this suite.
const NAME: &str = ENGINE.name();
const CCEH: &str = "cceh";
const CMAP: &str = "cmap";
const CLHT: &str = "clht";
/// What the slides compare.
const LINEUP: [&str; 5] = [NAME, level::LEVEL_PAPER, CCEH, CMAP, CLHT];

/// Load factor of the micro-benchmarks, on slots for all pairs.
const LOAD_FACTOR: f64 = 0.8;
/// Operations of a kind are at most this part of a table.
const CAPACITY_PART: u64 = 10;
/// Tables that grow begin with room for this part of the pairs.
const BEGIN_PART: u64 = 64;
/// How often growth is looked at, in all.
const LOOKS: u64 = 4096;
/// Percentages of reads.
const READS: [u32; 4] = [0, 50, 95, 100];

/// The paper.
pub const PAPER: Paper = Paper {
    name: NAME,
    title: "Lock-free Concurrent Level Hashing for Persistent Memory",
    by: "Chen, Hua, Ding, Zuo; USENIX ATC 2020 (its slides)",
    pairs: 20_000_000,
    ops: 20_000_000,
    figures: 0,
    tables: 0,
    explaining: &[],
    how: "Pairs of words on medium `optane`, a model of six Optane modules. The slides show 36 threads; here there are \
          as many as processors. `level-paper` has no fingerprints in DRAM.",
    parts: &[
        Part { places: &["load factor"], run: growth },
        Part { places: &["micro-benchmarks"], run: micro },
        Part { places: &["macro-benchmarks"], run: macros },
    ],
    claims: claims::claims,
};

fn growth(scene: &Scene) -> Result<Vec<Row>> {
    let setting = Setting {
        capacity: scene.setting.pairs / BEGIN_PART,
        pairs: scene.setting.pairs / 4,
        grows: false,
        ..scene.setting.clone()
    };
    LINEUP.iter().map(|name| grown(scene, name, &setting)).collect()
}

/// The load factor at which a table is full, and would expand; of one that expands whatever it is told, the mean. A
/// look is at every 4096th of the pairs, so a mean is a little low.
fn grown(scene: &Scene, name: &str, setting: &Setting) -> Result<Row> {
    (scene.tell)(&format!("{NAME}, growth, {name}"));
    let map = scene.open(name, setting)?;
    let keys = Keys::new(setting.seed, setting.pairs);
    let facts = || map.facts().context("a table that does not know its size");
    let row = |facts: &Facts, load_factor| Row {
        pairs: Some(facts.pairs),
        load_factor,
        ..setting.row(NAME, "growth", name)
    };
    let (mut before, mut sum) = (facts()?, 0.0);
    let first_capacity = before.capacity;
    let looks = LOOKS.min(setting.pairs);
    for look in 0..looks {
        let bound = |look| setting.pairs * look / looks;
        for key in (bound(look)..bound(look + 1)).map(|number| keys.key(number)) {
            if map.insert(key, Writer::Insert.value(key)) {
                continue;
            }
            let failure = map.failure();
            ensure!(matches!(failure, Some(Failure::Full(_))), "{name}, {key:#x}: {failure:?}");
            let full = facts()?;
            return Ok(row(&full, Some(full.load_factor)));
        }
        let now = facts()?;
        // Tables of segments split one of them at a time, so each step weighs what it adds.
        if now.capacity > before.capacity && before.capacity > first_capacity {
            sum += before.load_factor * (now.capacity - before.capacity) as f64;
        }
        before = now;
    }
    check(&map, keys).with_context(|| name.to_owned())?;
    let grown = before.capacity.saturating_sub(first_capacity) as f64;
    Ok(row(&before, (sum > 0.0).then(|| sum / grown)))
}

fn micro(scene: &Scene) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for threads in scene.threads() {
        (scene.tell)(&format!("{NAME}, micro-benchmarks, {threads} threads"));
        let setting = Setting { threads, ..scene.on(Medium::Optane, true) };
        let mut entrants = scene.lineup(&LINEUP, &setting, setting.pairs)?;
        let ops = (setting.ops / OPS_PART).min(setting.pairs / CAPACITY_PART).max(8);
        let round = Round { paper: NAME, step: 0, setting: &setting, ops };
        rows.extend(round.insert(&mut entrants, LOAD_FACTOR)?);
        rows.extend(round.get_hit(&entrants)?);
        rows.extend(round.get_miss(&entrants)?);
        rows.extend(round.update(&entrants)?);
        rows.extend(round.remove(&entrants)?);
    }
    let setting = scene.counting();
    rows.extend(costs::rows(NAME, scene.lineup(&LINEUP, &setting, setting.pairs)?, &setting)?);
    Ok(rows)
}

fn macros(scene: &Scene) -> Result<Vec<Row>> {
    let setting = Setting { threads: scene.threads_max.max(2), ..scene.on(Medium::Optane, true) };
    let half = (setting.pairs / 2).max(1);
    let setting = Setting { capacity: setting.pairs / BEGIN_PART, ..setting };
    let mut rows = Vec::new();
    for percent in READS {
        let mix = Mix::searches_and_inserts(1.0 - f64::from(percent) / 100.0)?;
        let op = format!("read_{percent}");
        (scene.tell)(&format!("{NAME}, {percent} % reads"));
        for name in LINEUP {
            let map = scene.open(name, &setting)?;
            let mut entrant = Entrant::new(name, (map, None), Some(setting.pairs), setting.seed)?;
            let [_, row] = load_and_run(NAME, &mut entrant, (&op, &mix), half, half, &setting)?;
            rows.push(row);
        }
    }
    Ok(rows)
}
