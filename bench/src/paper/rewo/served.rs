//! Table 2: how large a cached table has to be.
//!
//! On medium `count`, zipfian searches of a table at a load factor of 0.8, after as many that warm its cached table up.
//! A search that reads no line of the pool was answered by the cached table.

use super::NAME;
use super::entrant::{Kind, LOAD_FACTOR_MAX, rewo_table};
use crate::filling::{explained, fill};
use crate::keys::{Keys, Writer};
use crate::map::Map;
use crate::medium::Medium;
use crate::pool::counted_memory;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use engines::rewo::Cached;
use pmem::medium::measure;
use workload::Part;
use workload::ranks::{Distribution, RankStream, Ranks};

/// At most this many pairs, and this many searches for each.
const PAIRS_MAX: u64 = 1 << 18;
const SEARCHES_PER_PAIR: u64 = 8;

pub(super) fn rows(setting: &Setting) -> Result<Vec<Row>> {
    let pairs = setting.pairs.min(PAIRS_MAX);
    let setting =
        Setting { medium: Medium::Count, capacity: pairs, grows: false, ..setting.clone() };
    (1..=3).map(|log2| served(Cached::SmallerLog2(log2), &setting)).collect()
}

fn served(cached: Cached, setting: &Setting) -> Result<Row> {
    let (map, own) = rewo_table(cached, counted_memory()?, setting)?;
    let capacity = map.facts().context("a table that does not know its size")?.capacity;
    let pairs = ((capacity as f64 * LOAD_FACTOR_MAX) as u64).max(1);
    let keys = Keys::new(setting.seed, pairs);
    let filled = fill(&map, keys, 0..pairs, 1);
    explained(&map, setting, filled)?;
    let zipf = Distribution::Zipfian { theta: setting.skew };
    let mut words = vec![0; (2 * SEARCHES_PER_PAIR * pairs) as usize];
    RankStream::new(zipf, pairs, setting.seed, Part::WHOLE)?.fill(&mut words);
    let (warm_up, counted) = words.split_at(words.len() / 2);
    let search = |rank: u64| {
        let key = keys.key(rank);
        let (found, cost) = measure(|| map.get(key));
        ensure!(found == Some(Writer::Insert.value(key)), "key {key:#x} holds {found:?}");
        Ok(cost.lines_read == 0)
    };
    for &rank in warm_up {
        search(rank)?;
    }
    let mut from_cache = 0u64;
    for &rank in counted {
        from_cache += u64::from(search(rank)?);
    }
    drop(own);
    Ok(Row {
        pairs: Some(pairs),
        load_factor: Some(LOAD_FACTOR_MAX),
        from_cache: Some(from_cache as f64 / counted.len() as f64),
        ..setting.row(NAME, "served", &Kind::Rewo(cached).name())
    })
}
