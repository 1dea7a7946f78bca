//! What is recorded of a pool's companions: its log, and the sums of its file.

use super::Pool;
use super::copies::write_copies;
use crate::medium::Medium;
use crate::superblock::{Durability, Logged, SUPERBLOCK_BYTES, Superblock};
use std::io;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
use {
    super::LINE_WORDS,
    crate::offset::{LINE, Offset, WORD},
    crate::superblock::UUID_WORD,
};

impl<M: Medium> Pool<M> {
    /// Records how often the pool was opened for writing, of a new one that is to take another one's place: tickets of
    /// that are to stay smaller than its own.
    pub fn set_incarnation(&self, incarnation: u64) -> io::Result<()> {
        self.record(&|superblock| superblock.incarnation = incarnation)
    }

    /// Records how the pool is logged, down to the device, whether it is clean or not.
    #[inline(never)]
    pub fn set_logged(&self, logged: Option<Logged>) -> io::Result<()> {
        self.record(&|superblock| superblock.set_logged(logged))
    }

    /// Records that the pool is not logged, since this durability was asked for; as [`Pool::set_logged`].
    #[inline(never)]
    pub fn set_unlogged(&self, asked: Durability) -> io::Result<()> {
        self.record(&|superblock| superblock.set_unlogged(asked))
    }

    /// Records whether sums of the file are to be written when the pool is closed; as [`Pool::set_logged`].
    #[inline(never)]
    pub fn set_keeps_sums(&self, keeps: bool) -> io::Result<()> {
        self.record(&|superblock| superblock.set_keeps_sums(keeps))
    }

    pub(super) fn record(&self, change: &dyn Fn(&mut Superblock)) -> io::Result<()> {
        let mut superblock = self.superblock.lock();
        self.demand_own(&superblock)?;
        let mut marked = superblock.clone();
        change(&mut marked);
        if marked == *superblock {
            return Ok(());
        }
        marked.advance(superblock.clean, superblock.pairs());
        write_copies(&self.medium, &marked);
        *superblock = marked;
        self.medium.sync(0..SUPERBLOCK_BYTES)
    }
}

#[cfg(not(any(feature = "simulated", feature = "loom")))]
impl<M: Medium> Pool<M> {
    /// Whether the file has a pool of this identity.
    fn bears(&self, uuid: u128) -> bool {
        let found = self.medium.read_two(Offset(0).word(UUID_WORD));
        found.is_some_and(|[low, high]| u128::from(low) | u128::from(high) << 64 == uuid)
    }
}

#[cfg(not(any(feature = "simulated", feature = "loom")))]
impl<M: Medium> crate::durability::Image for Pool<M> {
    fn bytes(&self) -> u64 {
        self.superblock.lock().end.next_multiple_of(WORD)
    }

    fn bytes_at_hand(&self) -> u64 {
        // A helper may have prepared space ahead, before there was a log.
        self.medium().size().max(self.bytes())
    }

    fn copy(&self, at: u64, words: &mut [u64]) {
        self.medium.read_ahead(at..at + words.len() as u64 * WORD);
        // Nothing in them counts. What is stored once one has space again comes later, so the log has it.
        let held = self.holes.lock();
        let holes = held.overlapping(&(at..at + words.len() as u64 * WORD));
        // Each line is read until two readings agree. A line that is never flushed is not in the log, so the log cannot
        // mend it: it must not show a later store without an earlier one.
        for (line, words) in (0..).zip(words.chunks_mut(LINE_WORDS)) {
            let from = Offset(at + line * LINE);
            if holes.iter().any(|hole| hole.contains(&from.0)) {
                words.fill(0);
                continue;
            }
            let load = |index: u64| self.medium.load(from.word(index));
            (0..).zip(&mut *words).for_each(|(index, word)| *word = load(index));
            loop {
                let mut is_still = true;
                for (index, word) in (0..).zip(&mut *words) {
                    let now = load(index);
                    is_still &= std::mem::replace(word, now) == now;
                }
                if is_still {
                    break;
                }
            }
        }
    }

    fn load(&self, at: u64) -> u64 {
        let held = self.holes.lock();
        let is_hole = !held.overlapping(&(at..at + WORD)).is_empty();
        // A look at it would take space.
        if is_hole { 0 } else { self.medium.load(Offset(at)) }
    }

    fn is_given_back(&self, at: u64) -> bool {
        !self.holes.lock().overlapping(&(at..at + LINE)).is_empty()
    }

    fn wait_for_operations(&self) {
        self.wait_for_writers();
    }

    /// Also if the file holds another pool: then what threads have flushed since is not this one's. Two words are
    /// looked at, which never change, so that nobody waits for who holds the superblock.
    fn has_failed(&self) -> bool {
        if !Pool::has_failed(self) && !self.bears(self.uuid) {
            self.medium.fail();
        }
        Pool::has_failed(self)
    }

    fn name_checkpoints(&self, current: Option<u128>, next: Option<u128>) -> io::Result<()> {
        self.record(&|superblock| superblock.set_checkpoints(current, next))
    }
}
