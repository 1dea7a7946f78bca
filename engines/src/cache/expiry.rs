//! Items of which the time is over. Look-ups find them no more from that millisecond on; their space comes back soon
//! after it.
//!
//! Of an item that ends some time its key's hash is noted, with that time or an earlier one, in volatile memory. So to
//! find what is over costs a look at each of these notes, once, however much else there is. A note that leads to an
//! item which is not over yet is made anew, with that item's time. So whoever prolongs an item again and again adds no
//! note each time.

use super::index::{lines_with, tag_in, tag_of};
use super::{Cache, Cause, expires_in};
use pmem::Medium;
use pmem::sync::{Mutex, Ordering};
use std::collections::{BTreeMap, HashSet};

/// log2 of the milliseconds whose notes are kept together.
const TICK_LOG2: u32 = 9;
/// Hashes are spread over so many parts.
const PARTS: usize = 8;

/// Hashes of keys whose items end, by when to look at them.
#[derive(Debug)]
pub(super) struct Wheel {
    parts: [Mutex<Notes>; PARTS],
}

#[derive(Debug, Default)]
struct Notes {
    by_tick: BTreeMap<u64, HashSet<u64>>,
    /// How often the cache had been cleared when these were made.
    generation: u64,
}

impl Notes {
    /// Forgets what was noted before the cache was cleared so often.
    fn begin(&mut self, generation: u64) {
        if generation > self.generation {
            *self = Notes { by_tick: BTreeMap::new(), generation };
        }
    }
}

impl Wheel {
    pub(super) fn new() -> Wheel {
        Wheel { parts: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Notes an item that was put when the cache had been cleared so often. One that has been cleared since then needs
    /// no note.
    fn add(&self, hash: u64, expires_ms: u64, generation: u64) {
        let mut part = self.parts[hash as usize % PARTS].lock();
        part.begin(generation);
        if part.generation == generation {
            part.by_tick.entry(expires_ms >> TICK_LOG2).or_default().insert(hash);
        }
    }

    /// Takes notes out all of which are over now, if there are any.
    fn take(&self, now_ms: u64) -> Option<HashSet<u64>> {
        let is_over = |tick: u64| tick < now_ms >> TICK_LOG2;
        self.parts.iter().find_map(|part| {
            let notes = &mut part.lock().by_tick;
            notes.first_entry().filter(|first| is_over(*first.key())).map(|first| first.remove())
        })
    }

    /// How many notes there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let of =
            |part: &Mutex<Notes>| part.lock().by_tick.values().map(HashSet::len).sum::<usize>();
        self.parts.iter().map(of).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        // A byte of control beside each place, and one place in eight stays empty.
        let of = |notes: &HashSet<u64>| (size_of::<u64>() + 1) * notes.capacity() / 7 * 8;
        let of = |part: &Mutex<Notes>| part.lock().by_tick.values().map(of).sum::<usize>() as u64;
        self.parts.iter().map(of).sum()
    }

    /// Forgets all that was noted before the cache was cleared so often. Others may have noted what they put since.
    pub(super) fn clear(&self, generation: u64) {
        self.parts.iter().for_each(|part| part.lock().begin(generation));
    }
}

impl<M: Medium> Cache<M> {
    /// Notes that the item with this stamp ends, if it does. A slot leads to it by now: else its note could be looked
    /// at too early, and never again.
    pub(super) fn note(&self, hash: u64, stamp: u64) {
        let expires_ms = expires_in(stamp);
        if expires_ms == 0 {
            return;
        }
        let generation = self.generation.load(Ordering::Acquire);
        // What was cleared since is not there.
        if self.is_of_generation(stamp) {
            self.wheel.add(hash, expires_ms, generation);
        }
    }

    /// Whether an item that a slot leads to, with this stamp, has a note that will do for one that ends at `expires_ms`
    /// in its place. The caller has the key's lock.
    pub(super) fn has_note(&self, slot: u64, stamp: u64, expires_ms: u64) -> bool {
        let noted_ms = expires_in(stamp);
        let is_early = noted_ms != 0 && noted_ms <= expires_ms;
        is_early && self.is_of_generation(stamp) && self.is_counted(slot)
    }

    /// Whether what a slot leads to is counted, and so noted, if it ends.
    pub(super) fn is_counted(&self, slot: u64) -> bool {
        let at = self.place(slot);
        let number = self.segment_of(at);
        let place = at.0.wrapping_sub(self.arena.start_of(number).0);
        self.segments[number as usize].is_counted(place)
    }

    /// Removes items of which the time is over, and gives their space back; returns how many. Call it now and then:
    /// what it costs is for those that it removes. The caller has the right to write, and holds no
    /// [`Record`](::index::Record).
    pub fn sweep(&self) -> u64 {
        let now_ms = self.settings.clock.now_ms();
        let mut removed = 0;
        while let Some(hashes) = self.wheel.take(now_ms) {
            removed += hashes.into_iter().map(|hash| self.remove_expired(hash)).sum::<u64>();
        }
        removed
    }

    /// Removes the items with this hash of which the time is over, and notes the others anew.
    fn remove_expired(&self, hash: u64) -> u64 {
        let guard = self.epochs.pin();
        let mut gone = Vec::new();
        {
            let _lock = self.lock(hash);
            for line in lines_with(&self.arena, self.directory.segment(hash), hash) {
                for (slot, number) in self.arena.medium().load_line(line).into_iter().zip(0..) {
                    if slot == 0 || tag_in(slot) != tag_of(hash) {
                        continue;
                    }
                    let Some(entry) = self.arena.entry(self.place(slot), &guard) else { continue };
                    // Another key of these lines may have the tag. It has another lock.
                    if expires_in(entry.stamp) == 0 || self.hasher.first_bytes(entry.key) != hash {
                        continue;
                    }
                    if self.is_current(entry.stamp) {
                        self.note(hash, entry.stamp);
                    } else {
                        self.empty_slot(line.word(number));
                        self.uncount(slot, entry.bytes());
                        gone.push(entry);
                    }
                }
            }
        }
        let told = gone.iter().filter(|entry| self.is_of_generation(entry.stamp));
        told.for_each(|entry| self.tell(entry, Cause::Expired));
        gone.len() as u64
    }
}
