//! Look-ups by a guest, in what the pool's owner shows of its table: the searches of `search` and `fast` while the
//! geometry is at rest. In every other case the owner is to be asked: a resize is under way, the block's lock is held
//! and the pair perhaps not durable, level 3 may have the key, the owner has changed.
//!
//! An owner may be damaged, or show what it likes. Then answers are wrong, but nothing is read outside of what is
//! mapped: a geometry is checked before it is used, and fingerprints count only in lanes that stand for slots. The
//! owner's own lines have none in other lanes, so its searches do not ask.

use super::Engine;
use super::block::{Probe, matches_2};
use super::layout::{Geometry, LEVEL_1, LEVEL_2, LOCK, Shape};
use super::level_3::is_empty_chain;
use super::places::Places;
use super::shown::{Arrays, starts_in};
use crate::engine::Describe;
use index::Sight as Looks;
use index::fingerprint::{Isa, Work, lanes, match_line, match_line_fast};
use pmem::slots::{Area, SLOT_BYTES, SlotBlocks};
use pmem::sync::{Array, AtomicU64, Mutex, Ordering, fence};
use pmem::view::{Look, SHOWN, View};
use pmem::{Medium, Pool};
use std::sync::Arc;

/// Look-ups done together, as the owner does.
const LOOKUPS: usize = u64::BITS as usize;

/// A table of words, or the index of a store, as a guest sees it.
pub struct Sight<M: Medium> {
    places: Places<M>,
    /// Of level 3's chains.
    heads: Array<AtomicU64>,
    view: Arc<View>,
    /// The owner's. Another one has changed the pool, and not what this sees.
    incarnation: u64,
    /// Extents that are known, of levels 1 and 2.
    known: Mutex<[u32; 2]>,
    /// What the owner has shown that this has no addresses for.
    beyond: AtomicU64,
}

/// The geometry that an owner has shown.
#[inline(always)]
fn geometry_of(look: Look) -> Geometry {
    Geometry(look.word() & !SHOWN)
}

impl<M: Medium> Sight<M> {
    /// The table in a pool that was opened beside its owner, who shows it by this view. What does not fit together is
    /// said.
    pub fn open(pool: Arc<Pool<M>>, view: Arc<View>) -> Result<Self, String> {
        let superblock = pool.superblock();
        let shape = Shape::decode(&superblock.engine_params)?;
        let [slots_1, slots_2] = [shape.level_1_slots, shape.level_2_slots].map(u64::from);
        let area = |slots: u64| Area::new(slots * SLOT_BYTES, shape.initial_log2);
        let Arrays { lines, words, heads, .. } = Arrays::in_view(Arc::clone(&view));
        let first = |owner| {
            let first = pool.extents_of(owner).first().map(|extent| extent.start);
            first.ok_or_else(|| format!("level {owner} has no extent"))
        };
        let (area_1, area_2) = (area(slots_1), area(slots_2));
        area_2.add_extent(0, first(LEVEL_2)?);
        let blocks_1 = SlotBlocks::new(Arc::clone(&pool), area_1, lines, &[first(LEVEL_1)?])?;
        if heads.len() < blocks_1.blocks_max() as usize {
            return Err(format!("{} chains of {} blocks", heads.len(), blocks_1.blocks_max()));
        }
        let places = Places::new(pool, &superblock, shape, blocks_1, area_2, words);
        let known = Mutex::new([1; 2]);
        let (incarnation, beyond) = (superblock.incarnation, AtomicU64::new(0));
        Ok(Sight { places, heads, view, incarnation, known, beyond })
    }

    /// [`Looks::get`] in any case.
    #[cold]
    #[inline(never)]
    fn get_slow(&self, key: u64) -> Option<Option<u64>> {
        let look = self.look()?;
        self.search(look, key).filter(|_| self.is_as(look))
    }

    /// Whether this can search by what is shown.
    #[inline(always)]
    fn knows(&self, look: Look) -> bool {
        self.places.blocks_1.aim().word() == look.word() || self.catch_up(look)
    }

