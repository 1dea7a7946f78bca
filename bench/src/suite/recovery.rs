//! Opening a pool again.
//!
//! Another process fills a pool in a file and is then killed with SIGKILL. Row `open` is the whole opening after that,
//! and `scan` the part of it in which the engine rebuilt its sidecar. Row `open_clean` is the opening of the same pool
//! after it was closed, where the sidecar is rebuilt as well. Recovery uses as many threads as the row says, so the
//! pairs a second and thread are the rate divided by the threads. The file is in the page cache throughout.

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
    let started = Instant::now();
    let table = options.open_table(&order.path)?;
    let elapsed_s = started.elapsed().as_secs_f64();

    let (found, expected) = (table.len(), order.pairs);
    ensure!(found == expected, "{op}: {found} pairs were recovered of {expected}");
    let keys = Keys::new(order.seed, order.pairs);
    let step = order.pairs.div_ceil(CHECKS_MAX).max(1) as usize;
    for number in (0..order.pairs).step_by(step) {
        let key = keys.key(number);
        let (found, expected) = (table.get(key)?, Some(Writer::Insert.value(key)));
        ensure!(found == expected, "{op}: key {key:#x} holds {found:?} instead of {expected:?}");
    }
    let stats = table.stats()?;
    let row = |op: &str, elapsed_s: f64| {
        Row { load_factor: Some(stats.load_factor), ..setting.row("recovery", op, name) }
            .with_rate(order.pairs as f64 / elapsed_s, None)
    };
    let mut rows = vec![row(op, elapsed_s)];
    if !is_clean {
        rows.push(row("scan", stats.scan_ms / 1e3));
    }
    Ok((rows, table))
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
