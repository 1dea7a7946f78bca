//! Search, deletion, insertion and update: algorithms 1 to 4 (section 4).

use super::Core;
use super::layout::{DIRTY, Geometry, LEVELS_MAX, LOCK, RECORD_SHIFT, TOKENS, WRITING};
use super::records::Record;
use index::hash::{h1, h2};
use index::{Error, Fixed};
use pmem::sync::{AtomicU64, Ordering, fence, spin};
use pmem::{Medium, Offset};

/// A bucket's lock, held until dropped.
pub(super) type Locked<'a> = crate::lock::Locked<'a, LOCK>;

/// What a mutation makes of the state that it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action<V> {
    Keep,
    Put(V),
    Remove,
}

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
    pub(super) fn hashes(&self, key: K) -> Hashes {
        let hash = self.hash(key);
        let second = if self.shape.design.two_hashes { h2(hash) } else { h1(hash) };
        Hashes { choices: [h1(hash), second], stripe: hash >> STRIPE_SHIFT }
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

    /// The word of the sidecar that has the bucket's lock.
    #[inline(always)]
    pub(super) fn lock_word(&self, place: Place) -> &AtomicU64 {
        self.locks.get((1 << place.level) + place.index as usize)
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
        // One beside the state saves a flush: those are the lower ones.
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
        let (top, bottom) = (geometry.top(), geometry.bottom());
        let is_bottom_first = self.geometry.0[1].load(Ordering::Relaxed) != 0;
        let both = if is_bottom_first { [bottom, top] } else { [top, bottom] };
        both.into_iter().chain(geometry.interims())
    }

    /// What a bucket says of a key, at one instant: the state did not change meanwhile.
    #[inline(always)]
    fn probe(&self, place: Place, key: K) -> Probe<V> {
        let medium = self.medium();
        let at = place.at;
        loop {
            let state = medium.load(at) & self.bucket.state_mask();
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
            if medium.load(at) & self.bucket.state_mask() == state {
                return match found {
                    Some((slot, value)) => Probe::Found { slot, value, state },
                    None => Probe::Absent { state },
                };
            }
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
        let number = self.lock_word(place).load(Ordering::Acquire) >> RECORD_SHIFT;
        let index = (number as usize).checked_sub(1)?;
        let record = self.records.read_one(self.medium(), index);
        record.value.filter(|_| record.slot == slot)
    }

    /// Hints that a search for a key with these hashes follows.
    #[inline(always)]
    pub(super) fn prefetch(&self, geometry: Geometry, hashes: &Hashes) {
        for level in self.levels(geometry) {
            for place in self.places(level, hashes) {
                self.medium().prefetch(place.at);
            }
        }
    }

    /// As [`Core::prefetch`], for a mutation: the buckets and their locks are going to be written.
    #[inline(always)]
    pub(super) fn prefetch_write(&self, geometry: Geometry, hashes: &Hashes) {
        for level in self.levels(geometry) {
            for place in self.places(level, hashes) {
                self.medium().prefetch_write(place.at);
                self.locks.prefetch_write((1 << place.level) + place.index as usize);
            }
        }
    }

    pub(super) fn get(&self, key: K) -> Option<V> {
        self.prefetch(self.geometry(), &self.hashes(key));
        self.find(key, &self.hashes(key)).map(|found| found.value)
    }

    /// Where a key is. `None` was true at one instant: none of the buckets read has changed since
    /// it was read, nor has the geometry. Both answers are durable.
    #[inline(always)]
    fn find(&self, key: K, hashes: &Hashes) -> Option<Found<V>> {
        let medium = self.medium();
        loop {
            let geometry = self.geometry();
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
            let mask = self.bucket.state_mask();
            // Another version, that is. DIRTY may come and go with values that are replaced in place:
            // what was dirty has been flushed here, and what was not was durable.
            let is_same = |at, state| (medium.load(at) & mask ^ state) & !DIRTY == 0;
            let is_unchanged = seen.iter().all(|&(at, state)| is_same(at, state));
            if is_unchanged && self.geometry() == geometry {
                return None;
            }
        }
    }

    // Writing a bucket, whose lock is held.

    #[track_caller]
    fn flush_item(&self, at: Offset, slot: usize) {
        let item = at.add(self.bucket.item_at(slot));
        self.medium().flush_range(item, super::layout::Bucket::<K, V>::ITEM_BYTES);
    }

    /// Changes the tokens, durably. Until that is so, who meets them is told by DIRTY.
    pub(super) fn publish(&self, at: Offset, set: u64, clear: u64) {
        let medium = self.medium();
        let word = medium.load(at);
        let next = self.bucket.next(word, (word & TOKENS | set) & !clear);
        medium.store_release(at, next);
        medium.flush(at);
        medium.fence();
        // Volatile: what a crash leaves of the mark means nothing.
        medium.store(at, next & !DIRTY);
    }

    /// Stores an item into an empty slot, and shows it instead of the item in the slots `clear`:
    /// log-free insertion (section 3.3.2) and update (3.3.4). One flush and one fence if the item
    /// is in the line of its token: lines keep the order of their stores.
    pub(super) fn fill(&self, at: Offset, slot: usize, key: K, value: V, clear: u64) {
        let medium = self.medium();
        // A reader that sees these stores also sees the version that made the slot empty.
        fence(Ordering::Release);
        self.bucket.fill(medium, at, slot, key, value);
        if !self.bucket.is_beside_state(slot) {
            self.flush_item(at, slot);
            medium.fence();
        }
        self.publish(at, 1 << slot, clear);
    }

    /// Algorithm 4, the bucket being locked: in place if one word is all that changes, else
    /// log-free into an empty slot, else over the old value, with a record of the new one.
    fn update_slot(&self, place: Place, slot: usize, key: K, value: V) {
        let (medium, at) = (self.medium(), place.at);
        let design = &self.shape.design;
        if design.in_place_update
            && let Some(word) = self.bucket.value_word(at, slot)
        {
            let state = medium.load(at);
            medium.store(at, state | DIRTY);
            medium.store_release(word, value.word(0));
            medium.flush(word);
            medium.fence();
            medium.store(at, state);
            return;
        }
        if design.log_free_update
            && let Some(empty) = self.empty_slot(at)
        {
            self.fill(at, empty, key, value, 1 << slot);
            return;
        }
        let record = self.records.write(medium, &Record::update(place, slot, value));
        // From here on recovery ends the update, so a reader may report the new value.
        let lock_word = self.lock_word(place);
        let lock = lock_word.load(Ordering::Relaxed);
        lock_word.store(lock | record.number() << RECORD_SHIFT, Ordering::Relaxed);
        let word = medium.load(at);
        // Who sees the mark sees the number of the record, and who sees the value sees the mark.
        fence(Ordering::Release);
        medium.store(at, word | WRITING);
        fence(Ordering::Release);
        self.bucket.fill_value(medium, at, slot, value);
        let next = self.bucket.next(medium.load(at), word & TOKENS);
        fence(Ordering::Release);
        medium.store(at, next);
        self.flush_item(at, slot);
        medium.fence();
        medium.store(at, next & !DIRTY);
        lock_word.store(lock, Ordering::Release);
        // Before the lock is given back: recovery must not do it again over a later value.
        self.records.erase(medium, record);
    }

    // Mutations.

    /// Replaces the state of `key` by what `decide` makes of it, in one step; returns the state
    /// before. `decide` may be called several times. `inserts`: whether it may put something where
    /// nothing was.
    pub(super) fn mutate(
        &self,
        key: K,
        inserts: bool,
        decide: impl Fn(Option<V>) -> Action<V>,
    ) -> Result<Option<V>, Error> {
        let hashes = self.hashes(key);
        // Before the stripe's lock, whose instruction waits for all earlier stores: so the misses
        // overlap with the fence of the operation before.
        self.prefetch_write(self.geometry(), &hashes);
        let mut retries = 0;
        loop {
            // An absence lasts only while nobody else may insert this key. (The buckets' locks do
            // not do for that: two insertions of one key may go to different buckets.)
            let stripe = inserts.then(|| {
                let stripes = self.stripes.len() as u64;
                Locked::wait(self.stripes.get((hashes.stripe % stripes) as usize))
            });
            if let Some(found) = self.find(key, &hashes) {
                if let Some(value) = self.mutate_found(key, &found, &decide) {
                    return Ok(Some(value));
                }
                spin(&mut retries);
                continue;
            }
            let Action::Put(value) = decide(None) else { return Ok(None) };
            if stripe.is_none() {
                continue;
            }
            let geometry = self.geometry();
            match self.insert(geometry, key, value, &hashes, || ()) {
                Placed::Done => {
                    drop(stripe);
                    self.count(geometry);
                    return Ok(None);
                }
                Placed::Stale => {}
                Placed::NoRoom => {
                    drop(stripe);
                    self.make_room(geometry)?;
                    // Another thread may be at it.
                    spin(&mut retries);
                }
            }
        }
    }

    /// Acts on a key where it was found; returns the value that was there. `None`: it is there no
    /// longer.
    fn mutate_found(
        &self,
        key: K,
        found: &Found<V>,
        decide: impl Fn(Option<V>) -> Action<V>,
    ) -> Option<V> {
        let &Found { place, slot, .. } = found;
        let locked = Locked::wait(self.lock_word(place));
        let medium = self.medium();
        let is_there = self.tokens(place.at) & 1 << slot != 0
            && self.bucket.key(medium, place.at, slot) == key;
        if !is_there {
            return None;
        }
        let value = self.bucket.value(medium, place.at, slot);
        match decide(Some(value)) {
            Action::Keep => {}
            Action::Put(new) => self.update_slot(place, slot, key, new),
            // Algorithm 2.
            Action::Remove => {
                self.publish(place.at, 0, 1 << slot);
                drop(locked);
                self.count_at(place.level, -1);
            }
        }
        Some(value)
    }

    /// Waits for a bucket's lock while `geometry` lasts: the caller may hold an interim bucket,
    /// which in the next geometry others wait for who hold this one.
    fn lock_under(&self, geometry: Geometry, place: Place) -> Option<Locked<'_>> {
        let mut turn = 0;
        loop {
            let locked = Locked::attempt(self.lock_word(place));
            if self.geometry() != geometry {
                return None;
            }
            if locked.is_some() {
                return locked;
            }
            spin(&mut turn);
        }
    }

    /// Algorithm 3: into the less-loaded top bucket, then the less-loaded bottom bucket, then by
    /// at most one movement. `then` is called when the item is durable, before anybody else can
    /// change it.
    pub(super) fn insert(
        &self,
        geometry: Geometry,
        key: K,
        value: V,
        hashes: &Hashes,
        then: impl Fn(),
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
                let Some(_locked) = self.lock_under(geometry, place) else {
                    return Placed::Stale;
                };
                if let Some(slot) = self.empty_slot(place.at) {
                    self.fill(place.at, slot, key, value, 0);
                    self.count_at(place.level, 1);
                    then();
                    return Placed::Done;
                }
            }
        }
        if !self.shape.design.movement {
            return Placed::NoRoom;
        }
        self.insert_by_movement(geometry, key, value, [top, bottom], then)
    }

    /// TryMovement: moves an item of one of the key's full buckets to its other bucket in that
    /// level, or from the bottom level to the top one, and takes its slot.
    #[cold]
    fn insert_by_movement(
        &self,
        geometry: Geometry,
        key: K,
        value: V,
        [top, bottom]: [[Place; 2]; 2],
        then: impl Fn(),
    ) -> Placed {
        let design = &self.shape.design;
        let top_level = geometry.top();
        let to_bottom = design.two_levels.then_some((bottom, geometry.bottom()));
        let to_top = (design.two_levels && design.bottom_to_top).then_some((bottom, top_level));
        let ways = [Some((top, top_level)), to_bottom, to_top];
        for (places, to_level) in ways.into_iter().flatten() {
            for from in places {
                let Some(_locked) = self.lock_under(geometry, from) else {
                    return Placed::Stale;
                };
                // Another thread's removal may have made room.
                let freed = match self.empty_slot(from.at) {
                    Some(slot) => Some(slot),
                    None => self.move_one(geometry, from, to_level),
                };
                if let Some(slot) = freed {
                    self.fill(from.at, slot, key, value, 0);
                    self.count_at(from.level, 1);
                    then();
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
                let Some(_locked) = Locked::attempt(self.lock_word(to)) else { continue };
                if self.geometry() != geometry {
                    // Its level may have become interim, and this bucket been emptied for good.
                    return None;
                }
                let Some(empty) = self.empty_slot(to.at) else { continue };
                let value = self.bucket.value(medium, from.at, slot);
                // A crash between copy and erasure leaves the item twice; recovery looks here.
                let _record = self.records.write(medium, &Record::<V>::movement(from, slot));
                self.fill(to.at, empty, key, value, 0);
                self.publish(from.at, 0, 1 << slot);
                self.count_at(from.level, -1);
                self.count_at(to.level, 1);
                return Some(slot);
            }
        }
        None
    }
}
