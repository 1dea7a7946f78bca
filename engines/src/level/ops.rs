//! Search, deletion, insertion and update: algorithms 1 to 4 (section 4).

use super::Core;
use super::bucket::{Locked, Unfenced};
use super::layout::{DIRTY, Geometry, LEVELS_MAX, RECORD_SHIFT, Resize, TOKENS, WRITING};
use super::records::Record;
use super::{BATCH, STRIPES};
use crate::action::Action;
use index::hash::{h1, h2};
use index::{Error, Fixed};
use pmem::sync::{AtomicU64, Ordering, fence, spin};
use pmem::{Medium, Offset};

/// A bucket: where it is, in which level, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) level: u32,
    pub(super) index: u64,
    pub(super) at: Offset,
}

/// The two hash values of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hashes {
    pub(super) choices: [u64; 2],
    pub(super) stripe: u64,
}

/// What one bucket says of a key.
enum Probe<V> {
    Found { slot: usize, value: V, state: u64 },
    Absent { state: u64 },
}

/// Where a key was found.
struct Found<V> {
    place: Place,
    slot: usize,
    value: V,
}

/// How the attempt to place an item ended.
pub(super) enum Placed {
    Done,
    /// The geometry has changed.
    Stale,
    /// Neither its buckets have room nor could any be made.
    NoRoom,
}

/// Most buckets that a search probes: two in each of two levels and, during a resize, in one more,
/// unless one resize follows another before it has ended.
const PROBES_MAX: usize = 2 * LEVELS_MAX as usize;

