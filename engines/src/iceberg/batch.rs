//! Batches: cache misses overlapped, one fence for many operations.
//!
//! A batch of mutations takes all locks it can get without waiting, then stores and flushes,
//! then fences once, then shows what it stored and unlocks. A LOCK-prefixed instruction between a
//! flush and the fence would wait for the flush, so none stands there. Whatever does not fit this
//! pattern (a lock held by another thread or by an earlier entry of the batch, a key in level 2 or
//! 3, a full block) is done singly afterwards, in order: while it holds unfenced work a batch
//! never waits, so two batches cannot wait for each other.

use super::Core;
use super::block::{Done, Locked, Probe, Unfenced};
use super::hash::level1_fingerprint;
use super::layout::{FLAGS_WORD, Geometry, SPILLED, lane_from, slot_of};
use index::fingerprint::{Isa, Work, match_line, scan_line};
use index::{Change, Error};
use pmem::Medium;
use pmem::line_log::Sequence;
use pmem::sync::{Ordering, fence};

/// Look-ups done together: enough to overlap all misses a core can have under way, few enough
/// that their lines stay in its first-level cache.
const LOOKUPS: usize = 64;
/// Mutations done together; more would hold more locks at once for little.
const MUTATIONS: usize = 32;

/// Look-ups to be done for whatever instruction set.
struct Lookups<'a, M: Medium> {
    core: &'a Core<M>,
    keys: &'a [u64],
    out: &'a mut [Option<u64>],
}

impl<M: Medium> Work for Lookups<'_, M> {
    type Output = bool;

    #[inline(always)]
    fn run(self, isa: Isa) -> bool {
        self.core.get_batch(isa, self.keys, self.out)
    }
}

/// Mutations to be done for whatever instruction set.
struct Mutations<'a, M: Medium, T, K, D> {
    core: &'a Core<M>,
    items: &'a [T],
    out: &'a mut [Option<u64>],
    key_of: &'a K,
    decide: &'a D,
}

impl<M, T, K, D> Work for Mutations<'_, M, T, K, D>
where
    M: Medium,
    K: Fn(&T) -> u64,
    D: Fn(&T, Option<u64>) -> Change<u64>,
{
    type Output = u32;

    #[inline(always)]
    fn run(self, isa: Isa) -> u32 {
        self.core.mutate_batch(isa, self.items, self.out, self.key_of, self.decide)
    }
}

/// A mutation on its way.
struct Entry<'a> {
    /// Its candidates are those seen under the lock.
    probe: Probe,
    /// The block's lock, if it could be had.
    lock: Option<Locked<'a>>,
    /// Drawn under the lock.
    sequence: Sequence,
    /// Empty lanes of the block, seen under the lock.
    empties: u64,
    /// What it did, if level 1 sufficed.
    unfenced: Option<Unfenced>,
}

impl Entry<'_> {
    const NONE: Self = Entry {
        probe: Probe::NONE,
        lock: None,
        sequence: Sequence::NONE,
        empties: 0,
        unfenced: None,
    };
}

