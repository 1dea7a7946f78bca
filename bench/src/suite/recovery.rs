//! Opening a pool again.
//!
//! Another process fills a pool in a file and is then killed with SIGKILL. Rows that begin with `open` are of the
//! opening after that, those that begin with `open_clean` of the next one, after the pool was closed:
//!
//! | row | from the beginning of the opening until |
//! |---|---|
//! | `open`, `open_clean` | the first look-up is answered |
//! | `open_put`, `open_clean_put` | the first change is answered |
//! | `open_built`, `open_clean_built` | the whole sidecar is there |
//!
//! `took_s` is that time, and the rate that of pairs. The sidecar is built by as many threads as the row says, so the
//! pairs a second and thread are the rate of the last row divided by the threads. The file is in the page cache
//! throughout.

use crate::crew;
use crate::keys::{Keys, Writer};
use crate::pool;
use crate::row::Row;
use crate::setting::Setting;
use crate::victim::{self, Order, TableOrder};
use anyhow::{Context, Result, ensure};
use firndex::{Engine, Options, Table};
use std::time::Instant;
use workload::Part;

/// At most this many pairs are looked up after opening.
const CHECKS_MAX: u64 = 1 << 20;

/// One round: one pool, opened twice.
pub fn round(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let directory = tempfile::tempdir_in(&setting.directory)
        .with_context(|| format!("a pool in {}", setting.directory.display()))?;
    let path = directory.path().join("bench.firn");
    let order = TableOrder {
        path: path.clone(),
        engine: engine.name().to_owned(),
        pairs: setting.pairs,
        threads: setting.threads,
        seed: setting.seed,
    };
    let order = Order::Table(order);
    victim::fill_and_kill(&order, setting)?;
    let Order::Table(order) = order else { return Ok(Vec::new()) };
    let options =
        pool::options(engine, setting).medium(firndex::Medium::Mapped).threads(setting.threads);
    let (mut rows, table) = open("open", name, &options, &order, setting)?;
    table.close()?;
    rows.append(&mut open("open_clean", name, &options, &order, setting)?.0);
    Ok(rows)
}

fn open(
    op: &str,
    name: &str,
    options: &Options,
    order: &TableOrder,
    setting: &Setting,
) -> Result<(Vec<Row>, Table)> {
    let is_clean = firndex::inspect(&order.path)?.clean;
    ensure!(is_clean == (op == "open_clean"), "the pool's state is not that of row {op}");
    let keys = Keys::new(order.seed, order.pairs);
    let value = |key| Writer::Insert.value(key);
    let (key, other) = (keys.key(order.pairs / 2), keys.key(order.pairs / 3));
    let started = Instant::now();
    let table = options.open_table(&order.path)?;
    let found = table.get(key)?;
    let looked_up_s = started.elapsed().as_secs_f64();
    let replaced = table.put(other, value(other))?;
    let changed_s = started.elapsed().as_secs_f64();
    // It waits for what is still being built.
    let stats = table.stats()?;
    let built_s = started.elapsed().as_secs_f64();

    ensure!(found == Some(value(key)), "{op}: key {key:#x} holds {found:?}");
    ensure!(replaced == Some(value(other)), "{op}: key {other:#x} held {replaced:?}");
    let (found, expected) = (table.len(), order.pairs);
    ensure!(found == expected, "{op}: {found} pairs were recovered of {expected}");
    let step = order.pairs.div_ceil(CHECKS_MAX).max(1) as usize;
    for number in (0..order.pairs).step_by(step) {
        let key = keys.key(number);
        let (found, expected) = (table.get(key)?, Some(value(key)));
        ensure!(found == expected, "{op}: key {key:#x} holds {found:?} instead of {expected:?}");
    }
    let row = |(suffix, took_s): (&str, f64)| {
        Row {
            load_factor: Some(stats.load_factor),
            took_s: Some(took_s),
            ..setting.row("recovery", &format!("{op}{suffix}"), name)
        }
        .with_rate(order.pairs as f64 / took_s, None)
    };
    let rows = [("", looked_up_s), ("_put", changed_s), ("_built", built_s)].map(row);
    Ok((rows.into(), table))
}

/// Makes the table of an order, and leaves it open.
pub(crate) fn fill(order: &TableOrder) -> Result<Table> {
    let engine: Engine = order.engine.parse().map_err(anyhow::Error::msg)?;
    let table = Options::new()
        .engine(engine)
        .medium(firndex::Medium::Mapped)
        .capacity(order.pairs)
        .hash_seed(order.seed)
        .create_table(&order.path)?;
    let keys = Keys::new(order.seed, order.pairs);
    let (done, _) = crew::run(Part::all(order.threads).collect(), |part| {
        part.range(order.pairs).try_for_each(|number| {
            let key = keys.key(number);
            table.insert(key, Writer::Insert.value(key)).map(|_| ())
        })
    })?;
    done.into_iter().collect::<firndex::Result<Vec<()>>>()?;
    Ok(table)
}
