//! Queries (section 3.2): level 1, then 2, then 3.
//!
//! A hit reads one line of the pool, and in one case in fourteen one more, because of a false fingerprint match. A miss
//! reads only lines of false matches, in one case in seven. Level 3 is not counted here.

use super::Core;
use super::block::matches_2;
use super::hash::h0;
use super::layout::{Geometry, LOCK};
use super::resize::Stale;
use index::fingerprint::lanes;
use pmem::sync::{Ordering, fence};
use pmem::{Medium, Offset};

impl<M: Medium> Core<M> {
    /// The value of `key`. Takes no lock. It starts over if a resize began or ended meanwhile, and walks a level-3
    /// chain again if the chain changed.
    pub(super) fn get_slow(&self, key: u64, first: u64) -> Option<u64> {
        loop {
            let geometry = self.geometry();
            let found = self.search(geometry, key, first);
            fence(Ordering::Acquire);
            // On a hit too: the geometry tells where the lock of the key's block is.
            if self.geometry() == geometry {
                return found;
            }
        }
    }

    #[inline(always)]
    pub(super) fn search(&self, geometry: Geometry, key: u64, first: u64) -> Option<u64> {
        if geometry.is_building() {
            return self.search_unbuilt(geometry, key, first);
        }
        let home = geometry.home(h0(first));
        let source = geometry.source_1(h0(first));
        if key != 0 {
            if source != home
                && let Some(value) = self.search_1(source, first, key, [source, home])
            {
                return Some(value);
            }
            if let Some(value) = self.search_1(home, first, key, [source, home]) {
                return Some(value);
            }
        }
        if !self.may_have_spilled([source, home], first) {
            return None;
        }
        self.search_beyond_level_1(geometry, key, first, [source, home])
    }

    /// The rest of a search that has found nothing in level 1.
    pub(super) fn search_beyond_level_1(
        &self,
        geometry: Geometry,
        key: u64,
        first: u64,
        [source, home]: [u64; 2],
    ) -> Option<u64> {
        let found = self.search_spilled(geometry, key, first, [source, home]);
        if found.is_none() && geometry.is_draining() && key != 0 {
            // The pair may have gone home between the look at level 1 and the one at level 2. What shows that it is no
            // longer there shows that it is here.
            fence(Ordering::Acquire);
            return self.search_1(home, first, key, [home; 2]);
        }
        found
    }

    #[inline(always)]
    pub(super) fn search_1(
        &self,
        block: u64,
        first: u64,
        key: u64,
        homes: [u64; 2],
    ) -> Option<u64> {
        lanes(self.matches_1(block, first))
            .find_map(|lane| self.read(self.slot_1(block, lane), key, homes))
    }

