//! A lane: memory through which one thread of a guest asks, and the owner answers.
//!
//! ```text
//!            guest: ask            owner: take           owner: answer
//!   FREE ───────────────> ASKED ───────────────> DOING ───────────────> DONE
//!     <─────────────────────                                              │
//!            guest: withdraw            guest: ask  <─────────────────────┘
//! ```
//!
//! The state says who may write the rest: the guest where it is FREE or DONE, the owner where it is DOING. So each side
//! may die at any moment, and the other one knows what it must not rely on: a request that is still ASKED was not
//! begun, one that is DOING may have happened, and one that is DONE has its answer.
//!
//! What is longer than a lane goes through it in parts, each of them asked and answered.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

const FREE: u32 = 0;
const ASKED: u32 = 1;
const DOING: u32 = 2;
const DONE: u32 = 3;
const STATE: u32 = 3;
/// The guest sleeps until the state changes, and is to be woken.
const SLEEPS: u32 = 1 << 2;

/// In the length: more parts follow; this is the first one; it asks for more of an answer.
const MORE: u32 = 1 << 31;
const FIRST: u32 = 1 << 30;
const REST: u32 = 1 << 29;
const LENGTH: u32 = REST - 1;

/// A lane with room for `N` words. All zeros are one that nobody has used.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Lane<const N: usize> {
    state: AtomicU32,
    length: AtomicU32,
    words: [AtomicU64; N],
}

/// How a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The owner has not begun it.
    Waiting,
    /// The owner has begun it.
    Begun,
    /// The answer is there.
    Answered,
    /// The lane has no request.
    Nothing,
}

/// Which part of something it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// It is the first one. What came before it and was not whole is of no use.
    pub is_first: bool,
    /// More of them follow.
    pub has_more: bool,
    /// It is none of a request, and asks for the next part of an answer.
    pub asks_for_rest: bool,
}

impl Part {
    /// All of it.
    pub const WHOLE: Part = Part { is_first: true, has_more: false, asks_for_rest: false };
    /// The last one of several.
    pub const LAST: Part = Part { is_first: false, ..Part::WHOLE };
    /// What asks for more of an answer.
    pub const REST: Part = Part { asks_for_rest: true, ..Part::LAST };

    fn marks(self) -> u32 {
        let mark = |is: bool, mark: u32| if is { mark } else { 0 };
        mark(self.is_first, FIRST) | mark(self.has_more, MORE) | mark(self.asks_for_rest, REST)
    }
}

impl<const N: usize> Default for Lane<N> {
    fn default() -> Self {
        Lane {
            state: AtomicU32::new(FREE),
            length: AtomicU32::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<const N: usize> Lane<N> {
    /// Most words of a part.
    pub const WORDS: usize = N;

    fn write(&self, words: &[u64], part: Part) {
        for (word, value) in self.words.iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
        self.length.store(words.len().min(N) as u32 | part.marks(), Ordering::Relaxed);
    }

    /// Adds the part that is there to `words`, whatever the other side may be writing there meanwhile.
    fn read(&self, words: &mut Vec<u64>) -> Part {
        let length = self.length.load(Ordering::Relaxed);
        let has = |mark: u32| length & mark != 0;
        let part = Part { is_first: has(FIRST), has_more: has(MORE), asks_for_rest: has(REST) };
        if part.is_first {
            words.clear();
        }
        let count = ((length & LENGTH) as usize).min(N);
        words.extend(self.words[..count].iter().map(|word| word.load(Ordering::Relaxed)));
        part
    }

    /// Guest: asks, or sends a part of what is asked. Nothing may be asked there so far. Whoever sleeps is to be rung
    /// for: look whether that is so after this.
    pub fn ask(&self, words: &[u64], part: Part) {
        self.write(words, part);
        // By an exchange: who has given up waiting may have been answered meanwhile.
        self.state.swap(ASKED, Ordering::AcqRel);
        // Either an owner that falls asleep sees this, or the guest sees that it sleeps.
        fence(Ordering::SeqCst);
    }

    /// Guest: how the request stands.
    #[inline]
    pub fn asked(&self) -> Asked {
        match self.state.load(Ordering::Acquire) & STATE {
            ASKED => Asked::Waiting,
            DOING => Asked::Begun,
            DONE => Asked::Answered,
            _ => Asked::Nothing,
        }
    }

    /// Guest: puts the answer into `words`, or adds this part of it.
    pub fn answer_into(&self, words: &mut Vec<u64>) -> Part {
        self.read(words)
    }

    /// Guest: is about to sleep until the state changes. Returns the state to sleep on, or nothing if the answer is
    /// there.
    pub fn fall_asleep(&self) -> Option<u32> {
        let sleeps = |state: u32| matches!(state & STATE, ASKED | DOING).then_some(state | SLEEPS);
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, sleeps);
        before.ok().map(|before| before | SLEEPS)
    }

    /// Guest: takes a request back that the owner has not begun. Returns whether that worked.
    pub fn withdraw(&self) -> bool {
        let free = |state: u32| (state & STATE == ASKED).then_some(FREE);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).is_ok()
    }

    /// Owner: whether something is asked.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.state.load(Ordering::Relaxed) & STATE == ASKED
    }

