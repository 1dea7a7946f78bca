//! The machine's ceilings, measured on the medium and at the size of the tables.

use crate::ceilings::Ceilings;
use crate::crew;
use crate::effort::Effort;
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use index::fingerprint::{EMPTY, Isa, Tables, match_line, match_two_words, scan_line};
use pmem::medium::{CacheFlush, Memory};
use pmem::sync::{Array, AtomicU64, Line, Ordering, Zeroable};
use pmem::{LINE, Medium as _, Offset, WORD};
use std::fs::File;
use std::hint::{black_box, select_unpredictable};
use std::time::{Duration, Instant};
use workload::ranks::{Ranks, Uniform};
use workload::{Part, Random};

/// About how many bytes a table takes per pair: the array that is read is as large as the table.
pub const BYTES_PER_PAIR: u64 = 20;
/// Reads ahead of the one waited for: about as many as a core has under way at most.
const IN_FLIGHT: usize = 16;
/// At most this many lines are accessed for each figure and thread.
const READS: u64 = 4 << 20;
/// At most this many reads that wait for each other.
const DEPENDENT_READS: u64 = 1 << 20;
/// Persists, at most.
const PERSISTS: u64 = 1 << 19;
/// Bare insertions, at most.
const BARE_INSERTS: u64 = 2 << 20;
/// Bytes of a block of 64 slots, which has a line in the sidecar.
const BLOCK_BYTES: u64 = 1024;
/// Bytes of a bucket of two lines. A key has two buckets. Each has a record in the sidecar.
const BUCKET_BYTES: u64 = 2 * LINE;
/// Bytes of a pair of words.
const PAIR: u64 = 2 * WORD;
/// A bucket's record: its state, and a fingerprint for each of its slots.
type Record = [AtomicU64; 2];
/// Locks by hash, few enough to stay in the caches.
const HOMES: usize = 1 << 13;
/// Spreads second choices: an odd number near 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
static TABLES: Tables = Tables::for_slots(64);
/// A byte whose fingerprint no line here holds.
const ABSENT: u8 = 0xee;
/// The bit of a line that locks it.
const LOCK: u64 = 1 << 7;
/// How long to look for gaps, per line of the table; a table of 64 M pairs gets 4 s.
const STALL_TIME_PER_LINE: Duration = Duration::from_nanos(200);
/// How often the loop looks what it is charged for.
const STALL_LOOK: Duration = Duration::from_micros(50);

/// Memory to measure on, with flushes or without.
pub struct Ground {
    kept: Memory,
    flushed: Option<Memory>,
    lines: u64,
    /// A line for each block, like a table's sidecar.
    sidecar: Array<Line>,
    /// A record for each bucket, like a table's sidecar.
    records: Array<AtomicU64>,
    homes: Array<AtomicU64>,
}

impl Ground {
    /// As much memory as tables of this setting take, on the same medium. All of it is touched.
    pub fn new(setting: &Setting) -> Result<Ground> {
        let bytes = (setting.pairs * BYTES_PER_PAIR).next_multiple_of(2 << 20);
        let flush = CacheFlush::detect();
        let touched = |grown: std::result::Result<(), pmem::SpaceError>| {
            grown.context("making room for the ceilings")
        };
        let (kept, flushed) = match setting.medium {
            Medium::Mapped => {
                let file = tempfile::tempfile_in(&setting.directory)
                    .with_context(|| format!("a file in {}", setting.directory.display()))?;
                let kept = Memory::mapped(file.try_clone()?, 0, bytes, true)?;
                touched(kept.grow(bytes))?;
                let again = |flush| -> Result<_> {
                    let file: File = file.try_clone()?;
                    Ok(Memory::mapped(file, bytes, bytes, true)?.flushed(flush))
                };
                (kept, flush.map(again).transpose()?)
            }
            Medium::Dram | Medium::Delay { .. } | Medium::Optane | Medium::Count | Medium::Disk => {
                let kept = Memory::dram(bytes)?;
                touched(kept.grow(bytes))?;
                (kept, None)
            }
        };
        kept.populate(0..bytes);
        let flushed = match (flushed, flush) {
            (None, Some(flush)) => {
                // A few lines are as good as many: the fence takes the time.
                let flushed = Memory::dram(bytes.min(256 << 20))?.flushed(flush);
                touched(flushed.grow(bytes.min(256 << 20)))?;
                Some(flushed)
            }
            (flushed, _) => flushed,
        };
        if let Some(flushed) = &flushed {
            flushed.populate(0..flushed.size());
        }
        let sidecar = reserved(bytes / BLOCK_BYTES)?;
        let records = reserved(bytes / BUCKET_BYTES * size_of::<Record>() as u64 / WORD)?;
        let homes = reserved(HOMES as u64)?;
        Ok(Ground { kept, flushed, lines: bytes / LINE, sidecar, records, homes })
    }

