//! Scans while others write: every key that is present throughout is met exactly once.
//!
//! During a scan a pair stays in its level, and only a doubling moves it: to the block whose number has one more bit of
//! the hash that led the pair here. So this hash says where a pair is in the order of a scan, whatever the size of the
//! table, and a mover need not tell a scan anything. A scan goes through these places in turn and takes the pairs of
//! one block at once, under the block's lock. During a scan the table only grows. A block that is split before its turn
//! has two turns instead of one. No block has a turn after its pairs were taken as part of another block.
//!
//! No shrink begins during a scan. A scan that begins during a shrink takes both blocks of a family at once, under both
//! locks. A pair that goes from level 1 to level 3 stays with its block. During a scan, nothing moves a pair out of
//! level 2.
//!
//! A scan that meets a block which no fingerprints have been built for builds it first (see `building`).
//!
//! A scan moves nothing: it takes the pairs of a block that is still to be moved where they are.

use super::Core;
use super::block::Locked;
use super::layout::{MOVED_1, MOVED_2, SPILLED, SPILLED_WORD};
use super::shrink::OpenScan;
use index::fingerprint::lanes;
use index::{Error, Scan};
use pmem::Medium;
use pmem::sync::{AtomicBool, AtomicU64, Ordering, Part, run_parts};
use std::ops::ControlFlow;

/// Bits of a place: as many as the number of a block can have.
const PLACE_BITS: u32 = super::BLOCKS_LOG2_MAX;
const PLACES: u64 = 1 << PLACE_BITS;

/// The levels as scans see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Level 1, each block with its chain of level 3.
    One,
    Two,
}

/// The order in which a scan goes through the blocks of a level.
///
/// ```text
///   hash     | …               | b | a | number in a table of 2^log2 blocks |
///   place    | number in a table of 2^log2 blocks | a | b | …               |   32 bits
/// ```
///
/// The blocks of a table of that size are visited in the order of their numbers. In a larger table, all blocks that one
/// block was split into stand where it stood: each doubling halves the places of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    log2: u32,
}

impl Order {
    /// The low bits of the hash of pairs at this place.
    fn hash_at(self, place: u64) -> u64 {
        let others = place & ((1 << (PLACE_BITS - self.log2)) - 1);
        place >> (PLACE_BITS - self.log2) | u64::from((others as u32).reverse_bits())
    }
}

/// A block whose lock a scan holds.
struct Visited<'a> {
    block: u64,
    /// The block that a shrink empties into this one.
    upper: Option<(u64, Locked<'a>)>,
    /// log2 of the number of blocks in a table in which this block has the pairs that it has now.
    log2: u32,
    _locked: Locked<'a>,
}

/// A scan of all places.
pub(super) struct PlaceScan<'a, M: Medium> {
    core: &'a Core<M>,
    level: Level,
    order: Order,
    /// The next place.
    place: u64,
    _open: OpenScan<'a>,
}

impl<'a, M: Medium> PlaceScan<'a, M> {
    pub(super) fn new(core: &'a Core<M>) -> Self {
        let open = core.open_scan();
        PlaceScan {
            core,
            level: Level::One,
            order: core.order_of(Level::One),
            place: 0,
            _open: open,
        }
    }
}

impl<M: Medium> Scan<u64, u64> for PlaceScan<'_, M> {
    fn take_some(&mut self, pairs: &mut Vec<(u64, u64)>) -> Result<bool, Error> {
        if self.place < PLACES {
            self.place = self.core.take(self.level, self.order, self.place, pairs);
        } else if self.level == Level::One {
            self.order = self.core.order_of(Level::Two);
            (self.level, self.place) = (Level::Two, 0);
        }
        Ok(self.place < PLACES || self.level == Level::One)
    }
}

impl<M: Medium> Core<M> {
    /// Visits all places on `threads` threads. A pair that a resize moves keeps its place, and so its thread.
    #[inline(never)]
    pub(super) fn for_each_on(
        &self,
        threads: usize,
        visit: &(dyn Fn(u64, u64) -> ControlFlow<()> + Sync),
    ) {
        let _open = self.open_scan();
        // Few pairs lie in level 2: a thread that has had enough of them would look for the next one for long.
        let is_enough = &AtomicBool::new(false);
        for level in [Level::One, Level::Two] {
            // One order for all threads: the bounds between them depend on it.
            let order = self.order_of(level);
            let bound = |part| {
                (((part as u64) << order.log2) / threads as u64) << (PLACE_BITS - order.log2)
            };
            let part = |part| {
                let [mut place, end] = [part, part + 1].map(bound);
                Box::new(move || {
                    let mut pairs = Vec::new();
                    while place < end && !is_enough.load(Ordering::Relaxed) {
                        place = self.take(level, order, place, &mut pairs);
                        let visited =
                            pairs.drain(..).try_for_each(|(key, value)| visit(key, value));
                        if visited.is_break() {
                            is_enough.store(true, Ordering::Relaxed);
                        }
                    }
                }) as Part<'_>
            };
            run_parts((0..threads).map(part).collect());
        }
    }