    /// Owner: begins what is asked, and puts it into `words`, or adds this part of it. Returns nothing if nothing is
    /// asked.
    pub fn take(&self, words: &mut Vec<u64>) -> Option<Part> {
        let begun = |state: u32| (state & STATE == ASKED).then_some(state & SLEEPS | DOING);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, begun).ok()?;
        Some(self.read(words))
    }

    /// Owner: answers what it has taken. Returns whether the guest sleeps and is to be woken.
    pub fn answer(&self, words: &[u64], part: Part) -> bool {
        self.write(words, part);
        self.state.swap(DONE, Ordering::AcqRel) & SLEEPS != 0
    }

    /// The word that a guest sleeps on.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    pub(super) fn state_word(&self) -> &AtomicU32 {
        &self.state
    }
}

/// Whether the owner sleeps, and is to be rung for.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Doze {
    word: AtomicU64,
}

impl Doze {
    /// Owner: says that it is about to sleep, or that it is awake. If it finds nothing [asked](Lane::is_asked) after
    /// the former, everybody who asks later rings.
    pub fn set_asleep(&self, is_asleep: bool) {
        self.word.store(is_asleep.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Guest, after it has asked: whether to ring.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }
}

#[cfg(all(test, not(any(feature = "simulated", feature = "loom"))))]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_in_its_lane() {
        let lane = Lane::<4>::default();
        assert_eq!((lane.asked(), lane.is_asked()), (Asked::Nothing, false));
        assert_eq!(lane.take(&mut Vec::new()), None);
        lane.ask(&[1, 2, 3], Part::WHOLE);
        assert_eq!((lane.asked(), lane.is_asked()), (Asked::Waiting, true));
        let mut request = vec![8];
        assert_eq!(lane.take(&mut request), Some(Part::WHOLE));
        assert_eq!((lane.asked(), request), (Asked::Begun, vec![1, 2, 3]));
        assert!(!lane.withdraw(), "what has begun cannot be taken back");
        assert_eq!(lane.take(&mut Vec::new()), None, "nothing is done twice");
        assert!(!lane.answer(&[7], Part { has_more: true, ..Part::LAST }));
        assert_eq!(lane.asked(), Asked::Answered);
        let mut answer = vec![9];
        assert!(lane.answer_into(&mut answer).has_more);
        assert_eq!(answer, [9, 7]);
    }

    #[test]
    fn who_sleeps_is_woken_however_far_the_request_is() {
        let lane = Lane::<1>::default();
        assert_eq!(lane.fall_asleep(), None);
        for take_first in [false, true] {
            lane.ask(&[1], Part::WHOLE);
            let mut words = Vec::new();
            if take_first {
                lane.take(&mut words);
            }
            let state = lane.fall_asleep().expect("no answer is there");
            assert_eq!(lane.state_word().load(Ordering::Relaxed), state);
            if !take_first {
                lane.take(&mut words);
            }
            assert!(lane.answer(&[], Part::WHOLE), "it sleeps");
            assert_eq!(lane.fall_asleep(), None);
        }
    }

    #[test]
    fn what_nobody_has_begun_is_taken_back() {
        let lane = Lane::<1>::default();
        assert!(!lane.withdraw());
        lane.ask(&[1], Part::WHOLE);
        assert!(lane.withdraw());
        assert_eq!((lane.asked(), lane.take(&mut Vec::new())), (Asked::Nothing, None));
    }

    #[test]
    fn a_length_that_no_lane_has_is_cut_off() {
        let lane = Lane::<2>::default();
        lane.ask(&[1, 2], Part::WHOLE);
        lane.length.store(LENGTH, Ordering::Relaxed);
        let mut words = Vec::new();
        assert_eq!((lane.take(&mut words), words), (Some(Part::LAST), vec![1, 2]));
        lane.state.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(lane.take(&mut Vec::new()), None);
    }
}
