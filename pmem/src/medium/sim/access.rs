//! Loads, stores, flushes and fences: the simulated medium as what it simulates.

use super::{Flushed, Order, Sim, held};
use crate::error::SpaceError;
use crate::line_log::{self, Sequence};
use crate::medium::{Medium, MediumKind};
use crate::offset::{LINE, Offset, WORD};
use crate::sync::simulated::fault::{Fault, SiteKind, fault_at};
use crate::sync::simulated::{Touch, access, context, delay, is_anything_unseen, modify, pass};
use std::io;
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{Ordering, Ordering::Relaxed};

impl Medium for Sim {
    fn kind(&self) -> MediumKind {
        if self.is_mapped { MediumKind::Mapped } else { MediumKind::Dax }
    }

    fn flushes(&self) -> bool {
        !self.keeps_all
    }

    fn load(&self, at: Offset) -> u64 {
        access(self.address(at), Touch::Reads);
        self.see(at)
    }

    fn store(&self, at: Offset, value: u64) {
        self.step(self.address(at), Touch::Writes);
        let fault = fault_at(SiteKind::Store, Location::caller());
        if fault == Some(Fault::Skipped) {
            return;
        }
        delay(self.address(at), self.word(at).load(Relaxed));
        self.record(at, value, Order::Plain, fault);
        self.word(at).store(value, Relaxed);
    }

