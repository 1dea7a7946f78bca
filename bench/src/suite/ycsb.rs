//! YCSB: Load, and A to F.
//!
//! The operations come from [`workload::operations`] and are made before the clock starts, with the shares of YCSB's
//! authors. Reads, updates and scans are zipfian with the run's skew (D: latest). A, B, C, F and D run on one table in
//! this order, which is YCSB's. E runs on another table, since its insertions would meet those of D. A scan is a batch
//! of look-ups, as hash tables have no order, and counts as one operation.
//!
//! Each write stores a value that names its key and itself. A read must find a value that names the key and a write
//! that the run has begun. Afterwards the written keys are looked up, and each must hold what some write of the same
//! phase has stored there.
//!
//! The ceiling of a mix is that of its reads and writes in their shares, if all of them were cold. Skewed requests
//! mostly find their lines in the caches, so a ratio above 1 is no error.

use crate::ceilings::Ceilings;
use crate::crew::{self, Timing};
use crate::filling::explained;
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use workload::operations::{Kind, LONGEST_SCAN, Mix, MixStream, Operation, Ycsb};
use workload::ranks::Distribution;
use workload::{Part, Scatter};

/// Workloads that share a table, in order.
const TABLES: [&[Ycsb]; 2] =
    [&[Ycsb::Load, Ycsb::A, Ycsb::B, Ycsb::C, Ycsb::F, Ycsb::D], &[Ycsb::Load, Ycsb::E]];
/// Part of the operations of D and E that are insertions.
const INSERT_SHARE: f64 = 0.05;
/// E has one operation for this many of another workload's: a scan is some fifty look-ups.
const E_PART: u64 = 16;
/// At most this many keys are looked up after a phase.
const CHECKS_MAX: usize = 1 << 20;

