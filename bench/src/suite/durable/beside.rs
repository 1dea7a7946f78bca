//! What other operations notice of a log, and of a checkpoint that is being made.
//!
//! A pool that was closed, and whose log is gone, makes a checkpoint when it is opened, while operations run. That is
//! measured. A thread looks keys up, or updates pairs, from the opening to the end of the checkpoint, and then for as
//! long again.

use super::disk::write_blocks;
use super::place::{LOOK_EVERY, Place, verify};
use super::rows::{cpu_ns, named, row};
use crate::crew::refuse_wrong;
use crate::keys::{Keys, Writer};
use crate::latencies::Latencies;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use firndex::{Durability, Engine, Table};
use quanta::Clock;
use rustix::time::ClockId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};
use workload::Permutation;

/// How long a thread looks keys up each time while another one writes.
const TURN: Duration = Duration::from_millis(250);
/// Turns of each table.
const TURNS: usize = 3;
/// Makes checkpoints for this long, but at most [`CHECKPOINTS_MAX`] of them.
const CHECKPOINTS_S: f64 = 1.0;
const CHECKPOINTS_MAX: u32 = 10;
/// Operations between two looks.
const OPS_PER_LOOK: u64 = 256;
/// Salts of the orders of look-ups and of updates.
const ORDERS: [u64; 2] = [22, 23];

/// A thread that goes through the keys of a table until it is told to stop.
struct Worker<'a> {
    table: &'a Table,
    keys: Keys,
    order: Permutation,
    done: AtomicU64,
    /// Its processor time at the last look.
    cpu_ns: AtomicU64,
    is_stopping: AtomicBool,
    has_ended: AtomicBool,
}

