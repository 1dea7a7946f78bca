//! Changes of a key, as all engines make them. What is the engine's own: where an item goes, how room is made, and by
//! which word a change is committed.

use super::ahead::Known;
use super::buckets::{Item, Located, Locked, Near, Seen};
use super::buckets::{LOCK, WRITING};
use super::hash::{Hash, slots_in};
use super::log::Entry;
use super::mutation::Likely;
use super::operations::{Operations, Placed};
use super::search::{Found, Search};
use super::unfenced::Unfenced;
use index::{Change, Error, Fixed};
use pmem::Medium;
use pmem::sync::{Ordering, fence, spin};

/// Copies of a bucket's items that share their fences.
const COPIES: usize = 8;

pub(crate) trait Mutate: Operations {
    /// Replaces the state of `key` by what `decide` makes of it, in one step; returns the state before. `decide` may be
    /// called several times. `likely`: what it is expected to do.
    #[cold]
    #[inline(never)]
    fn mutate_slow<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        key: Self::Key,
        mut likely: Likely,
        decide: &dyn Fn(Option<Self::Value>) -> Change<Self::Value>,
    ) -> Result<Option<Self::Value>, Error> {
        let hash = self.hash(key);
        let mut retries = 0;
        loop {
            // An absence lasts only while nobody else may insert this key. (The locks of slots or buckets do not do
            // for that: two insertions of one key may go to different ones.)
            let home = self.needs_home(likely).then(|| unfenced.lock_home(hash));
            if let Some(Found { bucket, spot, .. }) = self.find_slow(key, hash) {
                match self.change(unfenced, home, (bucket, spot), key, hash, decide) {
                    Some(value) => return Ok(Some(value)),
                    None => spin(&mut retries),
                }
                continue;
            }
            let Change::Put(value) = decide(None) else { return Ok(None) };
            if home.is_none() {
                likely = Likely::Inserts;
                continue;
            }
            let geometry = self.geometry();
            match self.insert(unfenced, geometry, (key, value), hash) {
                Placed::Done => {
                    unfenced.end_change(home, 1, 0);
                    return Ok(None);
                }
                Placed::Stale => {}
                Placed::Busy => spin(&mut retries),
                Placed::NoRoom => {
                    drop(home);
                    unfenced.commit();
                    self.grow(geometry, hash)?;
                    // Another thread may be at it.
                    spin(&mut retries);
                }
            }
        }
    }

    /// As [`Mutate::mutate_slow`], for what nearly all mutations need; returns the state before, or `None`: nothing was
    /// done, and it is left to that.
    #[inline(always)]
    fn mutate_fast<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        key: Self::Key,
        known: &Known<Self>,
        likely: Likely,
        decide: &impl Fn(Option<Self::Value>) -> Change<Self::Value>,
    ) -> Option<Option<Self::Value>> {
        let hash = known.hash;
        let near = known.near.as_ref()?;
        // What is there needs no home: its bucket's lock excludes other changes.
        let home = self.needs_home(likely).then(|| unfenced.lock_home(hash));
        let again = self.see_again(near, known, likely);
        let (seen, slots) = match &again {
            Some((seen, slots)) => (seen, *slots),
            None => (&known.seen, known.slots),
        };
        match self.find_fast(near, seen, slots, key)? {
            Some(Found { bucket, spot, .. }) => {
                self.change(unfenced, home, (bucket, spot), key, hash, decide).map(Some)
            }
            None => match decide(None) {
                Change::Put(value) => {
                    if home.is_none() || !self.insert_fast(unfenced, near, seen, (key, value), hash)
                    {
                        return None;
                    }
                    unfenced.end_change(home, 1, 0);
                    Some(None)
                }
                _ => Some(None),
            },
        }
    }

    /// Whether a change that is expected to do this happens under the home of its key.
    #[inline(always)]
    fn needs_home(&self, likely: Likely) -> bool {
        likely == Likely::Inserts || self.locks_all_homes()
    }

    /// Does what `decide` says of the value where it was found, and returns the value; `None`: the key is no longer
    /// there.
    #[inline(always)]
    fn change<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        home: Option<Locked<'a>>,
        (bucket, spot): (Self::Bucket, Self::Spot),
        key: Self::Key,
        hash: Hash,
        decide: &(impl Fn(Option<Self::Value>) -> Change<Self::Value> + ?Sized),
    ) -> Option<Self::Value> {
        let locked = unfenced.lock(bucket);
        let bucket = self.locate(bucket);
        let value = self.value_if_there(bucket, spot, key)?;
        match decide(Some(value)) {
            Change::Keep => {}
            Change::Put(new) => {
                self.update(unfenced, home, locked, (bucket, spot), (key, new), hash);
            }
            Change::Remove => {
                let aside = self.begin_aside(key, hash, false, None);
                let change = self.erase(bucket, spot);
                unfenced.push(locked, change, aside);
                unfenced.end_change(home, 0, 1);
            }
        }
        Some(value)
    }

    /// Update of an item of a locked bucket: in place if one word is all that changes; else into an empty slot of the
    /// bucket, and one word shows that instead; else over the old value, with the new one in the log.
    #[inline(always)]
    fn update<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        home: Option<Locked<'a>>,
        locked: Locked<'a>,
        (bucket, spot): (Located<Self::Bucket>, Self::Spot),
        item: Item<Self>,
        hash: Hash,
    ) {
        let medium = self.medium();
        let aside = self.begin_aside(item.0, hash, false, Some(item.1));
        if let Some(at) = self.value_word(bucket.at, spot) {
            // A reader that sees the value sees the lock.
            fence(Ordering::Release);
            medium.store(at, item.1.word(0));
            medium.flush(at);
            unfenced.push(locked, self.unseen(bucket.bucket), aside);
        } else if let Some((to, clear)) = self.slot_for_update(bucket.bucket, spot) {
            unfenced.put((bucket, to), locked, item, hash, clear, aside);
        } else {
            self.update_logged(bucket.bucket, spot, item);
            self.end_aside(aside);
            return;
        }
        unfenced.end_change(home, 0, 0);
    }

    /// Stores a value over another one, with the new one in the log meanwhile.
    #[cold]
    fn update_logged(&self, bucket: Self::Bucket, spot: Self::Spot, item: Item<Self>) {
        let (level, number, slot) = Self::in_log(bucket, spot);
        let entry = Entry::update(level, number, slot, item.1);
        let entry = self.shared().log.write(self.medium(), &entry);
        // From here on recovery ends the update, so a reader may report the new value.
        let before = self.state(bucket).load(Ordering::Relaxed);
        self.set_state(bucket, before | WRITING);
        // A thread that sees the value also sees that it is being written.
        fence(Ordering::Release);
        self.overwrite(bucket, spot, item);
        self.set_state(bucket, Self::next_version(before));
        // Before the lock is given back: recovery must not do it again over a later value.
        self.shared().log.erase(self.medium(), entry);
    }

    /// As [`Operations::insert`], where nothing has to be moved, and only if the bucket is as it was seen; whether so.
    #[inline(always)]
    fn insert_fast<const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'_, Self, MOST>,
        near: &Self::Near,
        seen: &Self::Seen,
        item: Item<Self>,
        hash: Hash,
    ) -> bool {
        if !Self::takes(item.0) {
            return false;
        }
        let Some((nth, slot)) = self.room(seen) else { return false };
        let bucket = self.locate(near.bucket(nth));
        self.prefetch_slot(bucket.at, slot);
        let locked = unfenced.lock_under(near.geometry(), bucket.bucket);
        let Some(locked) = locked else { return false };
        if self.state(bucket.bucket).load(Ordering::Relaxed) != seen.state(nth) | LOCK {
            return false;
        }
        unfenced.insert((bucket, slot), locked, item, hash);
        true
    }

    /// Copies items of a locked bucket, which a resize empties, to where they belong, and then deletes them here.
    fn copy_out_of(&self, geometry: Self::Geometry, bucket: Self::Bucket, slots: u64) -> Placed {
        let mut unfenced = Unfenced::<Self, COPIES>::from(self, bucket);
        for slot in slots_in(slots) {
            let item = self.item(self.at(bucket), slot);
            match self.insert(&mut unfenced, geometry, item, self.hash(item.0)) {
                Placed::Done => unfenced.end_copy(Self::spot(slot), item.0),
                other => return other,
            }
        }
        Placed::Done
    }

    /// Puts an item into the emptier one of two buckets, if one has room.
    #[inline(always)]
    fn insert_into_emptier<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        geometry: Self::Geometry,
        [first, second]: [Self::Bucket; 2],
        item: Item<Self>,
        hash: Hash,
    ) -> Placed {
        let is_second = self.empty_slots(second) > self.empty_slots(first);
        let emptier_first = if is_second { [second, first] } else { [first, second] };
        for bucket in unfenced.not_held_first(emptier_first) {
            let Some(slot) = self.empty_slot(bucket) else { continue };
            // While the lock is taken.
            self.prefetch_slot(self.at(bucket), slot);
            let Some(locked) = unfenced.lock_under(geometry, bucket) else { return Placed::Stale };
            if let Some(slot) = self.empty_slot(bucket) {
                unfenced.insert((self.locate(bucket), slot), locked, item, hash);
                return Placed::Done;
            }
        }
        Placed::NoRoom
    }

    /// Puts an item into one of its full buckets, after another item has been moved out of it.
    #[cold]
    #[inline(never)]
    fn insert_moving<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        geometry: Self::Geometry,
        item: Item<Self>,
        hash: Hash,
    ) -> Placed {
        // Else an item could not be moved to a bucket that is locked for a change before this one,
        // and a table that may not grow be called full.
        unfenced.commit();
        let mut is_busy = false;
        for (bucket, way) in self.ways(geometry, hash) {
            let Some(locked) = unfenced.lock_under(geometry, bucket) else { return Placed::Stale };
            // Another thread's removal may have made room.
            let empty = self.empty_slot(bucket).map(|slot| (slot, None));
            let freed = empty.or_else(|| self.free_slot(geometry, bucket, way, &mut is_busy));
            if let Some((slot, moved_to)) = freed {
                unfenced.insert((self.locate(bucket), slot), locked, item, hash);
                unfenced.hold(moved_to);
                return Placed::Done;
            }
        }
        if self.geometry() != geometry {
            // Moves were given up for that.
            Placed::Stale
        } else if is_busy {
            Placed::Busy
        } else {
            Placed::NoRoom
        }
    }
}

impl<T: Operations> Mutate for T {}
