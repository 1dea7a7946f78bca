//! Where a log's segments come from: what is at hand, what can be used again, what has to be made.

use super::error::LogError;
use super::names;
use super::segments::{Segment, Segments};

/// Where a log gets its segments from. Numbers are given once, in order. The maker of a segment holds this lock, so
/// that nobody else makes one with the same name meanwhile.
pub(super) struct Supply {
    /// Number of the segment that is made next.
    number: u64,
    /// Used when the current one is full.
    spare: Option<Segment>,
    /// Whether there is a segment for a disk without room.
    has_reserve: bool,
    /// Another log has begun, and gives their numbers to segments.
    has_ended: bool,
}

impl Supply {
    /// The supply of a log that goes on in the segment before `number`. One of the segments of no use is the reserve,
    /// if that is lacking, and another one the spare, if one fits. See [`Supply::provide`] for `is_scarce`.
    pub(super) fn behind(
        number: u64,
        segments: &Segments,
        bytes: u64,
        is_scarce: bool,
        useless: &mut Vec<u64>,
    ) -> Supply {
        let mut supply = Supply::new(number, false);
        if is_scarce {
            supply.reuse_one(segments, bytes, useless);
        }
        supply.has_reserve = segments.provide_reserve(useless).is_ok();
        // The one that has the name already first: another one would replace it.
        useless.sort_unstable_by_key(|&old| old == number);
        while supply.spare.is_none()
            && let Some(old) = useless.pop()
        {
            supply.spare = segments.reuse(&names::segment(old), number, bytes);
            match supply.spare {
                Some(_) => supply.number += 1,
                None => segments.remove(old),
            }
        }
        supply
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    pub(super) fn has_reserve(&self) -> bool {
        self.has_reserve
    }

    /// Nothing is made any more.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Makes one of these segments that fits the spare, and leaves the others as they are.
    fn reuse_one(&mut self, segments: &Segments, bytes: u64, from: &mut Vec<u64>) {
        from.retain(|&old| {
            if self.spare.is_none() {
                self.spare = segments.reuse(&names::segment(old), self.number, bytes);
                self.number += u64::from(self.spare.is_some());
                return self.spare.is_none();
            }
            true
        });
    }

    /// The supply of a log that begins in the segment before `number`.
    pub(super) fn new(number: u64, has_reserve: bool) -> Supply {
        Supply { number, spare: None, has_reserve, has_ended: false }
    }

    /// The number of the segment that is made next.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Gives up the spare, or makes it the reserve if that is lacking.
    pub(super) fn drop_spare(&mut self, segments: &Segments) {
        if let Some(spare) = self.spare.take() {
            let number = spare.number();
            if self.has_reserve {
                segments.remove(number);
            } else {
                self.has_reserve = segments.set_aside(number);
            }
        }
    }

    /// Makes the reserve the spare, where there is no room for another one; whether it could. The log's next obsolete
    /// segment is the reserve then.
    pub(super) fn use_reserve(&mut self, segments: &Segments) -> bool {
        if self.spare.is_none() && std::mem::take(&mut self.has_reserve) {
            self.spare = segments.first_of_reserve(self.number);
            self.number += u64::from(self.spare.is_some());
        }
        self.spare.is_some()
    }

    /// Makes an obsolete segment the reserve, if that is lacking, and another one the spare. If there is none that
    /// fits, the spare is made if it `is_needed`. Other obsolete ones are for the caller to remove.
    ///
    /// `is_scarce`: the disk has room for no other. Then the spare comes first, and nothing large is cut to a reserve.
    pub(super) fn provide(
        &mut self,
        segments: &Segments,
        bytes: u64,
        is_needed: bool,
        is_scarce: bool,
        obsolete: &mut Vec<u64>,
    ) -> Result<(), LogError> {
        if self.has_ended {
            obsolete.clear();
            return Ok(());
        }
        if is_scarce && !self.has_spare() {
            self.reuse_one(segments, bytes, obsolete);
        }
        while !self.has_reserve
            && let Some(old) = obsolete.pop()
        {
            self.has_reserve = segments.set_aside(old);
        }
        if self.has_spare() {
            return Ok(());
        }
        while let Some(old) = obsolete.pop() {
            if let Some(spare) = segments.reuse(&names::segment(old), self.number, bytes) {
                self.number += 1;
                self.spare = Some(spare);
                return Ok(());
            }
            segments.remove(old);
        }
        if is_needed {
            self.spare = Some(self.make(segments, bytes)?);
        }
        Ok(())
    }

    fn make(&mut self, segments: &Segments, bytes: u64) -> Result<Segment, LogError> {
        let made = segments.make(self.number, bytes)?;
        self.number += 1;
        Ok(made)
    }

    pub(super) fn take(&mut self, segments: &Segments, bytes: u64) -> Result<Segment, LogError> {
        match self.spare.take() {
            Some(spare) => Ok(spare),
            None => self.make(segments, bytes),
        }
    }
}
