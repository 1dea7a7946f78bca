//! The fast path, in as few instructions as it needs.
//!
//! A processor overlaps the cache misses of successive operations only while they fit its reorder window together: some
//! hundred instructions. So the fast path handles only the usual case: no resize is under way, the key is not 0, its
//! block's lock is free, level 1 suffices for a change, and matching a line takes a few instructions. In every other
//! case it has done nothing, and the slow path of `search` or `ops` begins again.

use super::Core;
use super::block::{Done, Locked, Probe, lane_to_fill, order_stores};
use super::layout::{Geometry, LOCK};
use index::fingerprint::{match_line_fast, scan_line_fast};
use index::{Change, Error, Exchange, is_same_state};
use pmem::Medium;
use pmem::line_log::Sequence;
use pmem::opaque;
use pmem::sync::{Numbered, Ordering, fence};

impl<M: Medium> Core<M> {
    /// Like [`Core::get_slow`].
    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        let first = self.hasher.first_u64(key);
        // During a resize, this looks at some block in vain. To ask first would cost all others two instructions.
        let (aim, geometry) = self.aim();
        let probe = self.probe(aim, first);
        // If the guess is good, two misses at once instead of one after the other.
        probe.prefetch_preferred(self.medium());
        let Some(matches) = match_line_fast(self.isa, probe.line, self.sought(&probe)) else {
            return self.get_slow(key, first);
        };
        // A fingerprint read above vouches for the slot read below.
        fence(Ordering::Acquire);
        self.get_probed(geometry, key, &probe, matches, || self.geometry() == geometry)
    }

    /// The value of a key, after the fingerprints of its block have been read. `is_current` says whether the geometry
    /// is unchanged; a caller that checks this itself passes `true`.
    #[inline(always)]
    pub(super) fn get_probed(
        &self,
        geometry: Geometry,
        key: u64,
        probe: &Probe<'_, M>,
        mut candidates: u64,
        is_current: impl Fn() -> bool,
    ) -> Option<u64> {
        let slow = || self.get_slow(key, probe.first);
        while candidates != 0 {
            let lane = candidates.trailing_zeros() as usize;
            let (found, value) = probe.slots.load_pair(self.medium(), lane);
            if found == key && key != 0 {
                // A pair under the lock may not be durable yet.
                let is_locked = probe.flags().load(Ordering::Acquire) & LOCK != 0;
                return if is_locked || !is_current() { slow() } else { Some(value) };
            }
            if found == 0 {
                // A removal that may not be durable yet; or this is key 0, which is not here.
                return slow();
            }
            candidates &= candidates - 1;
        }
        let may_have_spilled = probe.may_have_spilled();
        if !is_current() {
            return slow();
        }
        if !may_have_spilled {
            return None;
        }
        let found = self.search_spilled(geometry, key, probe.first, [probe.home(); 2]);
        fence(Ordering::Acquire);
        if is_current() { found } else { slow() }
    }

    /// Hints that a key is about to be looked up or changed.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: u64) {
        let first = self.hasher.first_u64(key);
        let (aim, geometry) = self.aim();
        if geometry.is_resizing() {
            let home = self.geometry().home(first);
            return self.blocks_1.prefetch_line_to_write(home);
        }
        let probe = self.probe(aim, first);
        probe.prefetch_line_to_write();
        probe.prefetch_preferred_to_write(self.medium());
    }

    /// Like [`Core::mutate_slow`].
    #[inline(always)]
    pub(super) fn mutate(
        &self,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Result<Option<u64>, Error> {
        if const { !M::IS_BARE } {
            let decide = &decide as &dyn Fn(Option<u64>) -> Change<u64>;
            if self.medium().flushes() {
                self.mutate_one::<true>(key, decide)
            } else {
                self.mutate_one::<false>(key, decide)
            }
        } else if self.medium().flushes() {
            self.mutate_one::<true>(key, decide)
        } else {
            self.mutate_one::<false>(key, decide)
        }
    }

    #[inline(always)]
    fn mutate_one<const FLUSHES: bool>(
        &self,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Result<Option<u64>, Error> {
        let first = self.hasher.first_u64(key);
        match self.mutate_fast::<FLUSHES>(key, first, &decide) {
            Some(done) => {
                self.count_done(done);
                Ok(done.found)
            }
            None => self.mutate_otherwise(key, first, decide),
        }
    }

    /// Whether changes are flushed.
    #[inline(always)]
    pub(super) fn flushes(&self) -> bool {
        self.medium().flushes()
    }

    /// [`Core::mutate`] for callers that it is compiled into, as long as the fast path suffices. On a medium that does
    /// not flush. Returns what was found, or `None` if nothing was done.
    #[inline(always)]
    pub(super) fn mutate_here(
        &self,
        key: u64,
        thread: Numbered,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Option<u64>> {
        debug_assert!(!self.flushes());
        let done = self.mutate_fast::<false>(key, self.hasher.first_u64(key), &decide)?;
        if let Some(word) = done.counted_in() {
            self.counted_one(self.counts.add_one(thread, word));
        }
        Some(done.found)
    }

    /// Returns what was found and done, or `None` if the fast path does not suffice.
    #[inline(always)]
    fn mutate_fast<const FLUSHES: bool>(
        &self,
        key: u64,
        first: u64,
        decide: &impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Done> {
        let (aim, geometry) = self.aim();
        if geometry.is_resizing() || key == 0 {
            return None;
        }
        // There are hardly enough registers: what would be kept to compute these anew takes some.
        let mut probe = self.probe(aim, opaque::word(first));
        probe.line = opaque::reference(probe.line);
        probe.prefetch_preferred_to_write(self.medium());
        if FLUSHES {
            // Before the lock, whose instruction waits for the previous operation's fence: the misses of this operation
            // overlap with that wait.
            let (matches, empties) = scan_line_fast(self.isa, probe.line, self.sought(&probe))?;
            self.prefetch_likely(&probe, matches, empties);
        }
        let locked = Locked::attempt(probe.flags())?;
        if self.geometry() != geometry {
            return None;
        }
        // Drawn before anything is stored: waiting for earlier stores costs nothing now.
        let sequence = if FLUSHES {
            self.medium().sequence(probe.slots.offset(self.medium(), 0))
        } else {
            Sequence::NONE
        };
        // Only a look under the lock proves that the key is absent.
        let (matches, empties) = scan_line_fast(self.isa, probe.line, self.sought(&probe))?;
        let changed = self.change_candidate(&probe, matches, key, decide);
        let unfenced = match changed {
            Some(changed) => changed,
            None if probe.may_have_spilled() => return None,
            None => self.insert_unfenced(&probe, key, empties, decide)?,
        };
        // Makes the store durable, shows it, and releases the lock.
        if let Some(lane) = unfenced.stored {
            if FLUSHES {
                self.persist_slot(probe.slots.offset(self.medium(), lane), sequence);
            } else {
                order_stores();
            }
        }
        unfenced.show.on(probe.line);
        drop(locked);
        Some(unfenced.done)
    }

    /// Prefetches the slot that a mutation is likely to change, whether the key is present or not.
    #[inline(always)]
    pub(super) fn prefetch_likely(&self, probe: &Probe<'_, M>, candidates: u64, empties: u64) {
        let room = lane_to_fill(empties, probe.preferred());
        let likely = if candidates == 0 { room } else { candidates.trailing_zeros() as usize };
        probe.slots.prefetch_write(self.medium(), likely);
    }

    #[inline(always)]
    pub(super) fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |found| Change::if_absent(found, value))
    }

    #[inline(always)]
    pub(super) fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |found| Change::if_present(found, value))
    }

    #[inline(always)]
    pub(super) fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |_| Change::Put(value))
    }

    #[inline(always)]
    pub(super) fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |_| Change::Remove)
    }

    #[inline(always)]
    pub(super) fn compare_exchange(
        &self,
        key: u64,
        expected: Option<u64>,
        new: Option<u64>,
    ) -> Result<Exchange<u64>, Error> {
        let found =
            self.mutate(key, |found| Change::if_expected(is_same_state(found, expected), new))?;
        Ok(if is_same_state(found, expected) { Ok(()) } else { Err(found) })
    }
}
