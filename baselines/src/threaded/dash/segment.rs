//! A segment: a line with its state, its buckets, and two more, the stash.

use super::bucket::{BYTES, Bucket, SLOTS, Whose, each};
use super::{Ground, Sought, allocate};
use pmem::{LINE, Medium, Offset, SpaceError};

/// Buckets of a segment's stash.
pub(super) const STASHES: u32 = 2;

/// The state of a segment, one word: where its sibling is while it is being split, and the bits of the hash that all
/// its keys share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    pub(super) fn normal(depth: u32) -> State {
        State(depth.into())
    }

    /// The sibling has been made: what is to be its is found there, and no longer here.
    pub(super) fn splitting(depth: u32, sibling: Offset) -> State {
        State(sibling.0 | u64::from(depth))
    }

    pub(super) fn depth(self) -> u32 {
        (self.0 % LINE) as u32
    }

    pub(super) fn sibling(self) -> Option<Offset> {
        let at = self.0 / LINE * LINE;
        (at != 0).then_some(Offset(at))
    }
}

/// Whether a key belongs to the sibling of a segment of this depth.
fn is_moved<M: Medium>(ground: &Ground<M>, depth: u32, key: u64) -> bool {
    Sought::new(ground, key).hash << depth >> (u64::BITS - 1) == 1
}

/// Where a key is.
pub(super) struct Found {
    /// A bucket's number.
    bucket: u32,
    slot: u32,
    pub(super) value: u64,
}

/// A segment on a medium.
pub(super) struct Segment<'a, M> {
    pub(super) ground: &'a Ground<M>,
    pub(super) at: Offset,
    /// log2 of its buckets.
    pub(super) log2: u32,
}