/// Where the bits of a hash begin that choose the stripe: apart from the low ones of either choice,
/// or the keys of one bucket would share few stripes.
const STRIPE_SHIFT: u32 = 20;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    #[inline(always)]
    pub(super) fn hashes(&self, key: K) -> Hashes {
        let hash = self.hash(key);
        let second = if self.shape.design.two_hashes { h2(hash) } else { h1(hash) };
        let stripe = hash >> STRIPE_SHIFT & (STRIPES as u64 - 1);
        Hashes { choices: [h1(hash), second], stripe }
    }

    #[inline(always)]
    pub(super) fn place(&self, level: u32, hash: u64) -> Place {
        let index = hash & ((1 << level) - 1);
        let base = self.bases[level as usize & 63].load(Ordering::Relaxed);
        Place { level, index, at: Offset(base).add(index * self.bucket.bytes) }
    }

    /// The two buckets of a key in a level, which may be one.
    #[inline(always)]
    pub(super) fn places(&self, level: u32, hashes: &Hashes) -> [Place; 2] {
        hashes.choices.map(|hash| self.place(level, hash))
    }

    /// The bucket's word of the sidecar.
    #[inline(always)]
    pub(super) fn mark(&self, place: Place) -> &AtomicU64 {
        self.marks.get((1 << place.level) + place.index as usize)
    }

    /// The tokens of a bucket.
    #[inline(always)]
    pub(super) fn tokens(&self, at: Offset) -> u64 {
        self.medium().load(at) & TOKENS
    }

    /// An empty slot of a bucket, and whether it has one.
    #[inline(always)]
    pub(super) fn empty_slot(&self, at: Offset) -> Option<usize> {
        let empties = !self.tokens(at) & self.bucket.full();
        // One in the line of the state saves a flush: those are the lower ones.
        (empties != 0).then(|| empties.trailing_zeros() as usize)
    }

    fn count_tokens(&self, at: Offset) -> u32 {
        self.tokens(at).count_ones()
    }

    // Search, algorithm 1.

    /// Levels in the order in which they are searched. Dynamic search: the one with more items
    /// first.
    #[inline(always)]
    fn levels(&self, geometry: Geometry) -> impl Iterator<Item = u32> + use<M, K, V> {
        self.both_levels(geometry).into_iter().chain(geometry.interims())
    }

    #[inline(always)]
    fn both_levels(&self, geometry: Geometry) -> [u32; 2] {
        // Neither choice is a branch: which level comes first is worth no wrong guess.
        let is_bottom_first = self.geometry.0[1].load(Ordering::Relaxed) as u32 & 1;
        [geometry.top() - is_bottom_first, geometry.bottom() + is_bottom_first]
    }

    /// What a bucket says of a key, at one instant: the state did not change meanwhile.
    #[inline(always)]
    fn probe(&self, place: Place, key: K) -> Probe<V> {
        let medium = self.medium();
        let at = place.at;
        loop {
            let wraps = self.wraps();
            let state = medium.load(at) & self.bucket.seen_mask();
            let mut tokens = state & TOKENS;
            let mut found = None;
            while tokens != 0 {
                let slot = tokens.trailing_zeros() as usize;
                if self.bucket.key(medium, at, slot) == key {
                    found = Some((slot, self.value(place, slot, state)));
                    break;
                }
                tokens &= tokens - 1;
            }
            fence(Ordering::Acquire);
            let is_same = medium.load(at) & self.bucket.seen_mask() == state;
            if is_same && self.wraps() == wraps {
                return match found {
                    Some((slot, value)) => Probe::Found { slot, value, state },
                    None => Probe::Absent { state },
                };
            }
        }
    }

    /// How often a version has come around to one that was there before. Equal states mean an
    /// unchanged bucket only if that did not happen meanwhile.
    #[inline(always)]
    pub(super) fn wraps(&self) -> u64 {
        match self.bucket.state_mask() {
            u64::MAX => 0,
            _ => self.geometry.0[2].load(Ordering::Acquire),
        }
    }

    /// The value in a slot. One that is being overwritten is read from its record, which is there,
    /// and durable, for as long as the state says so; what is read else is found out by the caller,
    /// who looks at the state again.
    #[inline(always)]
    pub(super) fn value(&self, place: Place, slot: usize, state: u64) -> V {
        if state & WRITING != 0
            && let Some(value) = self.recorded_value(place, slot)
        {
            return value;
        }
        self.bucket.value(self.medium(), place.at, slot)
    }

    #[cold]
    fn recorded_value(&self, place: Place, slot: usize) -> Option<V> {
        let number = self.mark(place).load(Ordering::Acquire) >> RECORD_SHIFT;
        let index = (number as usize).checked_sub(1)?;
        let record = self.records.read_one(self.medium(), index);
        record.value.filter(|_| record.slot == slot)
    }

    /// Hints that a search for a key with these hashes follows.
    #[inline(always)]
    pub(super) fn prefetch(&self, geometry: Geometry, hashes: &Hashes) {
        for level in self.both_levels(geometry) {
            for place in self.places(level, hashes) {
                self.medium().prefetch(place.at);
            }
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, key: K) -> Option<V> {
        let hashes = self.hashes(key);
        if self.shape.design.levels_at_once {
            self.prefetch(self.geometry(), &hashes);
        }
        self.get_hashed(key, &hashes)
    }

    #[inline(always)]
    pub(super) fn get_hashed(&self, key: K, hashes: &Hashes) -> Option<V> {
        self.find(key, hashes).map(|found| found.value)
    }

    /// Where a key is. `None` was true at one instant: none of the buckets read has changed since
    /// it was read, nor has the geometry. Both answers are durable.
    #[inline(always)]
    fn find(&self, key: K, hashes: &Hashes) -> Option<Found<V>> {
        if self.bucket.is_usual()
            && let Some(found) = self.find_usual(key, hashes)
        {
            return found;
        }
        self.find_anyhow(key, hashes)
    }

    /// As [`Core::find`], in as few instructions as nearly every search needs: a processor overlaps
    /// the cache misses of operations as far as they fit its reorder window together. `None`: a
    /// resize, a writer, or a change that may not be durable yet is in the way.
    #[inline(always)]
    fn find_usual(&self, key: K, hashes: &Hashes) -> Option<Option<Found<V>>> {
        let medium = self.medium();
        let geometry = self.geometry();
        if geometry.resize() != Resize::No {
            return None;
        }
        let [first, second] = self.both_levels(geometry);
        let [one, two] = self.places(first, hashes);
        let [three, four] = self.places(second, hashes);
        let places = [one, two, three, four];
        let key_word = key.word(0);
        let (mut states, mut hits) = ([0; 4], 0);
        // Which level has a key is anybody's guess, and a processor that guesses wrong has nothing to
        // overlap the cache misses with.
        let at_once = self.shape.design.levels_at_once;
        for turn in 0..4 {
            let (state, hit) = self.bucket.scan(medium, places[turn].at, key_word);
            states[turn] = state;
            hits |= hit << (8 * turn);
            if !at_once && hits != 0 {
                break;
            }
        }
        if hits != 0 {
            let bit = hits.trailing_zeros() as usize;
            let (turn, slot) = (bit >> 3 & 3, bit & 7);
            let (place, state) = (places[turn], states[turn]);
            let value = self.bucket.value(medium, place.at, slot);
            fence(Ordering::Acquire);
            let is_same = (medium.load(place.at) ^ state) & self.bucket.seen_mask() == 0;
            let is_plain = state & (DIRTY | WRITING) == 0;
            return (is_same && is_plain).then_some(Some(Found { place, slot, value }));
        }
        fence(Ordering::Acquire);
        let mut changes = 0;
        for (place, state) in places.into_iter().zip(states) {
            let change = (medium.load(place.at) ^ state) & self.bucket.seen_mask();
            changes |= state & DIRTY | change;
        }
        (changes == 0 && self.geometry() == geometry).then_some(None)
    }

    #[cold]
    #[inline(never)]
    fn find_anyhow(&self, key: K, hashes: &Hashes) -> Option<Found<V>> {
        let medium = self.medium();
        loop {
            let geometry = self.geometry();
            let wraps = self.wraps();
            let mut seen = [(Offset(0), 0); PROBES_MAX];
            let mut count = 0;
            for level in self.levels(geometry) {
                let [first, second] = self.places(level, hashes);
                for place in [first, second].into_iter().take(1 + usize::from(second != first)) {
                    match self.probe(place, key) {
                        Probe::Found { slot, value, state } => {
                            if state & DIRTY != 0 {
                                self.flush_item(place.at, slot);
                                medium.persist(place.at);
                            }
                            return Some(Found { place, slot, value });
                        }
                        Probe::Absent { state } => {
                            seen[count] = (place.at, state);
                            count += 1;
                        }
                    }
                }
            }
            let seen = &seen[..count];
            if seen.iter().any(|(_, state)| state & DIRTY != 0) {
                // A removal, perhaps of this very key, that may not be durable yet.
                seen.iter().for_each(|&(at, _)| medium.flush(at));
                medium.fence();
            }
            fence(Ordering::Acquire);
            let mask = self.bucket.seen_mask();
            // Another version, that is. DIRTY may come and go with values that are replaced in place:
            // what was dirty has been flushed here, and what was not was durable.
            let is_same = |at, state| (medium.load(at) & mask ^ state) & !DIRTY == 0;
            let is_unchanged = seen.iter().all(|&(at, state)| is_same(at, state));
            if is_unchanged && self.geometry() == geometry && self.wraps() == wraps {
                return None;
            }
        }
    }

    // Mutations.

    /// Replaces the state of `key` by what `decide` makes of it, in one step; returns the state
    /// before. `decide` may be called several times. `inserts`: whether it is likely to put
    /// something where nothing was.
    #[inline(always)]
    pub(super) fn mutate(
        &self,
        key: K,
        inserts: bool,
        decide: impl Fn(Option<V>) -> Action<V>,
    ) -> Result<Option<V>, Error> {
        let hashes = self.hashes(key);
        // Before the stripe's lock, whose instruction waits for all earlier stores: so the misses
        // overlap with the fence of the operation before.
        self.prefetch(self.geometry(), &hashes);
        let mut unfenced = Unfenced::<M, K, V, 1>::new(self);
        self.mutate_hashed(&mut unfenced, key, &hashes, inserts, decide)
    }

    /// [`Core::mutate`] for many keys, with their cache misses overlapped and sharing fences.
    pub(super) fn mutate_many<T>(
        &self,
        items: &[T],
        out: &mut [Option<V>],
        key_of: impl Fn(&T) -> K,
        inserts: bool,
        decide: impl Fn(&T, Option<V>) -> Action<V>,
    ) -> Result<(), Error> {
        let mut unfenced = Unfenced::<M, K, V, BATCH>::new(self);
        let mut ahead = Ahead::new(self, items, key_of);
        for (index, (item, out)) in items.iter().zip(out).enumerate() {
            let (key, hashes) = ahead.next(index);
            let decide = |found| decide(item, found);
            *out = self.mutate_hashed(&mut unfenced, key, &hashes, inserts, decide)?;
        }
        Ok(())
    }

    pub(super) fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        let mut ahead = Ahead::new(self, keys, |&key| key);
        for (index, out) in out.iter_mut().enumerate().take(keys.len()) {
            let (key, hashes) = ahead.next(index);
            *out = self.get_hashed(key, &hashes);
        }
    }

    #[inline(always)]
    fn mutate_hashed<const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'_, M, K, V, MOST>,
        key: K,
        hashes: &Hashes,
        inserts: bool,
        decide: impl Fn(Option<V>) -> Action<V>,
    ) -> Result<Option<V>, Error> {
        let mut inserts = inserts;
        let mut retries = 0;
        loop {
            // An absence lasts only while nobody else may insert this key. (The buckets' locks do
            // not do for that: two insertions of one key may go to different buckets.)
            let stripe = inserts.then(|| unfenced.lock_stripe(hashes.stripe));
            if let Some(found) = self.find(key, hashes) {
                let locked = unfenced.lock(found.place);
                if !self.is_still(key, &found) {
                    spin(&mut retries);
                    continue;
                }
                let value = self.bucket.value(self.medium(), found.place.at, found.slot);
                match decide(Some(value)) {
                    Action::Keep => {}
                    Action::Put(new) => {
                        if self.update_slot(found.place, found.slot, key, new) {
                            unfenced.push(found.place, locked);
                            unfenced.end_change(stripe, 0, 0);
                        }
                    }
                    // Algorithm 2.
                    Action::Remove => {
                        self.show(found.place.at, 0, 1 << found.slot);
                        unfenced.push(found.place, locked);
                        self.count_at(found.place.level, -1);
                        unfenced.end_change(stripe, 0, 1);
                    }
                }
                return Ok(Some(value));
            }
            let Action::Put(value) = decide(None) else { return Ok(None) };
            if stripe.is_none() {
                inserts = true;
                continue;
            }
            let geometry = self.geometry();
            match self.insert(unfenced, geometry, key, value, hashes) {
                Placed::Done => {
                    unfenced.end_change(stripe, 1, 0);
                    return Ok(None);
                }
                Placed::Stale => {}
                Placed::NoRoom => {
                    drop(stripe);
                    unfenced.settle();
                    self.make_room(geometry)?;
                    // Another thread may be at it.
                    spin(&mut retries);
                }
            }
        }
    }

    /// Whether a key is where it was found; its bucket is locked.
    #[inline(always)]
    fn is_still(&self, key: K, found: &Found<V>) -> bool {
        let &Found { place, slot, .. } = found;
        self.tokens(place.at) & 1 << slot != 0
            && self.bucket.key(self.medium(), place.at, slot) == key
    }

    /// Algorithm 4, the bucket being locked: in place if one word is all that changes, else
    /// log-free into an empty slot, else over the old value, with a record of the new one. Whether
    /// a fence is still to come.
    #[inline(always)]
    fn update_slot(&self, place: Place, slot: usize, key: K, value: V) -> bool {
        let (medium, at) = (self.medium(), place.at);
        let design = &self.shape.design;
        if design.in_place_update
            && let Some(word) = self.bucket.value_word(at, slot)
        {
            medium.store(at, medium.load(at) | DIRTY);
            medium.store_release(word, value.word(0));
            medium.flush(word);
            return true;
        }
        if design.log_free_update
            && let Some(empty) = self.empty_slot(at)
        {
            self.fill(at, empty, key, value, 1 << slot);
            return true;
        }
        self.update_recorded(place, slot, value);
        false
    }

    #[cold]
    fn update_recorded(&self, place: Place, slot: usize, value: V) {
        let (medium, at) = (self.medium(), place.at);
        let record = self.records.write(medium, &Record::update(place, slot, value));
        // From here on recovery ends the update, so a reader may report the new value.
        let mark = self.mark(place);
        let unmarked = mark.load(Ordering::Relaxed);
        mark.store(unmarked | record.number() << RECORD_SHIFT, Ordering::Relaxed);
        let word = medium.load(at);
        // Who sees WRITING sees the number of the record, and who sees the value sees WRITING.
        fence(Ordering::Release);
        medium.store(at, word | WRITING);
        fence(Ordering::Release);
        self.bucket.fill_value(medium, at, slot, value);
        let word = medium.load(at);
        self.note_wrap(word);
        let next = self.bucket.next(word, word & TOKENS) & !WRITING;
        fence(Ordering::Release);
        medium.store(at, next);
        self.flush_item(at, slot);
        medium.fence();
        medium.store(at, next & !DIRTY);
        mark.store(unmarked, Ordering::Release);
        // Before the lock is given back: recovery must not do it again over a later value.
        self.records.erase(medium, record);
    }

    /// Algorithm 3: into the less-loaded top bucket, then the less-loaded bottom bucket, then by
    /// at most one movement.
    #[inline(always)]
    pub(super) fn insert<const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'_, M, K, V, MOST>,
        geometry: Geometry,
        key: K,
        value: V,
        hashes: &Hashes,
    ) -> Placed {
        let top = self.places(geometry.top(), hashes);
        let bottom = self.places(geometry.bottom(), hashes);
        let levels = if self.shape.design.two_levels { 2 } else { 1 };
        for places in [top, bottom].into_iter().take(levels) {
            let [first, second] = places.map(|place| self.count_tokens(place.at));
            let order = if first > second { [places[1], places[0]] } else { places };
            for place in order {
                if self.empty_slot(place.at).is_none() {
                    continue;
                }
                let Some(locked) = unfenced.lock_under(geometry, place) else {
                    return Placed::Stale;
                };
                if let Some(slot) = self.empty_slot(place.at) {
                    self.fill(place.at, slot, key, value, 0);
                    unfenced.push(place, locked);
                    self.count_at(place.level, 1);
                    return Placed::Done;
                }
            }
        }
        if !self.shape.design.movement {
            return Placed::NoRoom;
        }
        self.insert_by_movement(unfenced, geometry, key, value, [top, bottom])
    }

    /// TryMovement: moves an item of one of the key's full buckets to its other bucket in that
    /// level, or from the bottom level to the top one, and takes its slot.
    #[cold]
    fn insert_by_movement<const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'_, M, K, V, MOST>,
        geometry: Geometry,
        key: K,
        value: V,
        [top, bottom]: [[Place; 2]; 2],
    ) -> Placed {
        let design = &self.shape.design;
        let top_level = geometry.top();
        let to_bottom = design.two_levels.then_some((bottom, geometry.bottom()));
        let to_top = (design.two_levels && design.bottom_to_top).then_some((bottom, top_level));
        let ways = [Some((top, top_level)), to_bottom, to_top];
        for (places, to_level) in ways.into_iter().flatten() {
            for from in places {
                let Some(locked) = unfenced.lock_under(geometry, from) else {
                    return Placed::Stale;
                };
                // Another thread's removal may have made room.
                let freed = match self.empty_slot(from.at) {
                    Some(slot) => Some(slot),
                    None => self.move_one(geometry, from, to_level),
                };
                if let Some(slot) = freed {
                    self.fill(from.at, slot, key, value, 0);
                    unfenced.push(from, locked);
                    self.count_at(from.level, 1);
                    return Placed::Done;
                }
            }
        }
        Placed::NoRoom
    }

    /// Moves an item of a locked bucket to another of its buckets, in `to_level`; returns the slot
    /// that this frees.
    fn move_one(&self, geometry: Geometry, from: Place, to_level: u32) -> Option<usize> {
        let medium = self.medium();
        for slot in 0..self.bucket.slots as usize {
            let key = self.bucket.key(medium, from.at, slot);
            for to in self.places(to_level, &self.hashes(key)) {
                if to == from || self.empty_slot(to.at).is_none() {
                    continue;
                }
                // Not waited for: whoever holds it may be waiting for the one held here.
                let Some(_locked) = Locked::attempt(medium, to.at) else { continue };
                if self.geometry() != geometry {
                    // Its level may have become interim, and this bucket been emptied for good.
                    return None;
                }
                let Some(empty) = self.empty_slot(to.at) else { continue };
                let value = self.bucket.value(medium, from.at, slot);
                // A crash between copy and erasure leaves the item twice; recovery looks here.
                let _record = self.records.write(medium, &Record::<V>::movement(from, slot));
                self.fill(to.at, empty, key, value, 0);
                medium.fence();
                self.publish(from.at, 0, 1 << slot);
                medium.store(to.at, medium.load(to.at) & !DIRTY);
                self.count_at(from.level, -1);
                self.count_at(to.level, 1);
                return Some(slot);
            }
        }
        None
    }
}

