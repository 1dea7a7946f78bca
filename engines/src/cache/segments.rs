//! What segments are for, and which are next.

use super::index::Part;
use pmem::epoch::Moment;
use pmem::sync::{AtomicU32, AtomicU64, Ordering};
use std::collections::VecDeque;

/// A queue of segments with items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    /// Of what was put.
    Small,
    /// Of what was asked for again.
    Main,
}

/// What a segment is for, as its state in the pool says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Free,
    Index(Part),
    /// Items of a queue. Sequence numbers say which came first.
    Items(Queue, u64),
    /// A single item, which goes on in the segments after this one.
    Large(Queue, u64),
    /// Goes on with the item of one before it. The pool does not say so: there is a part of the item in that place.
    Rest,
}

impl Use {
    const INDEX: u64 = 1;
    const ITEMS: [u64; 2] = [2, 3];
    const LARGE: [u64; 2] = [4, 5];
    const REST: u64 = 6;

    pub(super) fn word(self) -> u64 {
        match self {
            Use::Free => 0,
            Use::Index(Part { depth, prefix }) => {
                Self::INDEX | u64::from(depth) << 8 | u64::from(prefix) << 16
            }
            Use::Items(queue, sequence) => Self::ITEMS[queue as usize] | sequence << 8,
            Use::Large(queue, sequence) => Self::LARGE[queue as usize] | sequence << 8,
            Use::Rest => Self::REST,
        }
    }

    /// `None`: it is none of these words.
    pub(super) fn of_word(word: u64) -> Option<Use> {
        let sequence = word >> 8;
        Some(match word & 0xff {
            0 if word == 0 => Use::Free,
            Self::INDEX => {
                Use::Index(Part { depth: (word >> 8) as u32 & 0xff, prefix: (word >> 16) as u32 })
            }
            2 => Use::Items(Queue::Small, sequence),
            3 => Use::Items(Queue::Main, sequence),
            4 => Use::Large(Queue::Small, sequence),
            5 => Use::Large(Queue::Main, sequence),
            Self::REST if word == Self::REST => Use::Rest,
            _ => return None,
        })
    }
}

/// The mark beside a state, which a free segment has none of. So a crash that leaves a new state without its mark
/// leaves a run of one segment, and the others are what they say themselves: nothing leads to an item there yet.
///
/// It says how often the cache had been cleared when the segment was begun, and of how many segments
/// it is the first.
pub(super) fn mark_of(generation: u64, run: u32) -> u64 {
    generation & u64::from(u32::MAX) | u64::from(run) << 32
}

/// The inverse of [`mark_of`].
pub(super) fn in_mark(mark: u64) -> (u64, u32) {
    (mark & u64::from(u32::MAX), (mark >> 32) as u32)
}

/// What a segment is in now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Phase {
    /// Nothing leads to it, or it belongs to somebody who has taken it out of the list.
    Idle,
    /// Items are being added.
    Open,
    /// None is added any more.
    Sealed,
    /// One thread is emptying it, or counts what it has.
    Busy,
    /// Empty, but readers may still look at it.
    Retired,
    /// A part of the index, or goes on with what is in another segment.
    Fixed,
}

/// Volatile state of a segment.
#[derive(Debug)]
pub(super) struct Segment {
    phase: AtomicU32,
    /// [`Use`], as a word.
    of: AtomicU64,
    /// Who has taken space there for an item to which nothing leads yet.
    pub(super) writers: AtomicU32,
    /// Segments from here on that are one: more than one for a large item.
    pub(super) run: AtomicU32,
    pub(super) queue: AtomicU32,
    pub(super) sequence: AtomicU64,
    pub(super) generation: AtomicU64,
    /// Bytes up to which there are items.
    pub(super) used: AtomicU64,
    /// Items to which slots lead, and their bytes.
    pub(super) live: AtomicU64,
    pub(super) live_bytes: AtomicU64,
    /// Bytes up to which these are counted. After an opening the rest is counted little by little.
    pub(super) counted: AtomicU64,
}

/// All of a segment is counted.
pub(super) const COUNTED: u64 = u64::MAX;

impl Segment {
    pub(super) fn new() -> Segment {
        Segment {
            phase: AtomicU32::new(Phase::Idle as u32),
            of: AtomicU64::new(Use::Free.word()),
            writers: AtomicU32::new(0),
            run: AtomicU32::new(1),
            queue: AtomicU32::new(0),
            sequence: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            used: AtomicU64::new(0),
            live: AtomicU64::new(0),
            live_bytes: AtomicU64::new(0),
            counted: AtomicU64::new(COUNTED),
        }
    }

