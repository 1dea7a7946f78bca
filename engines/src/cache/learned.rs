//! What is worth its space, as measured while the cache runs.
//!
//! Whenever an item is looked at to decide whether it stays, it gets a class: its queue, its hits since it was looked
//! at last, whether it had any before that and was in the main queue then, and how often its key was counted in the
//! sketch. When it is looked at next, its hits by then and the time that it has taken up space go to the account of
//! that class. Hits per time are what items of a class are expected to earn: so frequency decides where it foretells
//! hits, as with fixed popularity and in loops, and recency where that does, as with popularity that shifts. Nothing is
//! assumed of either.

use super::segments::Queue;

/// Bits of a class, with one value that means none.
pub(super) const CLASS_BITS: u32 = 9;
const CLASSES: usize = 256;

/// An item of which nothing is known yet.
pub(super) const NO_CLASS: u64 = 0;

/// What is added to hits and to time, in capacities: a class of which nothing is known is neither worthless nor sure.
const PRIOR_HITS: f64 = 0.2;
const PRIOR_TIME: f64 = 1.0;
/// Hits per time of all items below which nothing is worth a copy.
const MEAN_MIN: f64 = 0.001;

/// Accounts of the classes.
#[derive(Debug)]
pub(super) struct Learned {
    hits: [f64; CLASSES],
    times: [f64; CLASSES],
    /// Of all of them.
    all_hits: f64,
    all_time: f64,
}

impl Default for Learned {
    fn default() -> Self {
        Learned { hits: [0.0; CLASSES], times: [0.0; CLASSES], all_hits: 0.0, all_time: 0.0 }
    }
}

/// Where a class has the item's hits, and where its queue.
const HITS_SHIFT: u32 = 3;
const QUEUE_SHIFT: u32 = 5;

/// The class of an item that was of the class `before`, has these hits since then, and whose key was counted so often.
pub(super) fn class_of(before: u64, queue: Queue, hits: u8, count: u8) -> u64 {
    let before = before.checked_sub(1);
    let had_hits = before.is_some_and(|place| place >> HITS_SHIFT & 3 > 0);
    let was_in_main = before.is_some_and(|place| place >> QUEUE_SHIFT & 1 > 0);
    let count = match count {
        0..=1 => 0,
        _ => (8 - (count - 1).leading_zeros()).min(7),
    };
    let hits = u64::from(hits.min(3));
    let history = u64::from(had_hits) << 1 | u64::from(was_in_main);
    1 + (history << 6 | (queue as u64) << QUEUE_SHIFT | hits << HITS_SHIFT | u64::from(count))
}

impl Learned {
    /// Forgets this part of all accounts: what is learned from now on counts more.
    pub(super) fn forget(&mut self, part: f64) {
        let rest = 1.0 - part.clamp(0.0, 1.0);
        self.hits.iter_mut().chain(&mut self.times).for_each(|account| *account *= rest);
        self.all_hits *= rest;
        self.all_time *= rest;
    }

    /// An item that was of this class had so many hits in this time, in capacities.
    pub(super) fn learn(&mut self, class: u64, hits: u8, time: f64) {
        if let Some(place) = place_of(class) {
            self.hits[place] += f64::from(hits);
            self.times[place] += time;
            self.all_hits += f64::from(hits);
            self.all_time += time;
        }
    }

    /// Whether items are not asked for at all: they are put, and never looked up.
    pub(super) fn is_idle(&self) -> bool {
        self.all_hits < MEAN_MIN * self.all_time
    }

    /// Hits per time that items of this class are expected to have.
    pub(super) fn worth(&self, class: u64, hits: u8) -> f64 {
        let Some(place) = place_of(class) else { return 0.0 };
        let prior = PRIOR_HITS * (f64::from(hits) + 1.0);
        (self.hits[place] + prior) / (self.times[place] + PRIOR_TIME)
    }
}

fn place_of(class: u64) -> Option<usize> {
    (class as usize).checked_sub(1).filter(|place| *place < CLASSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_an_account_of_its_own() {
        let mut classes = std::collections::HashSet::new();
        for queue in [Queue::Small, Queue::Main] {
            for hits in 0..=3 {
                for count in 0..=60 {
                    let histories =
                        [(Queue::Small, 0), (Queue::Small, 1), (Queue::Main, 0), (Queue::Main, 1)];
                    for (queue_before, hits_before) in histories {
                        let before = class_of(NO_CLASS, queue_before, hits_before, 0);
                        let class = class_of(before, queue, hits, count);
                        assert!(place_of(class).is_some() && class < 1 << CLASS_BITS);
                        classes.insert(class);
                    }
                }
            }
        }
        assert_eq!(classes.len(), 4 * 2 * 4 * 7);
        assert_eq!(place_of(NO_CLASS), None);
    }

    #[test]
    fn what_had_hits_is_worth_more_until_that_changes() {
        let mut learned = Learned::default();
        let [often, seldom] = [9, 1].map(|count| class_of(NO_CLASS, Queue::Main, 1, count));
        for _ in 0..50 {
            learned.forget(0.01);
            learned.learn(often, 2, 1.0);
            learned.learn(seldom, 0, 1.0);
        }
        assert!(learned.worth(often, 1) > 10.0 * learned.worth(seldom, 1));
        for _ in 0..500 {
            learned.forget(0.01);
            learned.learn(often, 0, 1.0);
            learned.learn(seldom, 2, 1.0);
        }
        assert!(learned.worth(seldom, 1) > 10.0 * learned.worth(often, 1));
    }
}
