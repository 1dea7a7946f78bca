//! Asking the owner through a lane, and waiting until it has answered, ends or stays silent.

use pmem::meeting::{Asked, LANE_WORDS, Part, RoomLane, Visit, sleep_on};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a guest looks for its answer before it sleeps. Where the owner has to wake up first, it sleeps at once:
/// then the system can run the owner on this processor, and need not wake another one, which may take longer than all
/// else.
const LOOKING: Duration = Duration::from_micros(20);
/// How long it sleeps before it looks whether the owner is still there.
const NAP: Duration = Duration::from_millis(2);

/// How asking ended without an answer.
pub(super) enum Unanswered {
    /// The owner has ended. It may have begun to do what was asked.
    Ended { has_begun: bool },
    /// This process closes the pool.
    Closing,
    /// The owner does not answer. It may do yet what was asked, unless that was taken back.
    Silent { waited: Duration, is_taken_back: bool },
}

/// Waiting for an answer.
pub(super) struct Waits<'a> {
    pub(super) visit: &'a Visit,
    pub(super) lane: &'a RoomLane,
    pub(super) patience: Duration,
    pub(super) is_long: bool,
    pub(super) is_closing: &'a AtomicBool,
}

impl Waits<'_> {
    /// Sends a request and receives its answer, in as many parts as they take.
    pub(super) fn transfer(
        &self,
        request: &[u64],
        answer: &mut Vec<u64>,
    ) -> std::result::Result<(), Unanswered> {
        answer.clear();
        let mut rest = request;
        let mut is_first = true;
        while rest.len() > LANE_WORDS {
            let (part, others) = rest.split_at(LANE_WORDS);
            // Until the owner has all of it, it has not begun.
            let first = Part { is_first, has_more: true, ..Part::LAST };
            self.exchange(part, first).map_err(Unanswered::not_begun)?;
            (rest, is_first) = (others, false);
        }
        self.exchange(rest, Part { is_first, ..Part::LAST })?;
        while self.lane.answer_into(answer).has_more {
            // It has been done by now.
            self.exchange(&[], Part::REST).map_err(Unanswered::begun)?;
        }
        Ok(())
    }

    /// Sends a part, and waits until it is answered.
    fn exchange(&self, words: &[u64], part: Part) -> std::result::Result<(), Unanswered> {
        self.lane.ask(words, part);
        let began = Instant::now();
        if self.visit.ring_if_asleep() {
            return self.wait(began, true);
        }
        let mut turns = 0u32;
        loop {
            if self.lane.asked() == Asked::Answered {
                return Ok(());
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(16) && began.elapsed() >= LOOKING {
                break;
            }
            std::hint::spin_loop();
        }
        self.wait(began, false)
    }

    /// Sleeps until it is answered. Whether it `has_rung` already.
    #[cold]
    fn wait(&self, began: Instant, mut has_rung: bool) -> std::result::Result<(), Unanswered> {
        loop {
            // Once more: what is lost in that is a moment, and not the call.
            if !std::mem::take(&mut has_rung) {
                self.visit.ring_if_asleep();
            }
            let Some(state) = self.lane.fall_asleep() else { return Ok(()) };
            sleep_on(self.lane, state, NAP);
            if self.lane.asked() == Asked::Answered {
                return Ok(());
            }
            if self.visit.is_over() {
                // The end comes after all that the owner has done.
                return match self.lane.asked() {
                    Asked::Answered => Ok(()),
                    // Taken back for good, whatever has ended.
                    _ => Err(Unanswered::Ended { has_begun: !self.lane.withdraw() }),
                };
            }
            if self.is_closing.load(Ordering::Relaxed) {
                return Err(Unanswered::Closing);
            }
            let waited = began.elapsed();
            if waited >= self.patience {
                let is_taken_back = self.lane.withdraw();
                if is_taken_back || !self.is_long {
                    return Err(Unanswered::Silent { waited, is_taken_back });
                }
            }
        }
    }
}

impl Unanswered {
    fn not_begun(self) -> Unanswered {
        match self {
            Unanswered::Ended { .. } => Unanswered::Ended { has_begun: false },
            silent => silent,
        }
    }

    fn begun(self) -> Unanswered {
        match self {
            Unanswered::Ended { .. } => Unanswered::Ended { has_begun: true },
            silent => silent,
        }
    }
}