impl<M: Medium> Core<M> {
    pub(super) fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        for (keys, out) in keys.chunks(LOOKUPS).zip(out.chunks_mut(LOOKUPS)) {
            let is_done = self.isa.run(Lookups { core: self, keys, out });
            if !is_done {
                keys.iter().zip(out).for_each(|(&key, out)| *out = self.get(key));
            }
        }
    }

    /// `false` if a resize is under way or began meanwhile; then nothing in `out` counts.
    #[inline(always)]
    fn get_batch(&self, isa: Isa, keys: &[u64], out: &mut [Option<u64>]) -> bool {
        let geometry = self.geometry();
        if geometry.is_resizing() {
            return false;
        }
        let mut probes = [Probe::NONE; LOOKUPS];
        let probes = &mut probes[..keys.len()];
        for (&key, probe) in keys.iter().zip(&mut *probes) {
            self.aim(probe, geometry, self.hasher.first_u64(key));
            self.lines.prefetch(probe.home() as usize);
        }
        // Those that their fingerprints leave undecided. Gathered without a branch: which they are,
        // nobody can predict, and a misprediction costs more than all the rest.
        let mut undecided = [0; LOOKUPS];
        let mut undecided_len = 0;
        for (index, probe) in probes.iter_mut().enumerate() {
            let line = self.line_1(probe.home());
            let matches = match_line(isa, line, level1_fingerprint(probe.first));
            probe.candidates = matches.rotate_right(probe.preferred() as u32);
            fence(Ordering::Acquire);
            let spilled = line[FLAGS_WORD].load(Ordering::Acquire) & SPILLED;
            undecided[undecided_len & (LOOKUPS - 1)] = index as u8;
            undecided_len += usize::from(probe.candidates | spilled != 0);
        }
        let undecided = &undecided[..undecided_len];
        for index in undecided.iter().map(|&index| usize::from(index)) {
            let probe = &probes[index];
            if probe.candidates != 0 {
                let likely = lane_from(probe.preferred(), probe.candidates);
                self.medium().prefetch(slot_of(probe.block, likely));
            } else {
                self.prefetch_2(geometry, keys[index], probe.first);
            }
        }
        out.fill(None);
        for index in undecided.iter().map(|&index| usize::from(index)) {
            let probe = &probes[index];
            let flags = self.flags_1(probe.home());
            out[index] = self.get_probed(geometry, keys[index], probe, flags, || true);
        }
        fence(Ordering::Acquire);
        self.geometry() == geometry
    }

    /// Prefetches the fingerprints of a key's level-2 blocks.
    #[inline(always)]
    fn prefetch_2(&self, geometry: Geometry, key: u64, first: u64) {
        for block in self.choices(geometry, key, first).blocks {
            self.words.prefetch(block as usize);
        }
    }

    /// Does a mutation for each item in order; `out[i]` is the state that item `i` found.
    pub(super) fn mutate_many<T>(
        &self,
        items: &[T],
        out: &mut [Option<u64>],
        key_of: impl Fn(&T) -> u64,
        decide: impl Fn(&T, Option<u64>) -> Change<u64>,
    ) -> Result<(), Error> {
        if const { M::IS_BARE } {
            self.mutate_each(items, out, key_of, decide)
        } else {
            let key_of = &key_of as &dyn Fn(&T) -> u64;
            let decide = &decide as &dyn Fn(&T, Option<u64>) -> Change<u64>;
            self.mutate_each(items, out, key_of, decide)
        }
    }

    fn mutate_each<T>(
        &self,
        items: &[T],
        out: &mut [Option<u64>],
        key_of: impl Fn(&T) -> u64,
        decide: impl Fn(&T, Option<u64>) -> Change<u64>,
    ) -> Result<(), Error> {
        for (items, out) in items.chunks(MUTATIONS).zip(out.chunks_mut(MUTATIONS)) {
            let (key_of, decide) = (&key_of, &decide);
            let finished = self.isa.run(Mutations { core: self, items, out, key_of, decide });
            if finished.count_ones() as usize == items.len() {
                continue;
            }
            for (index, item) in items.iter().enumerate() {
                if finished & 1 << index == 0 {
                    out[index] = self.mutate(key_of(item), |found| decide(item, found))?;
                }
            }
        }
        Ok(())
    }

    /// Does what can be done without waiting and with one fence; returns which items that were.
    #[inline(always)]
    fn mutate_batch<T>(
        &self,
        isa: Isa,
        items: &[T],
        out: &mut [Option<u64>],
        key_of: &impl Fn(&T) -> u64,
        decide: &impl Fn(&T, Option<u64>) -> Change<u64>,
    ) -> u32 {
        let geometry = self.geometry();
        if geometry.is_resizing() {
            return 0;
        }
        let mut entries = [const { Entry::NONE }; MUTATIONS];
        let entries = &mut entries[..items.len()];
        for (item, entry) in items.iter().zip(&mut *entries) {
            let probe = &mut entry.probe;
            self.aim(probe, geometry, self.hasher.first_u64(key_of(item)));
            self.lines.prefetch_write(probe.home() as usize);
            self.medium().prefetch_write(slot_of(probe.block, probe.preferred()));
        }
        // Two entries of one block: the first gets the lock, the second does not. Entries of a
        // block held by another thread are put off together, so that their order is kept.
        let mut refused = [u64::MAX; MUTATIONS];
        let mut refusals = 0;
        for entry in &mut *entries {
            let probe = &mut entry.probe;
            let line = self.line_1(probe.home());
            if refusals == 0 || !refused[..refusals].contains(&probe.home()) {
                entry.lock = Locked::attempt(&line[FLAGS_WORD]);
            }
            if entry.lock.is_none() {
                refused[refusals] = probe.home();
                refusals += 1;
                continue;
            }
            entry.sequence = self.medium().sequence(probe.block);
            let (matches, empties) = scan_line(isa, line, level1_fingerprint(probe.first));
            probe.candidates = matches.rotate_right(probe.preferred() as u32);
            entry.empties = empties;
            self.prefetch_likely(&entry.probe, empties);
        }
        if self.geometry() != geometry {
            return 0;
        }
        let mut is_stored = false;
        for (item, entry) in items.iter().zip(&mut *entries) {
            if entry.lock.is_some() {
                let decide = |found| decide(item, found);
                entry.unfenced = self.mutate_entry(entry, key_of(item), decide);
                if let Some(slot) = entry.unfenced.and_then(|unfenced| unfenced.stored) {
                    self.flush_slot(slot, entry.sequence);
                    is_stored = true;
                }
            }
        }
        if is_stored {
            self.medium().fence();
        }
        let (mut finished, mut inserted, mut removed) = (0, 0, 0);
        for (index, (entry, out)) in entries.iter_mut().zip(out).enumerate() {
            if let Some(unfenced) = entry.unfenced {
                unfenced.show(self.line_1(entry.probe.home()));
                let Done { found, change } = unfenced.done;
                *out = found;
                finished |= 1 << index;
                match (found, change) {
                    (None, Change::Put(_)) => inserted += 1,
                    (Some(_), Change::Remove) => removed += 1,
                    _ => {}
                }
            }
            entry.lock = None;
        }
        self.count_changes(inserted, removed);
        finished
    }

    /// Does a mutation in level 1, whose block is locked. `None`, and nothing
    /// done, if level 1 does not suffice.
    #[inline(always)]
    fn mutate_entry(
        &self,
        entry: &Entry<'_>,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Unfenced> {
        if key == 0 {
            return None;
        }
        let probe = &entry.probe;
        let changed = self.change_candidate(probe, key, &decide);
        if changed.is_some() {
            return changed;
        }
        if self.flags_1(probe.home()).load(Ordering::Relaxed) & SPILLED != 0
            && !self.is_absent_beyond_level_1(probe.home(), key, probe.first)
        {
            return None;
        }
        self.insert_unfenced(probe, key, entry.empties, decide)
    }
}
