//! The measurements of Debnath et al., Revisiting Hash Table Design for Phase Change Memory (INFLOW 2015): classic
//! tables ([`baselines`]) beside the paper's table, if that engine is built, at load factors 0.90 and 0.95.
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
//! half a minute is cut short: linear probing visits all slots once none is empty. One thread does everything, in the
//! round with one thread.

mod caching;
mod claims;
mod counted;
mod figures;
mod stash;
mod tested;
mod workloads;

use super::paper::Paper;
use crate::choices::Suite;
use crate::medium::Medium;
use crate::pool::{delayed_memory, memory};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use baselines::Kind;
use figures::LOADS;
use tested::Entry;

/// The suite.
pub const PAPER: Paper = Paper {
    suite: Suite::Pfht,
    name: figures::NAME,
    // One table at a time, at most as large as chained hashing's; keys are numbers.
    bytes_per_pair: 48,
    pairs: Some(25_000_000),
    media: &[Medium::Dram, PCM],
    round,
    claims: claims::claims,
};

/// Phase change memory as the paper emulates it: 150 ns more for each write.
const PCM: Medium = Medium::Delay { read_ns: 0, write_back_ns: 150 };

/// What the paper compares on phase change memory, and the variant whose removals leave no marks.
const COMPARED: [Kind; 6] = [
    Kind::Probing,
    Kind::ProbingShift,
    Kind::Hopscotch,
    Kind::Cuckoo24,
    Kind::Cuckoo28,
    Kind::Cuckoo34,
];

fn round(_: &str, setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if setting.threads > 1 {
        return Ok(rows);
    }
    let own = PAPER.engine().map(Entry::Own);
    match (setting.medium, setting.flushes) {
        (Medium::Dram, false) => {
            for load in LOADS {
                for entry in Kind::ALL.into_iter().map(Entry::Classic).chain(own) {
                    rows.extend(workloads::rows(entry, load, setting, &memory)?);
                }
                rows.extend(stash::rows(load, setting)?);
                if let Some(engine) = PAPER.engine() {
                    rows.extend(counted::rows(engine, load, setting)?);
                }
            }
        }
        (PCM, true) => {
            let memory = || delayed_memory(setting.medium, true);
            for load in LOADS {
                for entry in COMPARED.into_iter().map(Entry::Classic).chain(own) {
                    rows.extend(workloads::rows(entry, load, setting, &memory)?);
                    rows.extend(caching::rows(entry, load, setting, &memory)?);
                }
            }
        }
        _ => {}
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engines::Engine;

    fn setting(medium: Medium) -> Setting {
        Setting {
            medium,
            directory: std::env::temp_dir(),
            flushes: medium == PCM,
            pairs: 4000,
            capacity: 4000,
            grows: true,
            load_factor: None,
            ops: 2000,
            threads: 1,
            value_bytes: 8,
            batch: 32,
            skew: 0.99,
            seed: 1,
            grow_from: 500,
            again: None,
            durable: Default::default(),
            openings: Default::default(),
            kept: Default::default(),
            ceilings: None,
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