    /// Measures with this many threads at once.
    pub fn measure(&self, threads: usize, seed: u64) -> Result<Ceilings> {
        let rate = |count: u64, lines: u64, work: &(dyn Fn(&[u64]) -> u64 + Sync)| {
            let count = count * threads as u64;
            let mut offsets = vec![0; count as usize];
            Uniform::new(lines, seed, Part::WHOLE)?.fill(&mut offsets);
            offsets.iter_mut().for_each(|at| *at *= LINE);
            let timing = crew::check("ceiling", &offsets, threads, work)?;
            anyhow::Ok(count as f64 / timing.elapsed_s / threads as f64)
        };
        let reads_1_per_s = rate(DEPENDENT_READS, self.lines, &|offsets| self.dependent(offsets))?;
        let reads_16_per_s = rate(READS, self.lines, &|offsets| self.ahead(offsets))?;
        let bare_gets_per_s = rate(READS, self.lines, &|offsets| self.bare_gets(offsets))?;
        let bare_inserts_per_s =
            rate(BARE_INSERTS, self.lines, &|offsets| self.bare_inserts(offsets))?;
        let bare_two_choice_inserts_per_s =
            rate(BARE_INSERTS, self.lines, &|offsets| self.bare_two_choice_inserts(offsets))?;
        let stores_per_s = rate(READS, self.lines, &|offsets| {
            offsets.iter().for_each(|&at| self.kept.store_release(Offset(at + 8), at));
            0
        })?;
        let durable_rate = |work: fn(&Memory, &[u64]) -> u64| match &self.flushed {
            None => Ok(0.0),
            Some(flushed) => {
                let lines = flushed.size() / LINE;
                rate(PERSISTS, lines, &|offsets| work(flushed, offsets))
            }
        };
        let persists_per_s = durable_rate(persists)?;
        let streams_per_s = durable_rate(streams)?;
        let stall_time = STALL_TIME_PER_LINE * u32::try_from(self.lines).unwrap_or(u32::MAX);
        let seeds = (0..threads as u64).map(|thread| seed ^ thread).collect();
        let (stalls, _) = crew::run(seeds, |seed| self.stalls(seed, stall_time))?;
        let stalls = stalls.into_iter().collect::<Result<Vec<_>>>()?;
        let stall_own_max_ns = stalls.iter().map(|&(_, own_ns)| own_ns).max().unwrap_or(0) as f64;
        let mut gaps_ns: Vec<f64> = stalls.into_iter().flat_map(|(gaps_ns, _)| gaps_ns).collect();
        gaps_ns.sort_by(f64::total_cmp);
        let microseconds = stall_time.as_micros() as usize * threads;
        // Gaps of a microsecond and more are kept: 1 in 10,000 microseconds had one as long as this.
        let rank = gaps_ns.len().saturating_sub(microseconds / 10_000 + 1);
        Ok(Ceilings {
            reads_1_per_s,
            reads_16_per_s,
            bare_gets_per_s,
            bare_inserts_per_s,
            bare_two_choice_inserts_per_s,
            stores_per_s,
            persists_per_s,
            streams_per_s,
            stall_p9999_ns: gaps_ns.get(rank).copied().unwrap_or(0.0),
            stall_max_ns: gaps_ns.last().copied().unwrap_or(0.0),
            stall_own_max_ns,
        })
    }