    /// An order in which the places of each block are consecutive, whether the block has been moved or not.
    fn order_of(&self, level: Level) -> Order {
        let geometry = self.geometry();
        let (log2, is_doubling) = match level {
            Level::One => {
                (geometry.level_1_log2(), geometry.resizing_1() && !geometry.shrinking_1())
            }
            Level::Two => {
                (geometry.level_2_log2(), geometry.resizing_2() && !geometry.shrinking_2())
            }
        };
        Order { log2: log2 - u32::from(is_doubling) }
    }

    /// Adds the pairs of the block at a place, all of them durable; returns the first place after the block.
    #[inline(never)]
    fn take(&self, level: Level, order: Order, place: u64, pairs: &mut Vec<(u64, u64)>) -> u64 {
        let visited = self.visit(level, order, place);
        for block in visited.upper.iter().map(|&(upper, _)| upper).chain([visited.block]) {
            match level {
                Level::One => self.take_1(block, pairs),
                Level::Two => self.take_2(block, pairs),
            }
        }
        (place | ((1 << (PLACE_BITS - visited.log2)) - 1)) + 1
    }

    /// Locks the block that has the pairs at a place.
    fn visit(&self, level: Level, order: Order, place: u64) -> Visited<'_> {
        let hash = order.hash_at(place);
        let number = |log2: u32| hash & ((1 << log2) - 1);
        loop {
            let geometry = self.geometry();
            let (log2, is_resizing, is_shrinking, flag, moved) = match level {
                Level::One => (
                    geometry.level_1_log2(),
                    geometry.resizing_1(),
                    geometry.shrinking_1(),
                    MOVED_1,
                    geometry.moved_1(),
                ),
                Level::Two => (
                    geometry.level_2_log2(),
                    geometry.resizing_2(),
                    geometry.shrinking_2(),
                    MOVED_2,
                    geometry.moved_2(),
                ),
            };
            let lower_log2 = log2 - u32::from(is_resizing && !is_shrinking);
            let (lower, block) = (number(lower_log2), number(log2));
            if geometry.is_building() {
                match level {
                    Level::One => self.build_1(geometry, lower),
                    Level::Two => self.build_2(geometry, lower),
                }
            }
            let word = self.lock_of(level, lower);
            let locked = Locked::wait(word);
            // A thread that publishes a newer geometry waits for the lock before it moves anything.
            if self.geometry() != geometry {
                continue;
            }
            if is_resizing && word.load(Ordering::Relaxed) & flag != moved {
                let upper = is_shrinking.then(|| {
                    let upper = lower + (1 << log2);
                    (upper, Locked::wait(self.lock_of(level, upper)))
                });
                return Visited { block: lower, upper, log2: lower_log2, _locked: locked };
            }
            if lower == block {
                return Visited { block, upper: None, log2, _locked: locked };
            }
            drop(locked);
            // Only after the source has been moved: until then its mover writes here without a lock.
            let locked = Locked::wait(self.lock_of(level, block));
            if self.geometry() == geometry {
                return Visited { block, upper: None, log2, _locked: locked };
            }
        }
    }

    /// The word with the lock of a block.
    fn lock_of(&self, level: Level, block: u64) -> &AtomicU64 {
        match level {
            Level::One => self.flags_1(block),
            Level::Two => self.word_2(block),
        }
    }

    /// Adds the pairs of a level-1 block, whose lock is held, and of its chain.
    fn take_1(&self, block: u64, pairs: &mut Vec<(u64, u64)>) {
        let medium = self.medium();
        let taken = lanes(self.taken_1(block));
        pairs.extend(taken.map(|lane| medium.load_pair(self.slot_1(block, lane))));
        if self.line_1(block)[SPILLED_WORD].load(Ordering::Relaxed) & SPILLED != 0 {
            pairs.extend(self.level_3.pairs(medium, block));
        }
    }

    /// Adds the pairs of a level-2 block, whose lock is held.
    fn take_2(&self, block: u64, pairs: &mut Vec<(u64, u64)>) {
        let used = self.used_2(block);
        pairs.extend(used.map(|lane| self.medium().load_pair(self.slot_2(block, lane))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In a table at least as large as that of the order, the places of a block are consecutive.
        #[test]
        fn a_block_is_a_run_of_places(
            log2 in 0..=PLACE_BITS,
            more in 0..=PLACE_BITS,
            places: [u32; 2],
        ) {
            let order = Order { log2 };
            let blocks_log2 = (log2 + more).min(PLACE_BITS);
            let [a, b] = places.map(|place| order.hash_at(place.into()));
            prop_assert!(a <= u32::MAX.into());
            let in_one_block = (a ^ b).trailing_zeros() >= blocks_log2;
            let in_one_run = u64::from(places[0] ^ places[1]) >> (PLACE_BITS - blocks_log2) == 0;
            prop_assert_eq!(in_one_block, in_one_run);
        }

        /// A table of the order's size is visited block by block.
        #[test]
        fn blocks_come_in_the_order_of_their_numbers(log2 in 0..=PLACE_BITS, block: u32) {
            let block = u64::from(block) & ((1 << log2) - 1);
            prop_assert_eq!(Order { log2 }.hash_at(block << (PLACE_BITS - log2)), block);
        }
    }
}
