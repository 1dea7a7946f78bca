//! `firndex stat`: what a pool holds and costs.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use firndex::{CacheStats, CacheUse, Kind, LogFiles, PoolInfo, Role, Shape, Stats};
use indicatif::{BinaryBytes, HumanCount, HumanDuration};
use serde_json::{Value, json};

use crate::count::counted;
use crate::explain::inspect;
use crate::failure::Status;
use crate::output::{self, finite};
use crate::pool::AnyPool;
use crate::reading::Reading;

/// Print how many pairs a pool holds, how full and how large it is
///
/// The sidecar is memory that an open pool takes besides its file. A pool that was closed properly is only read. One
/// that was cut off is recovered first, and the time for that is shown.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex stat fruit.firn
  firndex stat fruit.firn --json | jq .load_factor")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let path = &arguments.pool;
    let reading = &arguments.reading;
    if !reading.read_only {
        reading.log.restore(path)?;
    }
    let info = inspect(path)?;
    let pool = AnyPool::open_inspected(path, &info, reading)?;
    let stats = pool.stats()?;
    let of_cache = match &pool {
        AnyPool::Cache(cache) => Some(cache.stats()?),
        _ => None,
    };
    let files = reading.log.options().log_files(path)?;
    pool.close()?;
    if arguments.json {
        let mut json = to_json(&stats, &files, &info);
        json["cache"] = of_cache.as_ref().map(cache_to_json).into();
        output::json(&json)?;
    } else {
        let text = match &of_cache {
            Some(cache) => cache_to_text(&stats, cache),
            None => to_text(&stats, &files, &info),
        };
        output::data(text.as_bytes())?;
    }
    Ok(Status::Done)
}

fn push_row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<16}{value}");
}

fn role(stats: &Stats) -> &'static str {
    if stats.role == Role::Guest { "guest" } else { "owner" }
}

fn owner(stats: &Stats) -> String {
    format!("another process, which has {}", counted(stats.guests, "guest"))
}

/// A time in its largest unit: `3 hours`.
fn age(time: Duration) -> String {
    HumanDuration(time).to_string()
}

fn incarnation(count: u64) -> String {
    format!("{} (times opened for writing)", HumanCount(count))
}

fn to_json(stats: &Stats, files: &LogFiles, info: &PoolInfo) -> Value {
    let levels: Vec<Value> = stats
        .levels
        .iter()
        .map(|level| {
            json!({
                "name": level.name,
                "pairs": level.pairs,
                "slots": level.slots,
                "pool_bytes": level.pool_bytes,
                "sidecar_bytes": level.sidecar_bytes,
            })
        })
        .collect();
    let is_table = info.kind == Kind::Table;
    json!({
        "kind": stats.kind.to_string(),
        "engine": (info.kind != Kind::Cache).then(|| stats.engine.to_string()),
        "medium": stats.medium.to_string(),
        "key_bytes": is_table.then_some(info.key_bytes),
        "value_bytes": is_table.then_some(info.value_bytes),
        "key_type": info.key_shape.as_ref().map(Shape::to_string),
        "value_type": info.value_shape.as_ref().map(Shape::to_string),
        "pairs": stats.pairs,
        "capacity": stats.capacity,
        "load_factor": finite(stats.load_factor),
        "levels": levels,
        "resizing": stats.resizing,
        "resizes": stats.resizes,
        "cached": stats.cached.map(|cached| json!({
            "bytes": cached.bytes,
            "full_loaded": cached.is_full_loaded,
            "hits": cached.hits,
            "absences": cached.absences,
            "misses": cached.misses,
            "hit_rate": finite(cached.hit_rate()),
        })),
        "pool_bytes": stats.pool_bytes,
        "sidecar_bytes": stats.sidecar_bytes,
        "heap_bytes": stats.heap_bytes,
        "heap_used_bytes": stats.heap_used_bytes,
        "heap_vacant_bytes": stats.heap_vacant_bytes,
        "bytes_per_pair": finite(stats.bytes_per_pair),
        "role": role(stats),
        "guests": stats.guests,
        "incarnation": stats.incarnation,
        "uuid": uuid(stats.uuid),
        "recovery_ms": finite(stats.recovery_ms),
        "durability": stats.durability.to_string(),
        "keeps_sums": info.keeps_sums,
        "log": stats.log.as_ref().map(|log| json!({
            "durable_until_ms": log.durable_until.map(milliseconds),
            "log_bytes": log.log_bytes,
            "checkpoint_bytes": log.checkpoint_bytes,
            "written_bytes": log.written_bytes,
            "checkpoints": log.checkpoints,
            "failure": log.failure.as_ref().map(|failure| failure.to_string()),
        })),
        "log_file_bytes": files.log_bytes,
        "checkpoint_file_bytes": files.checkpoint_bytes,
    })
}

/// Hits of all look-ups, by all processes.
fn hit_ratio(cache: &CacheStats) -> f64 {
    cache.hits_ever as f64 / (cache.hits_ever + cache.misses_ever) as f64
}

fn cache_to_json(cache: &CacheStats) -> Value {
    json!({
        "capacity_bytes": cache.capacity_bytes,
        "entry_bytes": cache.entry_bytes,
        "index_bytes": cache.index_bytes,
        "hits": cache.hits_ever,
        "misses": cache.misses_ever,
        "hit_ratio": finite(hit_ratio(cache)),
        "oldest_put_ms": cache.oldest_put.as_millis() as u64,
        "oldest_kept_ms": cache.oldest_kept.as_millis() as u64,
    })
}