    /// Gaps of a microsecond and more between two stores to cold lines, in nanoseconds; and the longest time that the
    /// thread is charged for in such a gap, page faults aside, although it stored one word.
    ///
    /// A thread that touches no memory is charged for a hundredth of that. If the machine is a guest, its host's work
    /// on memory counts as the thread's time.
    fn stalls(&self, seed: u64, time: Duration) -> Result<(Vec<f64>, u64)> {
        let mut random = Random::new(seed);
        let mut gaps_ns = Vec::with_capacity(1 << 16);
        let mut effort = Effort::begin()?;
        let started = Instant::now();
        let (mut last, mut began) = (started, started);
        let mut gap_max = Duration::ZERO;
        while last - started < time {
            let line = random.below(self.lines);
            self.kept.store_release(Offset(line * LINE + 8), line);
            let now = Instant::now();
            let gap = now - last;
            if gap >= Duration::from_micros(1) && gaps_ns.len() < gaps_ns.capacity() {
                gaps_ns.push(gap.as_nanos() as f64);
            }
            gap_max = gap_max.max(gap);
            last = now;
            // As often as a thread that does real work.
            if now - began >= STALL_LOOK {
                effort.look_at(gap_max.as_nanos() as u64)?;
                gap_max = Duration::ZERO;
                // The time of the look is no gap.
                last = Instant::now();
                began = last;
            }
        }
        Ok((gaps_ns, effort.end()?.0))
    }

    /// Word 0 of every line is 0, so any other answer is wrong.
    fn dependent(&self, offsets: &[u64]) -> u64 {
        let mut last = 0;
        for &at in offsets {
            last |= self.kept.load(Offset(at + last));
        }
        u64::from(last != 0)
    }

    fn bare_gets(&self, offsets: &[u64]) -> u64 {
        let (isa, near) = (Isa::detect(), TABLES.near(0));
        let mut sum = 0;
        for &at in offsets {
            let line = &self.sidecar.get((at / BLOCK_BYTES) as usize).0;
            // Whatever this finds, the processor has to wait for it; word 0 of either line is 0.
            let matches = match_line(isa, line, TABLES.sought(ABSENT, near));
            sum |= self.kept.load(Offset(at ^ matches & LINE));
        }
        u64::from(sum != 0)
    }

    fn bare_inserts(&self, offsets: &[u64]) -> u64 {
        let (isa, near) = (Isa::detect(), TABLES.near(0));
        let mut sum = 0;
        for &at in offsets {
            let line = &self.sidecar.get((at / BLOCK_BYTES) as usize).0;
            let (matches, _) = scan_line(isa, line, TABLES.sought(ABSENT, near));
            let slot = Offset(at ^ matches & LINE);
            self.kept.prefetch_write(slot);
            while line[0].fetch_or(LOCK, Ordering::Acquire) & LOCK != 0 {
                std::hint::spin_loop();
            }
            sum |= scan_line(isa, line, TABLES.sought(ABSENT, near)).0;
            self.kept.store_pair(slot, 0, at);
            line[1].store(at, Ordering::Relaxed);
            line[0].store(0, Ordering::Release);
        }
        black_box(sum);
        0
    }