    /// Gets to know the extents of a geometry that has just been shown. Returns whether it can be searched.
    #[cold]
    #[inline(never)]
    fn catch_up(&self, look: Look) -> bool {
        if self.beyond.load(Ordering::Relaxed) == look.word() {
            return false;
        }
        let geometry = geometry_of(look);
        let mut known = self.known.lock();
        let Places { pool, blocks_1, area_2, words, shape, .. } = &self.places;
        let areas = [blocks_1.area(), area_2];
        let log2 = [geometry.level_1_log2(), geometry.level_2_log2()];
        let has_room = geometry.blocks_1() <= blocks_1.blocks_max()
            && geometry.blocks_2() <= words.len() as u64;
        // A count of blocks is one less than a power of two in the word.
        let is_mask = geometry.0 as u32 & (geometry.0 as u32).wrapping_add(1) == 0;
        if geometry.is_resizing()
            || !has_room
            || !is_mask
            || log2.iter().any(|&log2| log2 < shape.initial_log2)
        {
            return false;
        }
        for level in 0..2 {
            let area = areas[level];
            let starts = starts_in(&self.view, level, area, log2[level]);
            for (index, start) in (0..).zip(starts).skip(known[level] as usize) {
                let end = start.0.checked_add(area.extent_bytes(index));
                let is_there = end.is_some_and(|end| pool.medium().follow(end));
                if !is_there || !start.0.is_multiple_of(SLOT_BYTES) {
                    self.beyond.store(look.word(), Ordering::Relaxed);
                    return false;
                }
                match level {
                    0 if blocks_1.add_extent(index, start).is_err() => return false,
                    0 => {}
                    _ => area.add_extent(index, start),
                }
                known[level] = index + 1;
            }
        }
        // What was noted belongs to what was shown, if that is still shown.
        if !self.view.is_as(look) {
            return false;
        }
        blocks_1.set_aim(look.word());
        true
    }

    /// The rest of a search, from the lanes of the key's level-1 block that match.
    #[inline(always)]
    fn decide(
        &self,
        geometry: Geometry,
        key: u64,
        probe: &Probe<'_, M>,
        mut candidates: u64,
    ) -> Option<Option<u64>> {
        if key == 0 {
            return None;
        }
        let medium = self.places.medium();
        while candidates != 0 {
            let lane = candidates.trailing_zeros() as usize;
            let (found, value) = probe.slots.load_pair(medium, lane);
            if found == key {
                // A pair under the lock may not be durable yet, nor is the removal of one.
                let is_locked = probe.flags().load(Ordering::Acquire) & LOCK != 0;
                return (!is_locked).then_some(Some(value));
            }
            if found == 0 {
                return None;
            }
            candidates &= candidates - 1;
        }
        if !probe.may_have_spilled() {
            return Some(None);
        }
        self.search_spilled(geometry, key, probe.first, probe.home())
    }

    /// [`Looks::get`] of a key that level 1 does not have.
    #[inline(never)]
    fn get_spilled(&self, look: Look, key: u64, first: u64, home: u64) -> Option<Option<u64>> {
        if key == 0 {
            return None;
        }
        let found = self.search_spilled(geometry_of(look), key, first, home);
        found.filter(|_| self.is_as(look))
    }

    /// Levels 2 and 3.
    #[inline(always)]
    fn search_spilled(
        &self,
        geometry: Geometry,
        key: u64,
        first: u64,
        home: u64,
    ) -> Option<Option<u64>> {
        let medium = self.places.medium();
        let choices = self.places.choices_among(geometry.blocks_2(), key, first);
        for (block, fingerprint) in choices.both() {
            let word = self.places.word_2(block).load(Ordering::Acquire);
            let slots = (1 << self.places.shape.level_2_slots) - 1;
            for lane in lanes(matches_2(word, fingerprint) & slots) {
                let (found, value) = medium.load_pair(self.places.slot_2(block, lane));
                if found == key {
                    return (!self.is_locked(home)).then_some(Some(value));
                }
                if found == 0 {
                    return None;
                }
            }
        }
        let head = self.heads.get(home as usize).load(Ordering::Acquire);
        is_empty_chain(head).then_some(None)
    }

    fn is_locked(&self, home: u64) -> bool {
        self.places.flags_1(home).load(Ordering::Acquire) & LOCK != 0
    }