/// One round: two maps.
pub fn round<M: Map>(
    name: &str,
    open: impl Fn(&Setting) -> Result<M>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (table, workloads) in TABLES.iter().enumerate() {
        // There may be somewhat more insertions than their share.
        let inserted = (ops_of(Ycsb::D, setting) as f64 * INSERT_SHARE * 1.1) as u64 + 1_000;
        let map = open(&Setting { capacity: setting.pairs + inserted, ..setting.clone() })?;
        let mut phases = Phases::new(&map, setting);
        for &workload in *workloads {
            // A workload that only reads would be the same with flushes.
            if workload == Ycsb::C && setting.flushes {
                continue;
            }
            let row = phases.phase(name, workload);
            let row = explained(&map, setting, row)?;
            // Loading the second table only repeats the first one's loading.
            if table == 0 || workload != Ycsb::Load {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// The operations of one finished phase.
pub(crate) struct Done {
    shares: Vec<Share>,
    pub(crate) count: usize,
    pub(crate) timing: Timing,
}

/// The workloads that one map goes through, one after another.
pub(crate) struct Phases<'a, M> {
    pub(crate) map: &'a M,
    setting: &'a Setting,
    /// Pairs stored so far.
    pairs: u64,
    /// The version that the next phase's first operation writes.
    next_version: u64,
}

/// One thread's operations.
struct Share {
    operations: Vec<Operation>,
    /// Version that its first operation writes, if it writes.
    first_version: u64,
}

impl<'a, M: Map> Phases<'a, M> {
    /// Begins with an empty map.
    pub(crate) fn new(map: &'a M, setting: &'a Setting) -> Self {
        Phases { map, setting, pairs: 0, next_version: 0 }
    }

    /// Pairs stored so far.
    pub(crate) fn pairs(&self) -> u64 {
        self.pairs
    }

    fn phase(&mut self, name: &str, workload: Ycsb) -> Result<Row> {
        let Setting { seed, skew, threads, flushes, ceilings, .. } = *self.setting;
        let (op, ops) = (name_of(workload), ops_of(workload, self.setting));
        let mix = mix(workload, skew)?;
        let seed = seed.wrapping_add(1 + workload as u64);
        let parts = Part::all(threads).map(|part| {
            let range = part.range(ops);
            (part, range.end - range.start)
        });
        let Done { shares, count, timing } = self.run(op, &mix, seed, parts.collect())?;
        let facts = self.map.facts();
        let row = Row {
            pairs: Some(self.pairs),
            load_factor: facts.map(|facts| facts.load_factor),
            cpu_share: timing.cpu_share,
            ..self.setting.row("ycsb", op, name)
        };
        let operations = shares.iter().flat_map(|share| &share.operations);
        let ceiling = ceilings.and_then(|ceilings| ceiling(&ceilings, flushes, operations));
        Ok(row.with_rate(count as f64 / timing.elapsed_s, ceiling))
    }

    /// Does this many operations of a mix for each part, with a thread each, on the clock.
    pub(crate) fn run(
        &mut self,
        op: &str,
        mix: &Mix,
        seed: u64,
        parts: Vec<(Part, u64)>,
    ) -> Result<Done> {
        let map = self.map;
        let scatter = Scatter::new(self.setting.seed);
        let shares = self.shares(mix, seed, parts, scatter)?;
        let count: usize = shares.iter().map(|share| share.operations.len()).sum();
        let end_version = self.next_version + count as u64;
        let (wrong, timing) = crew::run(shares.iter().collect(), |share: &Share| {
            perform(map, share, end_version, scatter)
        })?;
        crew::refuse_wrong(op, wrong.into_iter().sum(), count as u64)?;

        let operations = shares.iter().flat_map(|share| &share.operations);
        let inserted = operations.filter(|operation| operation.kind() == Kind::Insert).count();
        self.pairs += inserted as u64;
        self.check(&shares, count)?;
        self.next_version = end_version;
        Ok(Done { shares, count, timing })
    }

    fn shares(
        &self,
        mix: &Mix,
        seed: u64,
        parts: Vec<(Part, u64)>,
        scatter: Scatter,
    ) -> Result<Vec<Share>> {
        let pairs = self.setting.pairs;
        let (made, _) = crew::run(parts, |(part, count)| {
            let stream = MixStream::new(mix, pairs, scatter, seed, part)?;
            anyhow::Ok(stream.take(count as usize).collect::<Vec<Operation>>())
        })?;
        let mut first_version = self.next_version;
        let mut shares = Vec::new();
        for operations in made {
            let operations: Vec<Operation> = operations.context("making the operations")?;
            let next_version = first_version + operations.len() as u64;
            shares.push(Share { operations, first_version });
            first_version = next_version;
        }
        Ok(shares)
    }

    /// Looks written keys up. Each must hold a value that one of this phase's operations on that key has stored.
    fn check(&self, shares: &[Share], count: usize) -> Result<()> {
        if let Some(facts) = self.map.facts() {
            let (found, expected) = (facts.pairs, self.pairs);
            ensure!(found == expected, "the table holds {found} pairs instead of {expected}");
        }
        let step = count.div_ceil(CHECKS_MAX).max(1);
        for operation in shares.iter().flat_map(|share| share.operations.iter().step_by(step)) {
            let Some(key) = written_key(*operation) else { continue };
            let found = self.map.get(key);
            let writer = found.and_then(|value| version(key, value)).and_then(|version| {
                let after = shares.partition_point(|share| share.first_version <= version);
                let share = &shares[after.checked_sub(1)?];
                share.operations.get((version - share.first_version) as usize)
            });
            ensure!(
                writer.copied().and_then(written_key) == Some(key),
                "key {key:#x} was written and holds {found:x?}, which nothing has stored there"
            );
        }
        Ok(())
    }
}

/// Operations of all threads together. Load has as many as there are pairs.
fn ops_of(workload: Ycsb, setting: &Setting) -> u64 {
    let ops = setting.ops.min(setting.pairs);
    match workload {
        Ycsb::Load => setting.pairs,
        Ycsb::E => (ops / E_PART).max(1),
        _ => ops,
    }
}

fn name_of(workload: Ycsb) -> &'static str {
    match workload {
        Ycsb::Load => "load",
        Ycsb::A => "a",
        Ycsb::B => "b",
        Ycsb::C => "c",
        Ycsb::D => "d",
        Ycsb::E => "e",
        Ycsb::F => "f",
    }
}

/// The workload with another skew than YCSB's.
fn mix(workload: Ycsb, theta: f64) -> Result<Mix> {
    mix_of(workload, Distribution::Zipfian { theta }, Distribution::Latest { theta })
}

/// The workload with other requests than YCSB's.
pub(crate) fn mix_of(workload: Ycsb, zipfian: Distribution, latest: Distribution) -> Result<Mix> {
    use Kind::{Insert, Read, ReadModifyWrite, Scan, Update};
    Ok(match workload {
        Ycsb::Load => Mix::load(),
        Ycsb::A => Mix::new(zipfian, &[(Read, 50.0), (Update, 50.0)])?,
        Ycsb::B => Mix::new(zipfian, &[(Read, 95.0), (Update, 5.0)])?,
        Ycsb::C => Mix::new(zipfian, &[(Read, 100.0)])?,
        Ycsb::D => Mix::new(latest, &[(Read, 95.0), (Insert, 5.0)])?,
        Ycsb::E => Mix::new(zipfian, &[(Scan, 95.0), (Insert, 5.0)])?,
        Ycsb::F => Mix::new(zipfian, &[(Read, 50.0), (ReadModifyWrite, 50.0)])?,
    })
}

/// Low bits of a value: which write of the run stored it. The other bits belong to the key.
const VERSION_MASK: u64 = (1 << 40) - 1;

fn value(key: u64, version: u64) -> u64 {
    workload::spread(key) & !VERSION_MASK | version & VERSION_MASK
}

/// The version in a value, if the value belongs to this key.
fn version(key: u64, found: u64) -> Option<u64> {
    let version = found & VERSION_MASK;
    (value(key, version) == found).then_some(version)
}

fn written_key(operation: Operation) -> Option<u64> {
    match operation {
        Operation::Update(key) | Operation::Insert(key) | Operation::ReadModifyWrite(key) => {
            Some(key)
        }
        _ => None,
    }
}

/// Does a thread's operations; returns the number of wrong answers.
fn perform<M: Map>(map: &M, share: &Share, end_version: u64, scatter: Scatter) -> u64 {
    let is_sound = |key, found: Option<u64>| {
        found.and_then(|found| version(key, found)).is_some_and(|version| version < end_version)
    };
    let mut keys = Vec::with_capacity(LONGEST_SCAN.into());
    let mut found = vec![None; LONGEST_SCAN.into()];
    let mut wrong = 0;
    for (own_version, &operation) in (share.first_version..).zip(&share.operations) {
        let right = match operation {
            Operation::Read(key) => is_sound(key, map.get(key)),
            Operation::ReadAbsent(key) => map.get(key).is_none(),
            Operation::Update(key) => map.update(key, value(key, own_version)),
            Operation::Insert(key) => map.insert(key, value(key, own_version)),
            Operation::Remove(key) => map.remove(key),
            Operation::ReadModifyWrite(key) => {
                let before = map.get(key);
                let after = before.unwrap_or(0) & !VERSION_MASK | own_version;
                is_sound(key, before) && map.update(key, after)
            }
            Operation::Scan { .. } => {
                keys.clear();
                keys.extend(operation.keys(scatter));
                let found = &mut found[..keys.len()];
                map.get_many(&keys, found);
                keys.iter().zip(found).all(|(&key, &mut found)| is_sound(key, found))
            }
        };
        wrong += u64::from(!right);
    }
    wrong
}

/// Operations a second and thread if every line that they need were cold. The write of a read-modify-write includes its
/// read.
fn ceiling<'a>(
    ceilings: &Ceilings,
    flushes: bool,
    operations: impl Iterator<Item = &'a Operation>,
) -> Option<f64> {
    let read_s = 1.0 / ceilings.of(false)?;
    let write_s = 1.0 / ceilings.of(flushes)?;
    let (mut count, mut total_s) = (0u64, 0.0);
    for operation in operations {
        count += 1;
        total_s += match *operation {
            Operation::Read(_) | Operation::ReadAbsent(_) => read_s,
            Operation::Scan { length, .. } => f64::from(length) * read_s,
            _ => write_s,
        };
    }
    Some(count as f64 / total_s).filter(|rate| rate.is_finite())
}
