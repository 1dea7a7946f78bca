//! What a cache still has when it is opened again after its process was killed, or closed it.
//!
//! A process of its own opens the cache in a directory and makes so many requests of trace `zipf-1.0` that it is full
//! and warm. This process opens the cache after the other's end, and goes on with the same trace.

use super::pairs::Pairs;
use super::ratios::REQUESTS_PER_KEY;
use super::{CACHE_PERCENT, NAME, cached, room_for, zipf};
use crate::cache::{Cache, Opened};
use crate::contender::{self, Contender};
use crate::crew::refuse_wrong;
use crate::measured::End;
use crate::row::Row;
use crate::setting::Setting;
use crate::victim::{Obeyed, Order, Victim, WarmOrder};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// Requests whose hits are counted, before the end and after it.
const COUNTED: u64 = 10_000;

/// What the process has to say that has warmed a cache up.
#[derive(Serialize, Deserialize)]
struct Report {
    /// Of the last [`COUNTED`] requests.
    hit_ratio: f64,
    pairs: Option<u64>,
}

/// Requests before the end.
fn requests(pairs: u64) -> u64 {
    (pairs * REQUESTS_PER_KEY as u64).max(2 * COUNTED)
}

fn open(contender: &dyn Contender, directory: &Path, pairs: u64) -> Result<Opened> {
    contender.open_cache(directory, room_for(cached(pairs, CACHE_PERCENT)))
}

/// The part of these requests that are hits.
fn hit_ratio(cache: &Opened, pairs: &Pairs, asked: &[u64]) -> Result<f64> {
    let seen = pairs.get_or_put_all(cache, asked)?;
    refuse_wrong("get", seen.wrong, asked.len() as u64)?;
    Ok(seen.hits as f64 / asked.len() as f64)
}

/// Warms up the cache that was ordered, and leaves it open.
pub(crate) fn warm(order: &WarmOrder, contenders: &[Box<dyn Contender>]) -> Result<Obeyed> {
    let contender = contender::cache(contenders, &order.contender)?;
    let cache = open(contender, &order.directory, order.pairs)?;
    let pairs = Pairs::new(order.seed);
    let asked = zipf(order.pairs, requests(order.pairs), order.seed)?;
    let (warming, counted) = asked.split_at(asked.len() - COUNTED as usize);
    hit_ratio(&cache, &pairs, warming)?;
    let hit_ratio = hit_ratio(&cache, &pairs, counted)?;
    let report = serde_json::to_string(&Report { hit_ratio, pairs: cache.pairs()? })?;
    let close = move || {
        cache.close()?;
        Ok(0)
    };
    Ok(Obeyed { report, close: Box::new(close) })
}

/// The rows of these ends.
pub(crate) fn restarts(
    contender: &dyn Contender,
    ends: &[End],
    setting: &Setting,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &end in ends {
        rows.extend(restart(contender, end, setting).with_context(|| format!("{end:?}"))?);
    }
    Ok(rows)
}

fn restart(contender: &dyn Contender, end: End, setting: &Setting) -> Result<[Row; 3]> {
    let directory = tempfile::tempdir_in(&setting.directory)
        .with_context(|| format!("files in {}", setting.directory.display()))?;
    let order = WarmOrder {
        contender: contender.name().to_owned(),
        directory: directory.path().to_owned(),
        pairs: setting.pairs,
        seed: setting.seed,
    };
    let victim = Victim::obeying(&Order::Warm(order), setting)?;
    let before: Report = serde_json::from_str(victim.report())?;
    match end {
        End::Closed => victim.close()?,
        End::Killed => victim.kill()?,
    };

    let made = requests(setting.pairs);
    let asked = zipf(setting.pairs, made + COUNTED, setting.seed)?;
    let asked = &asked[made as usize..];
    let pairs = Pairs::new(setting.seed);
    let started = Instant::now();
    let cache = open(contender, directory.path(), setting.pairs).context("opening again")?;
    // What an opening puts off until somebody asks is part of it.
    let is_right = |_: &[u8]| true;
    cache.get(&pairs.key(asked[0]), is_right)?;
    let took_s = started.elapsed().as_secs_f64();
    let found = cache.pairs()?;
    let after = hit_ratio(&cache, &pairs, asked)?;
    cache.close()?;

    let row = |op: &str, pairs| Row { pairs, ..setting.row(NAME, op, contender.name()) };
    let [restart_op, before_op, after_op] = match end {
        End::Closed => ["restart_closed", "before_close", "after_close"],
        End::Killed => ["restart", "before_kill", "after_kill"],
    };
    let kept = before.pairs.filter(|before| *before > 0).zip(found);
    let kept = kept.map(|(before, found)| found as f64 / before as f64);
    Ok([
        Row { took_s: Some(took_s), kept, ..row(restart_op, found) },
        Row { hit_ratio: Some(before.hit_ratio), ..row(before_op, before.pairs) },
        Row { hit_ratio: Some(after), ..row(after_op, found) },
    ])
}
