//! Batches: cache misses overlapped, one fence for many operations.
//!
//! A batch of mutations takes all locks it can get without waiting, stores and flushes, fences once, then shows what it
//! stored and unlocks. A LOCK-prefixed instruction between a flush and the fence would wait for the flush, so there is
//! none. What does not fit this pattern is done singly afterwards, in order: a lock held by another thread or by an
//! earlier entry of the batch, a key in level 2 or 3, a full block. A batch never waits while it holds unfenced work,
//! so two batches cannot wait for each other.

use super::Core;
use super::block::{Done, Locked, Probe, Show, Unfenced, order_stores};
use super::layout::Geometry;
use arrayvec::ArrayVec;
use index::fingerprint::{Isa, Work, lanes, match_line, scan_line};
use index::{Change, Error, Unfinished};
use pmem::Medium;
use pmem::line_log::Sequence;
use pmem::sync::{Ordering, fence};

/// Look-ups done together: enough to overlap all the misses a core can have under way, few enough that their lines stay
/// in its first-level cache.
const LOOKUPS: usize = u64::BITS as usize;
/// Mutations done together; more would hold more locks at once and gain little.
const MUTATIONS: usize = 32;

/// A batch of look-ups, to run on any instruction set.
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

/// A batch of mutations, to run on any instruction set.
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
        let Mutations { core, items, out, key_of, decide } = self;
        if core.medium().flushes() {
            core.mutate_batch::<true, T>(isa, items, out, key_of, decide)
        } else {
            core.mutate_batch::<false, T>(isa, items, out, key_of, decide)
        }
    }
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

    /// Returns `false` if a resize is under way or began meanwhile; then nothing in `out` counts.
    #[inline(always)]
    fn get_batch(&self, isa: Isa, keys: &[u64], out: &mut [Option<u64>]) -> bool {
        let (aim, geometry) = self.aim();
        if geometry.is_resizing() {
            return false;
        }
        let mut probes = ArrayVec::<_, LOOKUPS>::new();
        // No more than fit: so the compiler does not ask at each one whether it does.
        for &key in &keys[..keys.len().min(LOOKUPS)] {
            let probe = self.probe(aim, self.hasher.first_u64(key));
            probe.prefetch_line();
            probes.push(probe);
        }
        let mut candidates = [0; LOOKUPS];
        // A bit for each key: whether any fingerprint matches, and whether it may have spilled. Which these are is
        // unpredictable, and a misprediction costs more than all the rest. So the keys are told apart, and their slots
        // fetched, without a branch.
        let (mut matching, mut spilled) = (0u64, 0u64);
        for (index, (probe, candidates)) in probes.iter().zip(&mut candidates).enumerate() {
            // Kept beside the list: what is read from there behind the fence is read anew.
            let matches = match_line(isa, probe.line, self.sought(probe));
            *candidates = matches;
            // The fingerprints read above vouch for the slots and the SPILLED flags read below.
            fence(Ordering::Acquire);
            probe.prefetch_candidate(self.medium(), matches);
            matching |= u64::from(matches != 0) << (index % LOOKUPS);
            spilled |= u64::from(probe.may_have_spilled()) << (index % LOOKUPS);
        }
        for index in lanes(spilled & !matching) {
            self.prefetch_2(geometry, keys[index], probes[index].first);
        }
        let undecided = matching | spilled;
        if undecided.trailing_ones() as usize == keys.len() {
            // The usual case when every key is present. To go by the bits would be a detour.
            for (((&key, probe), &candidates), out) in
                keys.iter().zip(&probes).zip(&candidates).zip(out)
            {
                *out = self.get_probed(geometry, key, probe, candidates, || true);
            }
        } else {
            out.fill(None);
            for index in lanes(undecided) {
                let (key, probe, candidates) = (keys[index], &probes[index], candidates[index]);
                out[index] = self.get_probed(geometry, key, probe, candidates, || true);
            }
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
    ) -> Result<(), Unfinished<Error>> {
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
    ) -> Result<(), Unfinished<Error>> {
        let chunks = items.chunks(MUTATIONS).zip(out.chunks_mut(MUTATIONS));
        for (nth, (items, out)) in chunks.enumerate() {
            let (key_of, decide) = (&key_of, &decide);
            let mutations = Mutations { core: self, items, out: &mut *out, key_of, decide };
            let finished = self.isa.run(mutations);
            if finished.count_ones() as usize == items.len() {
                continue;
            }
            let all = u32::MAX >> (MUTATIONS - items.len());
            let mut left = all & !finished;
            while left != 0 {
                let index = left.trailing_zeros() as usize;
                let item = &items[index];
                match self.mutate(key_of(item), |found| decide(item, found)) {
                    Ok(found) => out[index] = found,
                    // All before it are done by now, and so are some behind it.
                    Err(error) => {
                        let done = all & !left;
                        return Err(Unfinished::in_chunk(nth * MUTATIONS, done, index, error));
                    }
                }
                left &= left - 1;
            }
        }
        Ok(())
    }

    /// Does what it can without waiting and with one fence; returns which items it has done.
    #[inline(always)]
    fn mutate_batch<const FLUSHES: bool, T>(
        &self,
        isa: Isa,
        items: &[T],
        out: &mut [Option<u64>],
        key_of: &impl Fn(&T) -> u64,
        decide: &impl Fn(&T, Option<u64>) -> Change<u64>,
    ) -> u32 {
        let (aim, geometry) = self.aim();
        if geometry.is_resizing() {
            return 0;
        }
        let mut probes = ArrayVec::<_, MUTATIONS>::new();
        for item in items {
            let probe = self.probe(aim, self.hasher.first_u64(key_of(item)));
            probe.prefetch_line_to_write();
            probe.prefetch_preferred_to_write(self.medium());
            probes.push(probe);
        }
        let mut locks = [const { None::<Locked<'_>> }; MUTATIONS];
        // All of these are read under the lock.
        let mut sequences = [Sequence::NONE; MUTATIONS];
        let mut candidates = [0; MUTATIONS];
        let mut empties = [0; MUTATIONS];
        // Of two entries for one block, the first gets the lock and the second does not. All entries for a block that
        // another thread holds are put off, so that they keep their order.
        let mut refused = [u64::MAX; MUTATIONS];
        let mut refusals = 0;
        for (index, probe) in probes.iter().enumerate() {
            if refusals == 0 || !refused[..refusals].contains(&probe.home()) {
                locks[index] = Locked::attempt(probe.flags());
            }
            if locks[index].is_none() {
                refused[refusals] = probe.home();
                refusals += 1;
                continue;
            }
            if FLUSHES {
                sequences[index] = self.medium().sequence(probe.slots.offset(self.medium(), 0));
            }
            let (matches, empty) = scan_line(isa, probe.line, self.sought(probe));
            candidates[index] = matches;
            empties[index] = empty;
            self.prefetch_likely(probe, candidates[index], empty);
        }
        if self.geometry() != geometry {
            return 0;
        }
        let mut shows = [Show::Nothing; MUTATIONS];
        let (mut finished, mut inserted, mut removed) = (0, 0, 0);
        let mut is_stored = false;
        for (index, ((item, probe), out)) in items.iter().zip(&probes).zip(&mut *out).enumerate() {
            if locks[index].is_none() {
                continue;
            }
            let decide = |found| decide(item, found);
            let (candidates, empties) = (candidates[index], empties[index]);
            let Some(unfenced) =
                self.mutate_probed(probe, candidates, empties, key_of(item), decide)
            else {
                continue;
            };
            if FLUSHES {
                if let Some(lane) = unfenced.stored {
                    self.flush_slot(probe.slots.offset(self.medium(), lane), sequences[index]);
                    is_stored = true;
                }
                shows[index] = unfenced.show;
            } else {
                order_stores();
                unfenced.show.on(probe.line);
                locks[index] = None;
            }
            finished |= 1 << index;
            let Done { found, change } = unfenced.done;
            *out = found;
            match (found, change) {
                (None, Change::Put(_)) => inserted += 1,
                (Some(_), Change::Remove) => removed += 1,
                _ => {}
            }
        }
        if is_stored {
            self.medium().fence();
        }
        if FLUSHES {
            for ((probe, lock), show) in probes.iter().zip(&mut locks).zip(shows) {
                show.on(probe.line);
                *lock = None;
            }
        }
        // Also drops the locks of items that did not fit: counting may move blocks, which waits for locks.
        drop(locks);
        self.count_changes(inserted, removed);
        finished
    }

    /// Does a mutation in level 1, whose block is locked. Returns `None`, and does nothing, if level 1 does not
    /// suffice.
    #[inline(always)]
    fn mutate_probed(
        &self,
        probe: &Probe<'_, M>,
        candidates: u64,
        empties: u64,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Unfenced> {
        if key == 0 {
            return None;
        }
        let changed = self.change_candidate(probe, candidates, key, &decide);
        if changed.is_some() {
            return changed;
        }
        if probe.may_have_spilled()
            && !self.is_absent_beyond_level_1(probe.home(), key, probe.first)
        {
            return None;
        }
        self.insert_unfenced(probe, key, empties, decide)
    }
}
