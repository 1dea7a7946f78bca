//! Bytes per pair, everything included.
//!
//! `grown` is a table that began small, `presized` one made for all pairs. Each is looked at when it holds a quarter, a
//! half, three quarters and all of the pairs. Engines report what they take, in the pool (including what they prepared
//! ahead) and beside it. For other maps, the anonymous memory of this process is compared with what it was before the
//! map was made. That misses what an earlier map left behind in the allocator, so a figure below the size of a bare
//! pair is left out; measure such maps in separate processes.

use crate::filling::{check, explained, fill};
use crate::keys::Keys;
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use std::fs;

/// States in which a table is looked at.
const STEPS: u64 = 4;
/// No map can do with less.
const BYTES_PER_PAIR_MIN: f64 = 16.0;

/// One round: two maps.
pub fn round<M: Map>(
    name: &str,
    open: impl Fn(&Setting) -> Result<M>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (op, capacity) in [("grown", 0), ("presized", setting.pairs)] {
        let before = resident_bytes()?;
        let map = open(&Setting { capacity, grows: true, ..setting.clone() })?;
        let keys = Keys::new(setting.seed, setting.pairs);
        for step in 0..STEPS {
            let bound = |step| setting.pairs * step / STEPS;
            let filled = fill(&map, keys, bound(step)..bound(step + 1), setting.threads);
            explained(&map, setting, filled)?;
            let pairs = bound(step + 1);
            let facts = map.facts();
            let bytes = match &facts {
                Some(facts) => facts.bytes,
                None => resident_bytes()?.saturating_sub(before),
            };
            let bytes_per_pair = bytes as f64 / pairs.max(1) as f64;
            rows.push(Row {
                bytes_per_pair: (bytes_per_pair >= BYTES_PER_PAIR_MIN).then_some(bytes_per_pair),
                load_factor: facts.map(|facts| facts.load_factor),
                pairs: Some(pairs),
                step: Some(step as u32),
                ..setting.row("space", op, name)
            });
        }
        explained(&map, setting, check(&map, keys))?;
    }
    Ok(rows)
}

/// Anonymous memory of this process.
pub(crate) fn resident_bytes() -> Result<u64> {
    const SOURCE: &str = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(SOURCE).context(SOURCE)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).with_context(|| format!("{SOURCE} does not tell anonymous memory"))
}
