//! Deletion, insertion and update: algorithms 2 to 4 (section 4).

use super::Core;
use super::batch::Ahead;
use super::bucket::{Locked, Unfenced};
use super::layout::{Geometry, LOCK, WRITING, next_version};
use super::records::Record;
use super::search::{Found, Four};
use super::{BATCH, STRIPES};
use index::hash::{h1, h2};
use index::{Change, Error, Fixed, is_same};
use pmem::sync::{AtomicU64, Ordering, fence, spin};
use pmem::{Medium, Offset};

/// A bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) level: u32,
    /// Index of its word in the sidecar.
    pub(super) word: u64,
}

impl Place {
    /// The bucket of a level that the low bits of `choice` choose.
    #[inline(always)]
    pub(super) fn new(level: u32, choice: u64) -> Place {
        let buckets = 1 << level;
        Place { level, word: choice & (buckets - 1) | buckets }
    }

    /// The bucket whose word has this index.
    pub(super) fn of_word(word: u64) -> Place {
        Place { level: word.ilog2(), word }
    }

    /// Its number in the level.
    #[inline(always)]
    pub(super) fn index(self) -> u64 {
        self.word ^ 1 << self.level
    }
}

/// The hash of a key: of its low and its high half each chooses a bucket in each level.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hash(pub(super) u64);

impl Hash {
    /// The stripe whose lock excludes other insertions of the key.
    #[inline(always)]
    pub(super) fn stripe(self) -> u64 {
        self.0 >> STRIPE_SHIFT & (STRIPES as u64 - 1)
    }
}

/// How the attempt to place an item ended.
pub(super) enum Placed {
    Done,
    /// The geometry has changed.
    Stale,
    /// Neither its buckets have room nor could any be made.
    NoRoom,
    /// As [`Placed::NoRoom`], but somebody held a bucket to which an item could have been moved.
    Busy,
}