fn cache_to_text(stats: &Stats, cache: &CacheStats) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| push_row(&mut text, name, &value);
    row("kind", stats.kind.to_string());
    row("medium", stats.medium.to_string());
    row("entries", HumanCount(cache.entries).to_string());
    let [pool, capacity] = [cache.pool_bytes, cache.capacity_bytes].map(BinaryBytes);
    row("pool", format!("{pool} of {capacity}"));
    let [entries, index] = [cache.entry_bytes, cache.index_bytes].map(BinaryBytes);
    row("", format!("{entries} of entries, {index} of index"));
    row(
        "hits",
        match hit_ratio(cache) {
            ratio if ratio.is_finite() => {
                let all = HumanCount(cache.hits_ever + cache.misses_ever);
                format!("{} of {all} look-ups", percent(ratio))
            }
            _ => "no look-ups yet".into(),
        },
    );
    if cache.entries > 0 {
        let [put, kept] = [cache.oldest_put, cache.oldest_kept].map(age);
        row("ages", format!("put up to {put} ago, kept since up to {kept} ago"));
    }
    row("sidecar", BinaryBytes(cache.volatile_bytes).to_string());
    if stats.role == Role::Guest {
        row("owner", owner(stats));
    }
    row("incarnation", incarnation(stats.incarnation));
    row("durability", stats.durability.to_string());
    text
}

fn to_text(stats: &Stats, files: &LogFiles, info: &PoolInfo) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| push_row(&mut text, name, &value);
    row("kind", stats.kind.to_string());
    row("engine", stats.engine.to_string());
    row("medium", stats.medium.to_string());
    if info.kind == Kind::Table {
        let with_type = |bytes: u32, shape: &Option<Shape>| match shape {
            Some(shape) => format!("{shape}, {bytes} bytes each"),
            None => format!("{bytes} bytes each"),
        };
        row("keys", with_type(info.key_bytes, &info.key_shape));
        row("values", with_type(info.value_bytes, &info.value_shape));
    }
    row("pairs", HumanCount(stats.pairs).to_string());
    row("capacity", capacity(stats));
    row("load factor", percent(stats.load_factor));
    for level in &stats.levels {
        row(
            &format!("  {}", level.name),
            format!(
                "{} in {}, {} of the pool, {} of memory",
                counted(level.pairs, "pair"),
                counted(level.slots, "slot"),
                BinaryBytes(level.pool_bytes),
                BinaryBytes(level.sidecar_bytes),
            ),
        );
    }
    let resizing = if stats.resizing { ", one under way" } else { "" };
    row("resizes", format!("{} since opening{resizing}", stats.resizes));
    if let Some(cached) = stats.cached {
        row("cached table", cached_to_text(&cached));
    }
    row("pool", BinaryBytes(stats.pool_bytes).to_string());
    row("sidecar", BinaryBytes(stats.sidecar_bytes).to_string());
    let heap = [stats.heap_bytes, stats.heap_used_bytes, stats.heap_vacant_bytes].map(BinaryBytes);
    let vacant = match stats.heap_vacant_bytes {
        0 => String::new(),
        _ => format!(", {} given back to the file system", heap[2]),
    };
    row("heap", format!("{}, {} of it in use{vacant}", heap[0], heap[1]));
    row("bytes per pair", format!("{:.1}", finite(stats.bytes_per_pair)));
    if stats.role == Role::Guest {
        row("owner", owner(stats));
    }
    row("incarnation", incarnation(stats.incarnation));
    row("durability", stats.durability.to_string());
    row("sums", if info.keeps_sums { "written when it is closed" } else { "none" }.into());
    if files.log_bytes + files.checkpoint_bytes > 0 {
        row(
            "on disk",
            format!(
                "{} of log, {} of checkpoint",
                BinaryBytes(files.log_bytes),
                BinaryBytes(files.checkpoint_bytes)
            ),
        );
    }
    if let Some(log) = &stats.log {
        let until = log.durable_until.map_or("not yet".into(), |until| {
            let age = until.elapsed().unwrap_or_default();
            format!("up to {:.0} ms ago", age.as_secs_f64() * 1e3)
        });
        row("durable", until);
    }
    row("recovery", format!("{:.3} ms", finite(stats.recovery_ms)));
    row("uuid", uuid(stats.uuid));
    text
}

/// The pool was just opened, so there may have been no look-ups yet.
fn cached_to_text(cached: &CacheUse) -> String {
    let looked_up = cached.hits + cached.absences + cached.misses;
    let bytes = BinaryBytes(cached.bytes);
    if looked_up == 0 {
        return bytes.to_string();
    }
    format!(
        "{bytes}, {} of {} look-ups answered",
        percent(cached.hit_rate()),
        HumanCount(looked_up)
    )
}

fn milliseconds(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A level that only takes overflow adds pairs, but no slots that count. It has many where a table could not grow, or
/// has not yet.
fn capacity(stats: &Stats) -> String {
    let slots = HumanCount(stats.capacity);
    match stats.pairs.checked_sub(stats.capacity) {
        Some(beyond) if beyond > 0 => {
            format!("{slots}, and {} beyond that in overflow", counted(beyond, "pair"))
        }
        _ => slots.to_string(),
    }
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * finite(ratio))
}

/// The usual five groups of hexadecimal digits.
fn uuid(bits: u128) -> String {
    let digits = format!("{bits:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn a_uuid_has_five_groups() {
        assert_eq!(
            uuid(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
            "01234567-89ab-cdef-0123-456789abcdef"
        );
        assert_eq!(uuid(1), "00000000-0000-0000-0000-000000000001");
    }
}