impl<'a> Worker<'a> {
    fn new(table: &'a Table, setting: &Setting, salt: u64) -> Worker<'a> {
        let keys = Keys::new(setting.seed, setting.pairs);
        let order = keys.order(salt);
        Worker {
            table,
            keys,
            order,
            done: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Does `operation` on key after key; returns the number of wrong answers.
    fn work(&self, operation: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
        let worked = self.work_until_stopped(operation);
        self.has_ended.store(true, Ordering::Relaxed);
        worked
    }

    fn work_until_stopped(&self, mut operation: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
        let (mut number, mut wrong) = (0, 0);
        while !self.is_stopping.load(Ordering::Relaxed) {
            for _ in 0..OPS_PER_LOOK {
                let key = self.keys.key(self.order.apply(number % self.keys.count()));
                wrong += u64::from(!operation(key)?);
                number += 1;
            }
            self.done.store(number, Ordering::Relaxed);
            self.cpu_ns.store(cpu_ns(ClockId::ThreadCPUTime), Ordering::Relaxed);
        }
        Ok(wrong)
    }

    fn read(&self) -> Result<u64> {
        self.work(|key| {
            let found = self.table.get(key)?;
            let is_right = |writer: Writer| found == Some(writer.value(key));
            Ok(is_right(Writer::Insert) || is_right(Writer::Update))
        })
    }

    fn write(&self) -> Result<u64> {
        self.work(|key| Ok(self.table.update(key, Writer::Update.value(key))?.is_some()))
    }

    fn stop(&self, thread: ScopedJoinHandle<'_, Result<u64>>) -> Result<()> {
        self.is_stopping.store(true, Ordering::Relaxed);
        let wrong = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        refuse_wrong("beside others", wrong, self.done.load(Ordering::Relaxed))
    }
}

/// Operations, and the time that they took.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    ops: u64,
    s: f64,
    cpu_ns: u64,
}

impl Rate {
    fn per_s(self) -> f64 {
        self.ops as f64 / self.s.max(1e-9)
    }

    fn on(self, row: Row) -> Row {
        let cpu_ns = Some(self.cpu_ns as f64 / self.ops.max(1) as f64);
        Row { ops_per_s: Some(self.per_s()), cpu_ns, ..row }
    }

    /// This rate compared with another.
    fn beside(self, other: Rate, row: Row) -> Row {
        let row = self.on(row);
        let cpu_ns = other.on(row.clone()).cpu_ns;
        Row {
            ratio: Some(self.per_s() / other.per_s()),
            cpu_ratio: row.cpu_ns.zip(cpu_ns).map(|(cpu, other)| cpu / other),
            ..row
        }
    }

    /// Adds what the worker does while `wait` waits, and a little at least.
    fn add(&mut self, worker: &Worker<'_>, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        let now = || [&worker.done, &worker.cpu_ns].map(|count| count.load(Ordering::Relaxed));
        let (before, started) = (now(), Instant::now());
        wait()?;
        // Something has to be measured, on whatever machine: the wait may be over before the worker has its turn.
        while now()[0] == before[0] && !worker.has_ended.load(Ordering::Relaxed) {
            sleep(LOOK_EVERY);
        }
        self.s += started.elapsed().as_secs_f64();
        let after = now();
        self.ops += after[0] - before[0];
        self.cpu_ns += after[1] - before[1];
        Ok(())
    }
}

fn until_checkpoint(table: &Table) -> Result<()> {
    while table.log()?.context("the table has no log")?.checkpoints == 0 {
        sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Look-ups while another thread writes, and while a checkpoint is made.
pub(super) fn look_ups(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let modes = [Durability::Process, Durability::Periodic];
    let places = [Place::new(setting)?, Place::new(setting)?];
    let tables = [
        places[0].filled(engine, setting, modes[0])?,
        places[1].filled(engine, setting, modes[1])?,
    ];
    let mut rates = [Rate::default(); 2];
    for turn in 0..2 * TURNS {
        let which = turn % 2;
        let table = &tables[which];
        let (reader, writer) =
            (Worker::new(table, setting, ORDERS[0]), Worker::new(table, setting, ORDERS[1]));
        std::thread::scope(|scope| {
            let reading = Builder::new().spawn_scoped(scope, || reader.read())?;
            let writing = match Builder::new().spawn_scoped(scope, || writer.write()) {
                Ok(writing) => writing,
                Err(error) => return reader.stop(reading).and(Err(error.into())),
            };
            let waited = rates[which].add(&reader, || {
                sleep(TURN);
                Ok(())
            });
            reader.stop(reading).and(writer.stop(writing)).and(waited)
        })?;
    }
    let [without, with] = rates;
    let [op_without, op_with] =
        modes.map(|mode| row(setting, "get_beside_writer", &named(name, mode)));
    let mut rows = vec![without.on(op_without), with.beside(without, op_with)];
    let [_, table] = tables;
    table.close()?;

    let (mut during, mut after) = (Rate::default(), Rate::default());
    let mut opened = 0;
    while opened < CHECKPOINTS_MAX && during.s < CHECKPOINTS_S {
        let table = places[1].opened_anew(engine, setting, modes[1])?;
        let reader = Worker::new(&table, setting, ORDERS[0]);
        std::thread::scope(|scope| {
            let thread = Builder::new().spawn_scoped(scope, || reader.read())?;
            let mut measure = || {
                let started = Instant::now();
                during.add(&reader, || until_checkpoint(&table))?;
                let as_long = started.elapsed();
                after.add(&reader, || {
                    sleep(as_long);
                    Ok(())
                })
            };
            let measured = measure();
            reader.stop(thread).and(measured)
        })?;
        opened += 1;
        table.close()?;
    }
    let row = |op| row(setting, op, &named(name, Durability::Periodic));
    rows.push(during.beside(after, row("get_checkpointing")));
    rows.push(after.on(row("get_after_checkpoint")));
    Ok(rows)
}

/// How long updates take while a checkpoint is made; and without a log, also after opening.
pub(super) fn changes(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let clock = Clock::new();
    let mut rows = Vec::new();
    let mut as_long = Duration::ZERO;
    for mode in [Durability::Periodic, Durability::Process] {
        let place = Place::new(setting)?;
        place.filled(engine, setting, mode)?.close()?;
        let table = place.opened_anew(engine, setting, mode)?;
        let writer = Worker::new(&table, setting, ORDERS[1]);
        let mut latencies = Latencies::new()?;
        let mut rate = Rate::default();
        std::thread::scope(|scope| {
            let latencies = &mut latencies;
            let thread = Builder::new().spawn_scoped(scope, || {
                writer.work(|key| {
                    let started = clock.raw();
                    let before = table.update(key, Writer::Update.value(key))?;
                    latencies.record(clock.delta_as_nanos(started, clock.raw()));
                    Ok(before.is_some())
                })
            })?;
            let waited = rate.add(&writer, || {
                let started = Instant::now();
                if mode == Durability::Process {
                    sleep(as_long);
                } else {
                    until_checkpoint(&table)?;
                    as_long = started.elapsed();
                }
                Ok(())
            });
            writer.stop(thread).and(waited)
        })?;
        verify(&table, setting, &[Writer::Insert, Writer::Update])?;
        let op = if mode == Durability::Process { "update_opened" } else { "update_checkpointing" };
        rows.push(latencies.on_disk(rate.on(row(setting, op, &named(name, mode)))));
    }
    let blocks = write_blocks(&setting.directory, setting.ops)?;
    rows.extend(blocks.iter().map(|blocks| blocks.row(setting)));
    Ok(rows)
}