/// The keys of a batch, each with its hashes, whose buckets are being fetched some keys ahead.
struct Ahead<'a, M: Medium, K: Fixed, V: Fixed, T, F> {
    core: &'a Core<M, K, V>,
    items: &'a [T],
    key_of: F,
    hashes: [Hashes; BATCH],
}

impl<'a, M: Medium, K: Fixed, V: Fixed, T, F: Fn(&T) -> K> Ahead<'a, M, K, V, T, F> {
    #[inline(always)]
    fn new(core: &'a Core<M, K, V>, items: &'a [T], key_of: F) -> Self {
        let hashes = [Hashes { choices: [0; 2], stripe: 0 }; BATCH];
        let mut ahead = Ahead { core, items, key_of, hashes };
        for index in 0..items.len().min(BATCH) {
            ahead.fetch(index);
        }
        ahead
    }

    #[inline(always)]
    fn fetch(&mut self, index: usize) {
        let hashes = self.core.hashes((self.key_of)(&self.items[index]));
        self.core.prefetch(self.core.geometry(), &hashes);
        self.hashes[index % BATCH] = hashes;
    }

    /// The key numbered `index`, which is one more each time.
    #[inline(always)]
    fn next(&mut self, index: usize) -> (K, Hashes) {
        let hashes = self.hashes[index % BATCH];
        if index + BATCH < self.items.len() {
            self.fetch(index + BATCH);
        }
        ((self.key_of)(&self.items[index]), hashes)
    }
}
