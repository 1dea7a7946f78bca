//! Opening a pool again.
//!
//! A process of its own fills a pool in a file and is then killed with SIGKILL. Row `open` is the
//! whole opening after that, `scan` the part of it in which the engine rebuilt its sidecar,
//! `open_clean` the opening of the same pool after it was closed, where it is rebuilt as well. Recovery uses as many
//! threads as the row says, so pairs a second and thread are the rate divided by them. The file is in the page cache
//! throughout.

use crate::crew;
use crate::keys::{Keys, Writer};
use crate::pool;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, bail, ensure};
use firndex::{Engine, Options, Table};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use workload::Part;

/// Environment variable that tells a process to fill a pool, and which.
const ORDER: &str = "FIRNDEX_BENCH_FILL";
/// What that process says when it has done so, at the beginning of a line.
const FILLED: &str = "firndex bench: filled";
/// What it says if it could not; the reason follows.
const FAILED: &str = "firndex bench: failed: ";
/// Pairs that are looked up after opening, at most.
const CHECKS_MAX: u64 = 1 << 20;

/// What the process that will be killed is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    path: PathBuf,
    engine: String,
    pairs: u64,
    threads: usize,
    seed: u64,
}

/// One round: one pool, opened twice.
pub fn round(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let directory = tempfile::tempdir_in(&setting.directory)
        .with_context(|| format!("a pool in {}", setting.directory.display()))?;
    let path = directory.path().join("bench.firn");
    let order = Order {
        path: path.clone(),
        engine: engine.name().to_owned(),
        pairs: setting.pairs,
        threads: setting.threads,
        seed: setting.seed,
    };
    fill_and_kill(&order, setting)?;
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
    order: &Order,
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

/// Has a process fill a pool, and kills it when it has.
fn fill_and_kill(order: &Order, setting: &Setting) -> Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let arguments = match &setting.again {
        Some(arguments) => arguments.clone(),
        None => std::env::args_os().skip(1).collect(),
    };
    let child = Command::new(program)
        .args(arguments)
        .env(ORDER, serde_json::to_string(order)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting a process that fills a pool")?;
    let mut filler = Filler { child };
    filler.wait_until_filled()
}

/// A process that is killed when this is dropped.
struct Filler {
    child: Child,
}

impl Filler {
    fn wait_until_filled(&mut self) -> Result<()> {
        let output = self.child.stdout.take().context("the filling process has no output")?;
        for line in BufReader::new(output).lines() {
            let line = line.context("listening to the filling process")?;
            if line.starts_with(FILLED) {
                return Ok(());
            }
            if let Some(reason) = line.strip_prefix(FAILED) {
                bail!("filling a pool: {reason}");
            }
        }
        bail!("the process that fills a pool ended without a word")
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// If this process was started to fill a pool: does so, says so on standard output, and waits to
/// be killed (or for its parent's end). Returns whether it was.
pub(crate) fn fill_if_ordered() -> Result<bool> {
    let Ok(order) = std::env::var(ORDER) else { return Ok(false) };
    let mut output = io::stdout();
    let filled =
        serde_json::from_str(&order).map_err(anyhow::Error::from).and_then(|order| fill(&order));
    match filled {
        Err(error) => writeln!(output, "\n{FAILED}{error:#}")?,
        Ok(_table) => {
            writeln!(output, "\n{FILLED}")?;
            output.flush()?;
            io::stdin().read_to_end(&mut Vec::new())?;
        }
    }
    Ok(true)
}

fn fill(order: &Order) -> Result<Table> {
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