/// Where the bits of a hash begin that choose the stripe: apart from the low ones of either choice,
/// or the keys of one bucket would share few stripes.
const STRIPE_SHIFT: u32 = 20;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    #[inline(always)]
    pub(super) fn hash(&self, key: K) -> Hash {
        Hash(self.hashed(key))
    }

    /// The two buckets of a key in a level, which may be one.
    #[inline(always)]
    pub(super) fn places(&self, level: u32, hash: Hash) -> [Place; 2] {
        let first = h1(hash.0);
        let second = if self.shape.design.two_hashes { h2(hash.0) } else { first };
        [Place::new(level, first), Place::new(level, second)]
    }

    /// The fingerprint of a key with this hash.
    #[inline(always)]
    pub(super) fn print(&self, hash: Hash) -> u64 {
        self.bucket.print(hash.0)
    }

    /// Where a bucket begins.
    #[inline(always)]
    pub(super) fn at(&self, place: Place) -> Offset {
        let base = self.bases[place.level as usize & 63].load(Ordering::Relaxed);
        Offset(base.wrapping_add(place.word.wrapping_mul(self.bucket.bytes)))
    }

    /// The bucket's word of the sidecar.
    #[inline(always)]
    pub(super) fn word(&self, place: Place) -> &AtomicU64 {
        self.words.get(place.word as usize)
    }

    /// The tokens of a bucket.
    #[inline(always)]
    pub(super) fn tokens(&self, at: Offset) -> u64 {
        self.medium().load(at) & self.bucket.full()
    }

    /// Replaces the state of `key` by what `decide` makes of it, in one step; returns the state
    /// before. `decide` may be called several times. `inserts`: whether it is likely to put
    /// something where nothing was.
    #[inline(always)]
    pub(super) fn mutate(
        &self,
        key: K,
        inserts: bool,
        decide: impl Fn(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error> {
        let hash = self.hash(key);
        let four = self.four(hash);
        if let Some(four) = &four {
            // Before the stripe's lock, whose instruction waits for all earlier stores: so the misses
            // overlap with the fence of the operation before.
            self.prefetch_likely(four);
            self.prefetch_words(four);
        }
        let mut unfenced = Unfenced::<M, K, V, 1>::new(self);
        self.mutate_hashed(&mut unfenced, key, hash, four.as_ref(), inserts, decide)
    }

    /// [`Core::mutate`] for many keys, with their cache misses overlapped and sharing fences.
    pub(super) fn mutate_many<T>(
        &self,
        items: &[T],
        out: &mut [Option<V>],
        key_of: impl Fn(&T) -> K,
        inserts: bool,
        decide: impl Fn(&T, Option<V>) -> Change<V>,
    ) -> Result<(), Error> {
        let mut unfenced = Unfenced::<M, K, V, BATCH>::new(self);
        let mut ahead = Ahead::new(self, items, key_of, inserts);
        for (index, (item, out)) in items.iter().zip(out).enumerate() {
            let (key, known) = ahead.key(index);
            let (four, decide) = (known.four.as_ref(), |found| decide(item, found));
            *out = self.mutate_hashed(&mut unfenced, key, known.hash, four, inserts, decide)?;
            ahead.advance(index);
        }
        Ok(())
    }

    pub(super) fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        let mut ahead = Ahead::new(self, keys, |&key| key, false);
        for (index, out) in out.iter_mut().enumerate().take(keys.len()) {
            let (key, known) = ahead.key(index);
            let usual = known
                .four
                .as_ref()
                .and_then(|four| self.find_usual(four, &known.seen, known.slots, key));
            *out = match usual {
                Some(found) => found.map(|found| found.value),
                None => self.get_anyhow(key),
            };
            ahead.advance(index);
        }
    }

    #[inline(always)]
    fn mutate_hashed<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        key: K,
        hash: Hash,
        four: Option<&Four>,
        inserts: bool,
        decide: impl Fn(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error> {
        if let Some(four) = four {
            // As in `mutate_anyhow`.
            let stripe = inserts.then(|| unfenced.lock_stripe(hash.stripe()));
            let seen = self.see(four);
            match self.find_usual(four, &seen, self.slots_with(&seen, hash), key) {
                Some(Some(found)) => {
                    let at = (found.place, found.slot);
                    let changed = self.change(unfenced, stripe, at, key, hash, &decide);
                    if changed.is_some() {
                        return Ok(changed);
                    }
                }
                Some(None) => match decide(None) {
                    Change::Put(value) if inserts => {
                        if self.insert_usual(unfenced, four, &seen.words, (key, value), hash) {
                            unfenced.end_change(stripe, 1, 0);
                            return Ok(None);
                        }
                    }
                    Change::Put(_) => {}
                    _ => return Ok(None),
                },
                None => {}
            }
        }
        self.mutate_anyhow(unfenced, key, hash, inserts, decide)
    }

    #[cold]
    #[inline(never)]
    fn mutate_anyhow<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        key: K,
        hash: Hash,
        mut inserts: bool,
        decide: impl Fn(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error> {
        let mut retries = 0;
        loop {
            // An absence lasts only while nobody else may insert this key. (The buckets' locks do
            // not do for that: two insertions of one key may go to different buckets.)
            let stripe = inserts.then(|| unfenced.lock_stripe(hash.stripe()));
            if let Some(Found { place, slot, .. }) = self.find_anyhow(key, hash) {
                match self.change(unfenced, stripe, (place, slot), key, hash, &decide) {
                    Some(value) => return Ok(Some(value)),
                    None => spin(&mut retries),
                }
                continue;
            }
            let Change::Put(value) = decide(None) else { return Ok(None) };
            if stripe.is_none() {
                inserts = true;
                continue;
            }
            let geometry = self.geometry();
            match self.insert(unfenced, geometry, key, value, hash) {
                Placed::Done => {
                    unfenced.end_change(stripe, 1, 0);
                    return Ok(None);
                }
                Placed::Stale => {}
                Placed::Busy => spin(&mut retries),
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

    /// Does what `decide` says of the value in a slot, and returns the value; `None`: the key is no
    /// longer there.
    #[inline(always)]
    fn change<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        stripe: Option<Locked<'a>>,
        (place, slot): (Place, usize),
        key: K,
        hash: Hash,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<V> {
        let locked = unfenced.lock(place);
        let at = self.at(place);
        let (found, value) = self.bucket.pair(self.medium(), at, slot);
        if self.tokens(at) & 1 << slot == 0 || !is_same(found, key) {
            return None;
        }
        match decide(Some(value)) {
            Change::Keep => {}
            Change::Put(new) => {
                if let Some(word) = self.update_slot(place, slot, key, new, hash) {
                    unfenced.push(place, locked, word);
                    unfenced.end_change(stripe, 0, 0);
                }
            }
            // Algorithm 2.
            Change::Remove => {
                self.show(at, 0, 1 << slot);
                let word = self.word(place).load(Ordering::Relaxed);
                unfenced.push(place, locked, next_version(self.bucket.without(word, slot)));
                self.count_at(place.level, -1);
                unfenced.end_change(stripe, 0, 1);
            }
        }
        Some(value)
    }

    /// Algorithm 4, the bucket being locked: in place if one word is all that changes, else
    /// log-free into an empty slot, else over the old value, with a record of the new one. Returns
    /// what the bucket's word becomes after a fence that is still to come; `None`: all is done.
    #[inline(always)]
    fn update_slot(&self, place: Place, slot: usize, key: K, value: V, hash: Hash) -> Option<u64> {
        let (medium, at) = (self.medium(), self.at(place));
        let word = self.word(place).load(Ordering::Relaxed);
        let design = &self.shape.design;
        if design.in_place_update
            && let Some(at) = self.bucket.value_word(at, slot)
        {
            // A reader that sees the value sees the lock.
            fence(Ordering::Release);
            medium.store(at, value.word(0));
            medium.flush(at);
            return Some(word);
        }
        if design.log_free_update
            && let Some(empty) = self.bucket.empty_slot(word)
        {
            self.fill(at, empty, key, value, 1 << slot);
            // One version, not one for each slot: none may be skipped, or coming around would be
            // missed.
            let word = self.bucket.without(word, slot);
            return Some(next_version(self.bucket.with(word, empty, self.print(hash))));
        }
        self.update_recorded(place, slot, value);
        None
    }

    #[cold]
    fn update_recorded(&self, place: Place, slot: usize, value: V) {
        let (medium, at) = (self.medium(), self.at(place));
        let record = self.records.write(medium, &Record::update(place, slot, value));
        // From here on recovery ends the update, so a reader may report the new value.
        let word = self.word(place).load(Ordering::Relaxed);
        self.set_word(place, word | WRITING);
        // Who sees the value sees that it is being written.
        fence(Ordering::Release);
        self.bucket.fill_value(medium, at, slot, value);
        self.flush_item(at, slot);
        medium.fence();
        self.set_word(place, next_version(word));
        // Before the lock is given back: recovery must not do it again over a later value.
        self.records.erase(medium, record);
    }

    /// Which of four buckets an item goes to, and the slot: the less-loaded one of the top level, if
    /// that has room, else of the bottom level; if that has.
    #[inline(always)]
    pub(super) fn room(&self, words: &[u64; 4]) -> Option<(usize, usize)> {
        let empty = words.map(|word| self.bucket.empty_slots(word));
        let [top, bottom] = [0, 2].map(|turn| turn + usize::from(empty[turn + 1] > empty[turn]));
        let has_bottom = self.shape.design.two_levels;
        let turn = if empty[top] == 0 && has_bottom { bottom } else { top };
        Some((turn, self.bucket.empty_slot(words[turn])?))
    }

    /// As [`Core::insert`], without movement, and only if the bucket is as it was seen; whether so.
    #[inline(always)]
    fn insert_usual<const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'_, M, K, V, MOST>,
        four: &Four,
        words: &[u64; 4],
        item: (K, V),
        hash: Hash,
    ) -> bool {
        let Some((turn, slot)) = self.room(words) else { return false };
        let (place, word) = (four.place(turn), words[turn]);
        let at = self.at(place);
        let beyond = self.bucket.beyond_tokens(slot);
        if !beyond.is_empty() {
            self.medium().prefetch_write(at.add(beyond.start));
        }
        let Some(locked) = unfenced.lock_under(four.geometry, place) else { return false };
        if self.word(place).load(Ordering::Relaxed) != word | LOCK {
            return false;
        }
        let word = next_version(self.bucket.with(word, slot, self.print(hash)));
        unfenced.insert((place, at, slot), locked, item, word);
        self.count_at(place.level, 1);
        true
    }

    /// Algorithm 3: into the less-loaded top bucket, then the less-loaded bottom bucket, then by
    /// at most one movement.
    pub(super) fn insert<const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'_, M, K, V, MOST>,
        geometry: Geometry,
        key: K,
        value: V,
        hash: Hash,
    ) -> Placed {
        let top = self.places(geometry.top(), hash);
        let bottom = self.places(geometry.bottom(), hash);
        let levels = if self.shape.design.two_levels { 2 } else { 1 };
        for places in [top, bottom].into_iter().take(levels) {
            for place in self.less_loaded_first(places) {
                let word = self.word(place).load(Ordering::Relaxed);
                let Some(slot) = self.bucket.empty_slot(word) else { continue };
                // While the lock is taken.
                let at = self.at(place);
                self.medium().prefetch_write(at.add(self.bucket.item_at(slot)));
                let Some(locked) = unfenced.lock_under(geometry, place) else {
                    return Placed::Stale;
                };
                let word = self.word(place).load(Ordering::Relaxed);
                if let Some(slot) = self.bucket.empty_slot(word) {
                    let word = next_version(self.bucket.with(word, slot, self.print(hash)));
                    unfenced.insert((place, at, slot), locked, (key, value), word);
                    self.count_at(place.level, 1);
                    return Placed::Done;
                }
            }
        }
        if !self.shape.design.movement {
            return Placed::NoRoom;
        }
        self.insert_by_movement(unfenced, geometry, key, value, hash)
    }

    fn less_loaded_first(&self, [first, second]: [Place; 2]) -> [Place; 2] {
        let load = |place| self.bucket.count(self.word(place).load(Ordering::Relaxed));
        if load(first) > load(second) { [second, first] } else { [first, second] }
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
        hash: Hash,
    ) -> Placed {
        // Else an item could not be moved to a bucket that is locked for a change before this one,
        // and a table that may not grow be called full.
        unfenced.settle();
        let design = &self.shape.design;
        let (top, bottom) = (geometry.top(), geometry.bottom());
        let mut is_busy = false;
        let to_bottom = design.two_levels.then_some((bottom, bottom));
        let to_top = (design.two_levels && design.bottom_to_top).then_some((bottom, top));
        for (from_level, to_level) in [Some((top, top)), to_bottom, to_top].into_iter().flatten() {
            for from in self.places(from_level, hash) {
                let Some(locked) = unfenced.lock_under(geometry, from) else {
                    return Placed::Stale;
                };
                // Another thread's removal may have made room.
                let empty = self.bucket.empty_slot(self.word(from).load(Ordering::Relaxed));
                let freed = empty.or_else(|| self.move_one(geometry, from, to_level, &mut is_busy));
                if let Some(slot) = freed {
                    let word = self.word(from).load(Ordering::Relaxed);
                    let word = next_version(self.bucket.with(word, slot, self.print(hash)));
                    unfenced.insert((from, self.at(from), slot), locked, (key, value), word);
                    self.count_at(from.level, 1);
                    return Placed::Done;
                }
            }
        }
        if is_busy { Placed::Busy } else { Placed::NoRoom }
    }

    /// Moves an item of a locked bucket to another of its buckets, in `to_level`; returns the slot
    /// that this frees. Sets `is_busy` if somebody else holds one that has room.
    pub(super) fn move_one(
        &self,
        geometry: Geometry,
        from: Place,
        to_level: u32,
        is_busy: &mut bool,
    ) -> Option<usize> {
        let (medium, from_at) = (self.medium(), self.at(from));
        for slot in 0..self.bucket.slots as usize {
            let key = self.bucket.key(medium, from_at, slot);
            let hash = self.hash(key);
            for to in self.places(to_level, hash) {
                let has_room =
                    |to| self.bucket.empty_slot(self.word(to).load(Ordering::Relaxed)).is_some();
                if to == from || !has_room(to) {
                    continue;
                }
                // Not waited for: whoever holds it may be waiting for the one held here.
                let Some(_locked) = Locked::attempt(self.word(to)) else {
                    *is_busy = true;
                    continue;
                };
                if self.geometry() != geometry {
                    // Its level may have become interim, and this bucket been emptied for good.
                    return None;
                }
                let word = self.word(to).load(Ordering::Relaxed);
                let Some(empty) = self.bucket.empty_slot(word) else { continue };
                let value = self.bucket.value(medium, from_at, slot);
                // A crash between copy and deletion leaves the item twice; recovery looks here.
                let _record = self.records.write(medium, &Record::<V>::movement(from, slot));
                self.fill(self.at(to), empty, key, value, 0);
                medium.fence();
                self.set_word(to, next_version(self.bucket.with(word, empty, self.print(hash))));
                self.tell_scans(key, from, to);
                self.delete(from, 1 << slot);
                self.count_at(from.level, -1);
                self.count_at(to.level, 1);
                return Some(slot);
            }
        }
        None
    }
}