    fn bare_two_choice_inserts(&self, offsets: &[u64]) -> u64 {
        let (records, _) = self.records.as_slice().as_chunks();
        let record = |bucket: u64| -> &Record { &records[bucket as usize] };
        let lock = |word: &AtomicU64| {
            while word.fetch_or(LOCK, Ordering::Acquire) & LOCK != 0 {
                std::hint::spin_loop();
            }
        };
        let mut sum = 0;
        for &at in offsets {
            let spread = at.wrapping_mul(SPREAD);
            let second = ((u128::from(spread) * records.len() as u128) >> 64) as u64;
            let both = [at / BUCKET_BYTES, second];
            let states = both.map(|bucket| record(bucket)[0].load(Ordering::Acquire));
            let prints = both.map(|bucket| record(bucket)[1].load(Ordering::Acquire));
            sum |= u64::from(match_two_words(prints, ABSENT));
            let empty = match_two_words(prints, EMPTY);
            // Always true: nobody stores a fingerprint. But the processor has to wait for both records to know it.
            let is_first = (empty & 0xff).count_ones() >= (empty >> 8).count_ones();
            let bucket = select_unpredictable(is_first, both[0], both[1]);
            let slot = Offset(bucket * BUCKET_BYTES + u64::from(empty.trailing_zeros() & 3) * PAIR);
            self.kept.prefetch_write(slot);
            let (chosen, other) = (record(bucket), record(both[0] ^ both[1] ^ bucket));
            let home = self.homes.get(spread as usize & (HOMES - 1));
            lock(home);
            lock(&chosen[0]);
            sum |= other[0].load(Ordering::Relaxed) ^ states[0];
            self.kept.store_pair(slot, 0, at);
            chosen[1].store(prints[0], Ordering::Relaxed);
            chosen[0].store(0, Ordering::Release);
            home.store(0, Ordering::Release);
        }
        black_box(sum);
        0
    }

    fn ahead(&self, offsets: &[u64]) -> u64 {
        let mut sum = 0;
        for (index, &at) in offsets.iter().enumerate() {
            if let Some(&ahead) = offsets.get(index + IN_FLIGHT) {
                self.kept.prefetch(Offset(ahead));
            }
            sum |= self.kept.load(Offset(at));
        }
        u64::from(sum != 0)
    }
}

/// Memory for a sidecar, all of it touched.
fn reserved<T: Zeroable>(len: u64) -> Result<Array<T>> {
    let len = len as usize;
    let array = Array::reserve(len, len).context("making room for the ceilings")?;
    array.advise(0..len, true);
    Ok(array)
}

fn persists(memory: &Memory, offsets: &[u64]) -> u64 {
    for &at in offsets {
        memory.store_release(Offset(at + 8), at);
        memory.persist(Offset(at));
    }
    0
}

fn streams(memory: &Memory, offsets: &[u64]) -> u64 {
    for &at in offsets {
        memory.stream_pair(Offset(at), 0, at);
        memory.fence();
    }
    0
}

/// One round of suite `ceilings`: the ceilings as rows of contender `machine`.
pub fn rows(setting: &Setting, ceilings: &Ceilings) -> Vec<Row> {
    let row = |op: &str| Row {
        medium: Some(setting.medium.to_string()),
        threads: Some(setting.threads),
        pairs: Some(setting.pairs),
        ..Row::new("ceilings", op, "machine")
    };
    let rate = |op, per_thread: f64| row(op).with_rate(per_thread * setting.threads as f64, None);
    vec![
        rate("read_line_1", ceilings.reads_1_per_s),
        rate("read_line_16", ceilings.reads_16_per_s),
        rate("bare_get", ceilings.bare_gets_per_s),
        rate("bare_insert", ceilings.bare_inserts_per_s),
        rate("bare_insert_two_choices", ceilings.bare_two_choice_inserts_per_s),
        rate("store_line", ceilings.stores_per_s),
        rate("persist_line", ceilings.persists_per_s),
        rate("stream_pair", ceilings.streams_per_s),
        Row {
            p9999_ns: Some(ceilings.stall_p9999_ns),
            max_ns: Some(ceilings.stall_max_ns),
            own_max_ns: Some(ceilings.stall_own_max_ns),
            ..row("stall")
        },
    ]
}