    /// Levels 2 and 3. `homes`: the key's level-1 block and that block's source.
    pub(super) fn search_spilled(
        &self,
        geometry: Geometry,
        key: u64,
        first: u64,
        homes: [u64; 2],
    ) -> Option<u64> {
        if key != 0 {
            let choices = self.choices(geometry, key, first);
            // Moves go from a source to a destination: all sources come first.
            let sources = geometry
                .resizing_2()
                .then(|| self.choices_among(geometry.source_blocks_2(), key, first));
            for choices in sources.into_iter().chain([choices]) {
                for (block, fingerprint) in choices.both() {
                    let found = self.search_2(block, fingerprint, key, homes);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        self.search_3(key, homes)
    }

    #[inline(always)]
    pub(super) fn search_2(
        &self,
        block: u64,
        fingerprint: u8,
        key: u64,
        homes: [u64; 2],
    ) -> Option<u64> {
        let word = self.word_2(block).load(Ordering::Acquire);
        lanes(matches_2(word, fingerprint))
            .find_map(|lane| self.read(self.slot_2(block, lane), key, homes))
    }

    #[inline(always)]
    pub(super) fn search_3(&self, key: u64, homes: [u64; 2]) -> Option<u64> {
        let [source, home] = homes;
        let in_source =
            if source != home { self.level_3.find(self.medium(), source, key) } else { None };
        let (node, value) = in_source.or_else(|| self.level_3.find(self.medium(), home, key))?;
        if self.is_locked(homes) {
            self.medium().persist(node);
        }
        Some(value)
    }

    /// The value in a slot under a matching fingerprint, if the slot holds `key`. What this reports is durable.
    #[inline(always)]
    fn read(&self, slot: Offset, key: u64, homes: [u64; 2]) -> Option<u64> {
        let (found, value) = self.medium().load_pair(slot);
        if found == key {
            if self.is_locked(homes) {
                self.persist_observed(slot, homes);
            }
            return Some(value);
        }
        if found == 0 {
            // A removal that has not passed its fence, perhaps of this very key: a crash must not undo an absence that
            // was reported.
            self.persist_observed(slot, homes);
        }
        None
    }

    #[track_caller]
    #[cold]
    #[inline(never)]
    fn persist_observed(&self, slot: Offset, homes: [u64; 2]) {
        self.medium().persist_observed(slot, || self.is_locked(homes));
    }

    /// Whether the writer of a pair just read may not have made it durable yet. A writer holds the lock of the key's
    /// block from before its store until after its fence. During a resize that is the lock of the source or of the
    /// destination.
    #[inline(always)]
    fn is_locked(&self, homes: [u64; 2]) -> bool {
        homes.iter().any(|&home| self.flags_1(home).load(Ordering::Acquire) & LOCK != 0)
    }

    // Look-ups of a mutation, which holds the lock of the key's level-1 block.

    /// The lane and value of a key in its level-1 block.
    #[inline(always)]
    pub(super) fn find_1(&self, home: u64, key: u64, first: u64) -> Option<(usize, u64)> {
        if key == 0 {
            return None;
        }
        lanes(self.matches_1(home, first))
            .find_map(|lane| self.value_at(self.slot_1(home, lane), key).map(|value| (lane, value)))
    }

    #[inline(always)]
    pub(super) fn find_2(&self, block: u64, fingerprint: u8, key: u64) -> Option<(usize, u64)> {
        let word = self.word_2(block).load(Ordering::Acquire);
        lanes(matches_2(word, fingerprint)).find_map(|lane| {
            self.value_at(self.slot_2(block, lane), key).map(|value| (lane, value))
        })
    }

    /// The value in a slot, if it holds `key`. The caller keeps the slot from changing.
    #[inline(always)]
    fn value_at(&self, slot: Offset, key: u64) -> Option<u64> {
        let (found, value) = self.medium().load_pair(slot);
        (found == key).then_some(value)
    }

    /// Looks in level 2, without its locks, for a key whose level-1 lock is held. Nobody else can bring the key there.
    /// If the geometry is unchanged afterwards, nobody has moved the key away from where this looked.
    pub(super) fn may_be_in_level_2(
        &self,
        geometry: Geometry,
        key: u64,
        first: u64,
    ) -> Result<bool, Stale> {
        let choices = self.choices(geometry, key, first);
        if geometry.is_resizing() {
            for (block, _) in choices.distinct() {
                self.make_ready_2(geometry, block)?;
            }
        }
        let is_in = |(block, fingerprint)| self.find_2(block, fingerprint, key).is_some();
        let is_found = if geometry.shrinking_2() {
            self.places_2(geometry, key, first).any(is_in)
        } else {
            choices.both().any(is_in)
        };
        fence(Ordering::Acquire);
        if is_found || self.geometry() == geometry { Ok(is_found) } else { Err(Stale) }
    }

    /// Whether a key, whose level-1 lock is held, is certainly in neither level 2 nor 3.
    #[inline(never)]
    pub(super) fn is_absent_beyond_level_1(&self, home: u64, key: u64, first: u64) -> bool {
        let geometry = self.geometry();
        !geometry.is_resizing()
            && matches!(self.may_be_in_level_2(geometry, key, first), Ok(false))
            && self.level_3.find_locked(self.medium(), home, key).is_none()
    }
}