impl<'a, M: Medium> Segment<'a, M> {
    /// A new one, empty. Of its header nothing is flushed.
    pub(super) fn create(
        ground: &'a Ground<M>,
        log2: u32,
        depth: u32,
    ) -> Result<Segment<'a, M>, SpaceError> {
        let mut segment = Segment { ground, at: Offset(0), log2 };
        segment.at = allocate(ground, segment.bytes())?;
        segment.set_state(State::normal(depth));
        Ok(segment)
    }

    pub(super) fn bytes(&self) -> u64 {
        LINE + u64::from(self.buckets() + STASHES) * BYTES
    }

    /// Slots of it and of its stash.
    pub(super) fn slots(&self) -> u64 {
        u64::from((self.buckets() + STASHES) * SLOTS)
    }

    pub(super) fn flush_all(&self) {
        self.ground.flush(self.at, self.bytes());
    }

    pub(super) fn state(&self) -> State {
        State(self.ground.medium().load(self.at))
    }

    pub(super) fn set_state(&self, state: State) {
        self.ground.medium().store(self.at, state.0);
    }

    fn buckets(&self) -> u32 {
        1 << self.log2
    }

    #[inline(always)]
    fn bucket(&self, number: u32) -> Bucket<'a, M> {
        let at = self.at.add(LINE + u64::from(number) * BYTES);
        Bucket { medium: self.ground.medium(), at }
    }

    fn stash(&self, number: u32) -> Bucket<'a, M> {
        self.bucket(self.buckets() + number)
    }

    /// Those of the stash come last.
    pub(super) fn all(&self) -> impl Iterator<Item = Bucket<'a, M>> {
        (0..self.buckets() + STASHES).map(|number| self.bucket(number))
    }

    /// A bucket that comes so many places after a key's home.
    fn after(&self, sought: &Sought, places: u32) -> u32 {
        sought.home(self.log2).wrapping_add(places) & (self.buckets() - 1)
    }

    #[inline(always)]
    pub(super) fn home(&self, sought: &Sought) -> Bucket<'a, M> {
        self.bucket(sought.home(self.log2))
    }

    fn next(&self, sought: &Sought) -> Bucket<'a, M> {
        self.bucket(self.after(sought, 1))
    }

    /// Locks the two buckets of a key. Whoever changes or moves a key has locked its home.
    pub(super) fn lock(&self, sought: &Sought) {
        let mut both = [sought.home(self.log2), self.after(sought, 1)];
        both.sort_unstable();
        both.into_iter().for_each(|number| self.bucket(number).lock());
    }

    pub(super) fn unlock(&self, sought: &Sought) {
        self.home(sought).unlock();
        self.next(sought).unlock();
    }

    /// Locks all buckets. Nothing in the stash changes then, either.
    pub(super) fn lock_all(&self) {
        (0..self.buckets()).for_each(|number| self.bucket(number).lock());
    }

    pub(super) fn unlock_all(&self) {
        (0..self.buckets()).for_each(|number| self.bucket(number).unlock());
    }

    /// Looks a key up. The result counts if nobody has locked the key's home meanwhile.
    #[inline(always)]
    pub(super) fn find(&self, sought: &Sought) -> Option<Found> {
        let home = sought.home(self.log2);
        let found = |bucket| move |(slot, value): (u32, u64)| Found { bucket, slot, value };
        if let Some(at_home) = self.bucket(home).find(sought, Whose::Own) {
            return Some(found(home)(at_home));
        }
        let next = self.after(sought, 1);
        if let Some(in_next) = self.bucket(next).find(sought, Whose::Neighbour) {
            return Some(found(next)(in_next));
        }
        each(self.stashes(sought)).find_map(|stash| {
            let in_stash = self.stash(stash).find(sought, Whose::All)?;
            Some(found(self.buckets() + stash)(in_stash))
        })
    }

    /// A mask of the stashes in which a key may be.
    #[inline(always)]
    fn stashes(&self, sought: &Sought) -> u64 {
        let (home, next) = (self.home(sought), self.next(sought));
        if home.header().unnoted_pairs() > 0 {
            return (1 << STASHES) - 1;
        }
        let noted = |bucket: &Bucket<'a, M>, is_astray| {
            let notes = bucket.notes().map(|(_, note)| note);
            let notes =
                notes.filter(|&(print, _, astray)| (print, astray) == (sought.print(), is_astray));
            notes.fold(0, |mask, (_, stash, _)| mask | 1 << stash)
        };
        noted(&home, false) | noted(&next, true)
    }

    /// Stores the pair of a key that is absent, and whose buckets are locked. Whether there is room.
    pub(super) fn insert(&self, sought: &Sought, value: u64) -> bool {
        let (home, next) = (self.home(sought), self.next(sought));
        let pair = (sought.key, value);
        let (bucket, whose) = if home.header().len() <= next.header().len() {
            (&home, Whose::Own)
        } else {
            (&next, Whose::Neighbour)
        };
        let placed = if !bucket.header().is_full() {
            Some((bucket, whose))
        } else if self.displace(&next, self.after(sought, 2), Whose::Own) {
            Some((&next, Whose::Neighbour))
        } else if self.displace(&home, self.after(sought, u32::MAX), Whose::Neighbour) {
            Some((&home, Whose::Own))
        } else {
            None
        };
        if let Some((bucket, whose)) = placed {
            bucket.put(pair, sought.print(), whose);
            return true;
        }
        self.stash_pair(sought, value)
    }

    /// Moves a pair of `from`, which is locked, to its other bucket; whether there was one to move, and room.
    fn displace(&self, from: &Bucket<'a, M>, to: u32, whose: Whose) -> bool {
        // With two buckets there is no third one.
        let movable = from.header().slots(whose);
        if self.buckets() == 2 || movable == 0 {
            return false;
        }
        let to = self.bucket(to);
        // Two that wait for each other's locks would wait for ever.
        if !to.try_lock() {
            return false;
        }
        let has_room = !to.header().is_full();
        if has_room {
            let slot = movable.trailing_zeros();
            let other = if whose == Whose::Own { Whose::Neighbour } else { Whose::Own };
            to.put(from.pair(slot), from.print(slot), other);
            from.clear(slot);
        }
        to.unlock();
        has_room
    }

    fn stash_pair(&self, sought: &Sought, value: u64) -> bool {
        for number in 0..STASHES {
            let stash = self.stash(number);
            stash.lock();
            let has_room = !stash.header().is_full();
            if has_room {
                stash.put((sought.key, value), sought.print(), Whose::Own);
            }
            stash.unlock();
            if has_room {
                self.note(sought, number);
                return true;
            }
        }
        false
    }

    /// Says in a key's buckets that it is in the stash.
    fn note(&self, sought: &Sought, stash: u32) {
        let (home, next) = (self.home(sought), self.next(sought));
        if !home.try_note(sought.print(), stash, false)
            && !next.try_note(sought.print(), stash, true)
        {
            home.count_unnoted();
        }
    }

    fn unnote(&self, sought: &Sought, stash: u32) {
        let (home, next) = (self.home(sought), self.next(sought));
        if !home.try_unnote(sought.print(), stash, false)
            && !next.try_unnote(sought.print(), stash, true)
        {
            home.discount_unnoted();
        }
    }

    /// Changes the bucket in which something was found. Those of the stash have locks of their own.
    fn change(&self, found: &Found, change: impl FnOnce(&Bucket<'a, M>)) {
        let bucket = self.bucket(found.bucket);
        let is_stash = found.bucket >= self.buckets();
        if is_stash {
            bucket.lock();
        }
        change(&bucket);
        if is_stash {
            bucket.unlock();
        }
    }

    pub(super) fn replace(&self, found: &Found, value: u64) {
        self.change(found, |bucket| bucket.replace(found.slot, value));
    }

    pub(super) fn remove(&self, sought: &Sought, found: &Found) {
        self.change(found, |bucket| bucket.clear(found.slot));
        if let Some(stash) = found.bucket.checked_sub(self.buckets()) {
            self.unnote(sought, stash);
        }
    }

    /// Copies what is the sibling's, without flushing anything. Pairs keep their places, so all find room, but those of
    /// the stash come out of it if their buckets have room now.
    pub(super) fn copy_moved(&self, sibling: &Segment<'a, M>) {
        let depth = self.state().depth();
        for number in 0..self.buckets() + STASHES {
            let (from, same) = (self.bucket(number), sibling.bucket(number));
            for slot in each(from.header().used()) {
                let pair = from.pair(slot);
                if !is_moved(self.ground, depth, pair.0) {
                    continue;
                }
                let is_neighbour = from.header().neighbours() >> slot & 1 == 1;
                let whose = if is_neighbour { Whose::Neighbour } else { Whose::Own };
                if number < self.buckets() || !sibling.fill_outside_stash(pair) {
                    same.fill(slot, pair);
                    same.show(slot, from.print(slot), whose);
                }
            }
        }
        sibling.note_all();
    }

    fn fill_outside_stash(&self, pair: (u64, u64)) -> bool {
        let sought = Sought::new(self.ground, pair.0);
        let (home, next) = (self.home(&sought), self.next(&sought));
        let (bucket, whose) = if home.header().len() <= next.header().len() {
            (home, Whose::Own)
        } else {
            (next, Whose::Neighbour)
        };
        if bucket.header().is_full() {
            return false;
        }
        let slot = bucket.free_slot();
        bucket.fill(slot, pair);
        bucket.show(slot, sought.print(), whose);
        true
    }

    /// Frees the slots of what is the sibling's, durably, and ends the split.
    pub(super) fn drop_moved(&self) {
        let depth = self.state().depth();
        for bucket in self.all() {
            let header = bucket.header();
            let slots = each(header.used())
                .filter(|&slot| is_moved(self.ground, depth, bucket.pair(slot).0));
            let moved = slots.fold(0, |mask, slot| mask | 1 << slot);
            bucket.set_header(header.without(moved).without_notes());
            bucket.flush_first();
        }
        self.note_all();
        self.ground.medium().fence();
        // It need not be durable: a split that has ended can be ended again.
        self.set_state(State::normal(depth + 1));
    }

    /// Notes all pairs of the stash, of which nothing is noted.
    fn note_all(&self) {
        for number in 0..STASHES {
            let stash = self.stash(number);
            for slot in each(stash.header().used()) {
                self.note(&Sought::new(self.ground, stash.pair(slot).0), number);
            }
        }
    }

    /// Repairs what a crash may have left, while nobody else looks at it: locks are released, of two copies of a pair
    /// that was being moved one remains, and the stash is noted. All of it is durable then. If it was being split,
    /// that ends.
    pub(super) fn recover(&self) {
        self.all().for_each(|bucket| bucket.reset());
        for number in 0..self.buckets() {
            let bucket = self.bucket(number);
            let before = self.bucket(number.wrapping_sub(1) & (self.buckets() - 1));
            let header = bucket.header();
            let is_copy = |&slot: &u32| {
                let key = bucket.pair(slot).0;
                before.find(&Sought::with_print(key, bucket.print(slot)), Whose::Own).is_some()
            };
            let copies = each(header.slots(Whose::Neighbour)).filter(is_copy);
            let copies = copies.fold(0, |mask, slot| mask | 1 << slot);
            if copies != 0 {
                bucket.set_header(header.without(copies));
            }
        }
        self.flush_all();
        if self.state().sibling().is_some() {
            self.drop_moved();
        } else {
            self.note_all();
            self.ground.medium().fence();
        }
    }

    /// Verifies that every pair is where it belongs, and that the notes are of the stash's pairs.
    pub(super) fn check(&self, prefix: u64) -> Result<(), String> {
        let depth = self.state().depth();
        if self.state().sibling().is_some() {
            return Err(format!("the segment at {} is being split", self.at));
        }
        let mut stashed = vec![Vec::new(); self.buckets() as usize];
        for (number, bucket) in (0u32..).zip(self.all()) {
            let wrong = |what: &str| Err(format!("bucket {number} of {}: {what}", self.at));
            let header = bucket.header();
            if bucket.unlocked().is_none() {
                return wrong("it is locked");
            }
            if header.neighbours() & !header.used() != 0 {
                return wrong("a free slot has a home");
            }
            for slot in each(header.used()) {
                let sought = Sought::new(self.ground, bucket.pair(slot).0);
                let is_neighbour = header.neighbours() >> slot & 1 == 1;
                let home = sought.home(self.log2);
                if bucket.print(slot) != sought.print() {
                    return wrong("a fingerprint is another one's");
                }
                if depth > 0 && (sought.hash ^ prefix) >> (u64::BITS - depth) != 0 {
                    return wrong("a pair is of another segment");
                }
                match number.checked_sub(self.buckets()) {
                    Some(stash) => stashed[home as usize].push((sought.print(), stash)),
                    None if number == self.after(&sought, is_neighbour.into()) => {}
                    None => return wrong("a pair is of another bucket"),
                }
            }
        }
        for (home, mut stashed) in (0..).zip(stashed) {
            let next = (home + 1) & (self.buckets() - 1);
            for (bucket, is_astray) in [(home, false), (next, true)] {
                let notes: Vec<_> = self.bucket(bucket).notes().map(|(_, note)| note).collect();
                for (print, stash, _) in notes.into_iter().filter(|note| note.2 == is_astray) {
                    let noted = stashed.iter().position(|&pair| pair == (print, stash));
                    let noted = noted.ok_or_else(|| {
                        format!("bucket {bucket} of {}: a note of no pair", self.at)
                    })?;
                    stashed.swap_remove(noted);
                }
            }
            if self.bucket(home).header().unnoted_pairs() != stashed.len() as u64 {
                return Err(format!("bucket {home} of {}: pairs are not noted", self.at));
            }
        }
        Ok(())
    }
}