    pub(super) fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u32
    }

    /// Whether slots may lead there.
    pub(super) fn has_items(&self) -> bool {
        let phase = self.phase.load(Ordering::Acquire);
        [Phase::Open, Phase::Sealed, Phase::Busy].iter().any(|one| *one as u32 == phase)
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// Takes it, if it is sealed and all its items have been led to or given up.
    pub(super) fn take_sealed(&self) -> bool {
        let (sealed, busy) = (Phase::Sealed as u32, Phase::Busy as u32);
        let taken =
            self.phase.compare_exchange(sealed, busy, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !taken {
            return false;
        }
        // Not before: while it was open, a writer could still come. Now there are only those that had come.
        if self.writers.load(Ordering::Acquire) != 0 {
            self.set_phase(Phase::Sealed);
            return false;
        }
        true
    }

    pub(super) fn set_use(&self, of: Use) {
        self.of.store(of.word(), Ordering::Release);
    }

    pub(super) fn of(&self) -> Use {
        Use::of_word(self.of.load(Ordering::Acquire)).unwrap_or(Use::Free)
    }

    pub(super) fn queue(&self) -> Queue {
        if self.queue.load(Ordering::Relaxed) == 0 { Queue::Small } else { Queue::Main }
    }

    /// Begins it anew, without items.
    pub(super) fn begin(&self, queue: Queue, sequence: u64, generation: u64, run: u32) {
        self.queue.store(queue as u32, Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        self.run.store(run, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
        self.live.store(0, Ordering::Relaxed);
        self.live_bytes.store(0, Ordering::Relaxed);
        self.counted.store(COUNTED, Ordering::Relaxed);
    }

    /// A slot leads to an item there.
    pub(super) fn count(&self, bytes: u64) {
        self.live.fetch_add(1, Ordering::Relaxed);
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether an item that begins `place` bytes from the segment's start is counted.
    pub(super) fn is_counted(&self, place: u64) -> bool {
        place < self.counted.load(Ordering::Relaxed)
    }

    /// No slot leads any more to an item that begins `place` bytes from the segment's start. The caller has the key's
    /// lock. Returns whether half of the segment is dead by this.
    pub(super) fn uncount(&self, place: u64, bytes: u64) -> bool {
        if !self.is_counted(place) {
            // Who counts has not come so far, and will find it dead.
            return false;
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        let before = self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let half = self.used.load(Ordering::Relaxed) / 2;
        before >= half && before.wrapping_sub(bytes) < half
    }
}

/// Which segments are free, and in which order the others are to be emptied.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) free: Vec<u32>,
    /// The first segment that was never used, and how many the pool has.
    pub(super) fresh: u32,
    pub(super) count: u32,
    /// How many it may have.
    pub(super) limit: u32,
    /// By [`Queue`]: segments and their sequence numbers. One that is used for something else has another number.
    pub(super) queues: [VecDeque<(u32, u64)>; 2],
    /// Segments with items in each queue, those of runs included.
    pub(super) lengths: [u32; 2],
    /// More than half of what these had is dead.
    pub(super) sparse: VecDeque<(u32, u64)>,
    pub(super) retired: VecDeque<(u32, Moment)>,
    pub(super) index_segments: u32,
    pub(super) sequence: u64,
}

impl Lists {
    pub(super) fn new(count: u32, limit: u32) -> Lists {
        Lists {
            free: Vec::new(),
            fresh: count,
            count,
            limit,
            queues: Default::default(),
            lengths: [0; 2],
            sparse: VecDeque::new(),
            retired: VecDeque::new(),
            index_segments: 0,
            sequence: 0,
        }
    }

    /// Segments that can be had at once.
    pub(super) fn room(&self) -> u32 {
        self.free.len() as u32 + self.limit.saturating_sub(self.fresh)
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_words() {
        let part = Part { depth: 3, prefix: 5 };
        let all = [
            Use::Free,
            Use::Index(part),
            Use::Items(Queue::Small, 7),
            Use::Items(Queue::Main, 1 << 50),
            Use::Large(Queue::Small, 9),
            Use::Large(Queue::Main, 9),
            Use::Rest,
        ];
        for one in all {
            assert_eq!(Use::of_word(one.word()), Some(one));
        }
        assert_eq!(Use::of_word(0xff), None);
        assert_eq!(Use::of_word(1 << 8), None);
    }

    #[test]
    fn marks_have_generation_and_run() {
        assert_eq!(in_mark(mark_of(77, 12)), (77, 12));
    }
}