    fn store_release(&self, at: Offset, value: u64) {
        self.step(self.address(at), Touch::Writes);
        let fault = fault_at(SiteKind::Release, Location::caller());
        if fault == Some(Fault::Skipped) {
            return;
        }
        let order = match fault {
            Some(Fault::Dropped) => {
                pass(self.address(at));
                Order::Plain
            }
            _ => {
                delay(self.address(at), self.word(at).load(Relaxed));
                Order::Release
            }
        };
        self.record(at, value, order, fault);
        self.word(at).store(value, Relaxed);
    }

    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.step(self.address(at), Touch::Modifies);
        let fault = fault_at(SiteKind::Exchange, Location::caller());
        modify(self.address(at), Ordering::AcqRel);
        let found = match fault {
            Some(Fault::Skipped) => return Ok(current),
            Some(Fault::Forced) => self.word(at).swap(new, Relaxed),
            _ => self.word(at).compare_exchange(current, new, Relaxed, Relaxed)?,
        };
        self.record(at, new, Order::Release, None);
        Ok(found)
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        assert!(at.0.is_multiple_of(2 * WORD), "{at} is misaligned");
        access(self.address(at), Touch::Reads);
        (self.see(at), self.see(at.word(1)))
    }

    fn prefetch(&self, _at: Offset) {}

    fn prefetch_write(&self, _at: Offset) {}

    fn flush(&self, at: Offset) {
        let first = at.line() * LINE / WORD;
        self.flush_and_note(first..first + LINE / WORD);
    }

    fn flush_range(&self, at: Offset, bytes: u64) {
        if bytes > 0 {
            self.flush_and_note(at.0 / WORD..at.add(bytes).0.div_ceil(WORD));
        }
    }

    fn sequence(&self, at: Offset) -> Sequence {
        self.line_log.as_ref().map_or(Sequence::NONE, |log| log.sequence(at))
    }

    fn flush_pair(&self, at: Offset, sequence: Sequence) {
        if self.flush_words(at.0 / WORD..at.0 / WORD + 2)
            && let Some(log) = &self.line_log
        {
            log.note_pair(at, sequence, |at| self.load(at));
        }
    }

    fn persist_pair(&self, at: Offset, sequence: Sequence) {
        let is_flushed = self.flush_words(at.0 / WORD..at.0 / WORD + 2);
        self.fence_with(|log| {
            if is_flushed {
                log.append_pair(at, sequence, |at| self.load_two(at));
            }
            log.fence(|at| self.load(at));
        });
    }

    fn persist_observed(&self, at: Offset, _is_locked: impl Fn() -> bool) {
        let is_flushed = self.flush_words(at.0 / WORD..at.0 / WORD + 2);
        self.fence_with(|log| {
            if is_flushed {
                log.append_observed(&[line_log::Flushed { at, words: 2 }], |at| self.load(at));
            }
            log.fence(|at| self.load(at));
        });
    }

    fn fence(&self) {
        self.fence_with(|log| log.fence(|at| self.load(at)));
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        // Its words in one step: whoever reads them reads the first one, too.
        self.step(self.address(Offset(at.0 / WORD * WORD)), Touch::Writes);
        let end = at.0 + bytes.len() as u64;
        for word_at in (at.0 / WORD * WORD..end).step_by(WORD as usize).map(Offset) {
            let before = self.word(word_at).load(Relaxed);
            let mut word = before.to_ne_bytes();
            for (index, byte) in (word_at.0..).zip(&mut word) {
                if (at.0..end).contains(&index) {
                    *byte = bytes[(index - at.0) as usize];
                }
            }
            let value = u64::from_ne_bytes(word);
            delay(self.address(word_at), before);
            self.record(word_at, value, Order::Copy, None);
            self.word(word_at).store(value, Relaxed);
        }
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
        let first = (at.0 / WORD) as usize;
        access(
            self.memory.words.get(first).map_or(0, |word| std::ptr::from_ref(word).addr()),
            Touch::Reads,
        );
        if at.0.checked_add(len)? > self.memory.size.load(Relaxed) {
            return None;
        }
        if len == 0 {
            return Some(&[]);
        }
        let words = (at.0 / WORD) as usize..(at.0 + len).div_ceil(WORD) as usize;
        let skipped = (at.0 % WORD) as usize;
        let is_hidden = |index: usize| {
            let at = Offset(index as u64 * WORD);
            self.see(at) != self.word(at).load(Relaxed)
        };
        let start = if is_anything_unseen() && words.clone().any(is_hidden) {
            let copy: Box<[u64]> =
                words.map(|index| self.see(Offset(index as u64 * WORD))).collect();
            let start = copy.as_ptr().cast::<u8>();
            held(&self.copies).push(copy);
            start
        } else {
            self.memory.words[words].as_ptr().cast::<u8>()
        };
        // SAFETY: the range lies in the memory's words, or in a copy of that part which is kept for as
        // long as `self` lives and never changed; boxes do not move what they hold. Nobody stores
        // to the range while the slice lives, by the caller's promise, and nobody else runs
        // between two accesses of a simulated thread.
        Some(unsafe { std::slice::from_raw_parts(start.add(skipped), len as usize) })
    }

    fn size(&self) -> u64 {
        self.memory.size.load(Relaxed)
    }

    fn limit(&self) -> u64 {
        self.memory.words.len() as u64 * WORD
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        access(std::ptr::from_ref(&self.memory.size).addr(), Touch::Modifies);
        if size > self.limit() {
            let reason = format!("its limit is {} bytes", self.limit());
            return Err(SpaceError::Full { needed_bytes: size, reason });
        }
        self.memory.size.fetch_max(size.next_multiple_of(LINE).min(self.limit()), Relaxed);
        Ok(())
    }

    /// Stores zeros: what is needed there after all is lost.
    fn give_back(&self, range: Range<u64>) -> bool {
        for at in range.step_by(WORD as usize).map(Offset) {
            if self.load(at) != 0 {
                self.store(at, 0);
            }
        }
        true
    }

    fn populate(&self, _range: Range<u64>) {}

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.step(0, Touch::Fences);
        if self.is_mapped {
            self.before_certainty();
        }
        let mut log = held(&self.memory.log);
        // A file's size is synced with its content.
        log.size_certain = self.memory.size.load(Relaxed);
        if self.is_mapped {
            let end = range.end.min(self.memory.size.load(Relaxed)).div_ceil(LINE) as usize;
            let lines = (range.start / LINE) as usize..end;
            // It waits for the store buffers of others, too: the kernel interrupts their processors.
            let pending = |line: usize| {
                let ids: Vec<u64> = log.lines[line].iter().map(|logged| logged.id).collect();
                (!ids.is_empty()).then_some(Flushed { thread: context().thread, line, ids })
            };
            let flushed = lines.filter_map(pending).collect();
            self.make_certain(&mut log, flushed);
        }
        Ok(())
    }
}