    #[inline(always)]
    fn search_batch(&self, isa: Isa, look: Look, keys: &[u64], out: &mut [Option<Option<u64>>]) {
        let geometry = geometry_of(look);
        let aim = self.places.blocks_1.aim();
        let medium = self.places.medium();
        let probe = |&key: &u64| {
            let probe = self.places.probe(aim, self.places.hasher.first_u64(key));
            probe.prefetch_line();
            probe
        };
        let probes: arrayvec::ArrayVec<_, LOOKUPS> = keys.iter().take(LOOKUPS).map(probe).collect();
        let mut candidates = [0; LOOKUPS];
        for (probe, candidates) in probes.iter().zip(&mut candidates) {
            let matches =
                match_line(isa, probe.line, self.places.sought(probe)) & self.places.lanes_1;
            *candidates = matches;
            // The fingerprints read above vouch for the slots and the SPILLED flags read below.
            fence(Ordering::Acquire);
            probe.prefetch_candidate(medium, matches);
        }
        for (((&key, probe), &candidates), out) in
            keys.iter().zip(&probes).zip(&candidates).zip(out)
        {
            *out = self.decide(geometry, key, probe, candidates);
        }
    }
}

/// A batch of look-ups, to run on any instruction set.
struct Lookups<'a, M: Medium> {
    sight: &'a Sight<M>,
    look: Look,
    keys: &'a [u64],
    out: &'a mut [Option<Option<u64>>],
}

impl<M: Medium> Work for Lookups<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run(self, isa: Isa) {
        self.sight.search_batch(isa, self.look, self.keys, self.out);
    }
}

impl<M: Medium> Looks for Sight<M> {
    #[inline(always)]
    fn look(&self) -> Option<Look> {
        self.view.look().filter(|&look| self.knows(look))
    }

    #[inline(always)]
    fn look_at_items(&self) -> Option<Look> {
        self.view.look_at_items().filter(|&look| self.knows(look))
    }

    #[inline(always)]
    fn search(&self, look: Look, key: u64) -> Option<Option<u64>> {
        let places = &self.places;
        let probe = places.probe(places.blocks_1.aim(), places.hasher.first_u64(key));
        probe.prefetch_preferred(places.medium());
        let matches = match_line(places.isa, probe.line, places.sought(&probe)) & places.lanes_1;
        // A fingerprint read above vouches for the slot read below.
        fence(Ordering::Acquire);
        self.decide(geometry_of(look), key, &probe, matches)
    }

    fn search_many(&self, look: Look, keys: &[u64], out: &mut [Option<Option<u64>>]) {
        for (keys, out) in keys.chunks(LOOKUPS).zip(out.chunks_mut(LOOKUPS)) {
            self.places.isa.run(Lookups { sight: self, look, keys, out });
        }
    }

    /// In as few instructions as it needs, like the owner's: see `fast`. Calls are in tail position, so nothing has to
    /// be saved for them.
    #[inline(always)]
    fn get(&self, key: u64) -> Option<Option<u64>> {
        let look = self.view.look()?;
        let places = &self.places;
        let aim = places.blocks_1.aim();
        if aim.word() != look.word() {
            return self.get_slow(key);
        }
        let probe = places.probe(aim, places.hasher.first_u64(key));
        probe.prefetch_preferred(places.medium());
        let Some(matches) = match_line_fast(places.isa, probe.line, places.sought(&probe)) else {
            return self.get_slow(key);
        };
        let mut candidates = matches & places.lanes_1;
        // A fingerprint read above vouches for the slot read below.
        fence(Ordering::Acquire);
        while candidates != 0 {
            let lane = candidates.trailing_zeros() as usize;
            let (found, value) = probe.slots.load_pair(places.medium(), lane);
            if found == key && key != 0 {
                let is_locked = probe.flags().load(Ordering::Acquire) & LOCK != 0;
                return (!is_locked && self.is_as(look)).then_some(Some(value));
            }
            if found == 0 {
                return None;
            }
            candidates &= candidates - 1;
        }
        if probe.may_have_spilled() {
            return self.get_spilled(look, key, probe.first, probe.home());
        }
        (key != 0 && self.is_as(look)).then_some(None)
    }

    #[inline(always)]
    fn is_as(&self, look: Look) -> bool {
        self.view.is_as(look) && self.places.pool.incarnation_in_file() == self.incarnation
    }

    #[inline(always)]
    fn are_items_as(&self, look: Look) -> bool {
        self.view.are_items_as(look) && self.places.pool.incarnation_in_file() == self.incarnation
    }
}

impl<M: Medium> std::fmt::Debug for Sight<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sight").field("of", &Engine::DESCRIPTION.name).finish_non_exhaustive()
    }
}
