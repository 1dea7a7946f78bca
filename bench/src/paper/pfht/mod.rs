//! The measurements of Debnath et al., Revisiting Hash Table Design for Phase Change Memory (INFLOW 2015): classic
//! tables ([`baselines`]) beside the paper's own table and our engine, at load factors 0.90 and 0.95.
//!
//! Workload `wo`, write-once, fills an empty table. Workload `wh`, write-heavy, then removes pairs and inserts others,
//! so that the table stays as full. The paper alternates the two. Here some pairs in a row are removed and as many
//! inserted (a thousandth of the slots, at most 64), so that no clock is read in between.
//!
//! Without flushes, on `dram`:
//!
//! * `insert_wo_90` to `get_miss_wh_95` (figure 2). Column `writes` is table 2, by the rule of [`baselines`]. For an
//!   engine without a log it is twice the lines that it writes back and two more, as for one cell each. `paper` is the
//!   paper's figure, `stashed` the part of the slots that is in a stash.
//! * `memory_90`, `memory_95` (table 3): bytes per slot.
//! * `stash_wo_95` and the like (section 3.1.2): the stash that hopscotch hashing needs, with room for a tenth.
//! * Contenders that the paper leaves out: `probing-shift`, `chained`, `array` and `path`.
//!
//! With flushes, on `delay-0-150`, like the paper's emulator:
//!
//! * the same operations (figure 3);
//! * `cache_95_90` and the like (figure 5): look-ups of which 95 % hit, at a load factor of 0.90. A miss evicts a
//!   random pair and inserts the missing one. A rate counts each call on the table.
//!
//! `--pairs` sets the slots. A table that refuses a pair has a row `full_…` instead. A phase that takes longer than
//! five seconds is cut short: linear probing visits all slots once none is empty. One thread does everything, in the
//! round with one thread.

mod caching;
mod claims;
mod counted;
mod figures;
mod stash;
mod tested;
mod workloads;

use super::{Paper, Part, Scene};
use crate::medium::Medium;
use crate::pool::{delayed_memory, memory};
use crate::row::Row;
use anyhow::Result;
use baselines::Kind;
use engines::Engine;
use figures::LOADS;
use tested::Entry;

/// The engine that was built after the paper.
const ENGINE: Engine = Engine::Pfht;
/// Its rows are of this suite.
const NAME: &str = ENGINE.name();

/// The paper.
pub const PAPER: Paper = Paper {
    name: NAME,
    title: "Revisiting Hash Table Design for Phase Change Memory",
    by: "Debnath, Haghdoost, Kadav, Khatib, Ungureanu; INFLOW 2015",
    pairs: 25_000_000,
    ops: 25_000_000,
    figures: 5,
    tables: 3,
    explaining: &["figure 1", "figure 4", "table 1"],
    how: "`pfht-paper` is the paper's table: without fingerprints, every change a transaction of the log that all these \
          tables have. Phase change memory takes 150 ns more for each write, as in the paper. A write is one of a cell, \
          by a rule that gives the paper's 4.0 for linear probing.",
    parts: &[
        Part {
            places: &[
                "figure 2",
                "table 2",
                "table 3",
                "section 3.1",
                "section 3.2",
                "section 4.3",
                "section 4.4",
            ],
            run: in_dram,
        },
        Part { places: &["figure 3", "section 3.3", "section 4.3", "section 4.4"], run: on_pcm },
        Part { places: &["figure 5"], run: as_caches },
    ],
    claims: claims::claims,
};

/// Phase change memory as the paper emulates it: 150 ns more for each write.
const PCM: Medium = Medium::Delay { read_ns: 0, write_back_ns: 150 };

/// What the paper compares on phase change memory, and the variant whose removals leave no marks.
const COMPARED: [Kind; 7] = [
    Kind::Probing,
    Kind::ProbingShift,
    Kind::Hopscotch,
    Kind::Cuckoo24,
    Kind::Cuckoo28,
    Kind::Cuckoo34,
    Kind::Pfht,
];

fn entries(kinds: &[Kind]) -> impl Iterator<Item = Entry> {
    kinds.iter().copied().map(Entry::Classic).chain([Entry::Own(ENGINE)])
}

fn in_dram(scene: &Scene) -> Result<Vec<Row>> {
    let setting = &scene.setting;
    let mut rows = Vec::new();
    for load in LOADS {
        for entry in entries(&Kind::ALL) {
            (scene.tell)(&format!("{NAME}, dram, {load} %, {}", entry.name()));
            rows.extend(workloads::rows(entry, load, setting, &memory)?);
        }
        rows.extend(stash::rows(load, setting)?);
        rows.extend(counted::rows(ENGINE, load, setting)?);
    }
    Ok(rows)
}

fn on_pcm(scene: &Scene) -> Result<Vec<Row>> {
    let setting = scene.on(PCM, true);
    let mut rows = Vec::new();
    for load in LOADS {
        for entry in entries(&COMPARED) {
            (scene.tell)(&format!("{NAME}, pcm, {load} %, {}", entry.name()));
            rows.extend(workloads::rows(entry, load, &setting, &|| delayed_memory(PCM, true))?);
        }
    }
    Ok(rows)
}

fn as_caches(scene: &Scene) -> Result<Vec<Row>> {
    let setting = scene.on(PCM, true);
    let mut rows = Vec::new();
    for load in LOADS {
        for entry in entries(&COMPARED) {
            (scene.tell)(&format!("{NAME}, a cache, {load} %, {}", entry.name()));
            rows.extend(caching::rows(entry, load, &setting, &|| delayed_memory(PCM, true))?);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Setting;

    fn setting(medium: Medium) -> Setting {
        Setting {
            flushes: medium == PCM,
            pairs: 4000,
            capacity: 4000,
            ops: 2000,
            ..Setting::of_words(medium)
        }
    }

    /// The paper's engine may not be built, but its measurements work for any engine.
    #[test]
    fn engines_go_through_what_the_classic_tables_do() {
        // Not every engine gets as full as the paper's.
        let (mut timed, mut counted, mut cached) = (0, 0, 0);
        for &engine in Engine::ALL {
            let entry = Entry::Own(engine);
            let rows = workloads::rows(entry, 60, &setting(Medium::Dram), &memory).unwrap();
            timed += rows.iter().filter(|row| row.op == "insert_wh_60").count();
            let rows = counted::rows(engine, 60, &setting(Medium::Dram)).unwrap();
            // At least one line, counted like one cell.
            assert!(rows.iter().all(|row| row.writes.unwrap() >= 4.0), "{rows:?}");
            counted += rows.len();
            let memory = || delayed_memory(PCM, true);
            cached += caching::rows(entry, 60, &setting(PCM), &memory).unwrap().len();
        }
        assert!(timed > 0 && counted > 0 && cached > 0, "{timed} {counted} {cached}");
    }
}
