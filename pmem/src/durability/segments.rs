//! Segments of the log, and the files they are in.

use super::Sizes;
use super::disk::{Disk, DiskFile, PAGE_BYTES, recognises};
use super::error::LogError;
use super::frame::SegmentHeader;
use super::names;
use super::pages::Pages;
use std::io;
use std::sync::Arc;

/// A segment is about this part of the pool.
const SEGMENTS_PER_POOL: u64 = 4;
/// Bytes of zeros that are written at once.
const ZEROS_BYTES: usize = 1 << 20;
const PAGE: u64 = PAGE_BYTES as u64;

/// A segment whose space is allocated and has been written to the end. So a write to it changes neither the length nor
/// the extents of its file, and takes only as long as the device.
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) bytes: u64,
}

impl Segment {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// What segments are made from.
pub(super) struct Segments {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) uuid: u128,
    pub(super) sizes: Sizes,
}

/// The header of a segment that is not used yet.
const NO_GENERATION: u128 = 0;

impl Segments {
    /// Bytes of the next segment of a pool of this size.
    pub(super) fn bytes(&self, pool_bytes: u64) -> u64 {
        let part = (pool_bytes / SEGMENTS_PER_POOL).next_power_of_two();
        part.clamp(self.sizes.segment_min, self.sizes.segment_max)
    }

    /// Removes a segment that nobody needs. One that stays takes space, and no more; the next opening removes it.
    pub(super) fn remove(&self, number: u64) {
        let _ = self.disk.remove(&names::segment(number));
    }

    /// Bytes of a segment that there is.
    pub(super) fn bytes_of(&self, number: u64) -> u64 {
        let file = self.disk.open(&names::segment(number));
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    /// Makes a segment of so many bytes, or as many of them as there is room for.
    pub(super) fn make(&self, number: u64, bytes: u64) -> Result<Segment, LogError> {
        match self.make_exactly(&names::segment(number), bytes) {
            Err(LogError::Full { .. }) if bytes / 2 >= self.sizes.segment_min => {
                self.make(number, bytes / 2)
            }
            made => made.map(|file| Segment { number, file, bytes }),
        }
    }

    fn make_exactly(&self, name: &str, bytes: u64) -> Result<Box<dyn DiskFile>, LogError> {
        self.write_zeros(name, bytes).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                return LogError::InTheWay { path: self.disk.path(name) };
            }
            // What there is of it would count as used space.
            let _ = self.disk.remove(name);
            LogError::refused("making", self.disk.path(name), error)
        })
    }

    fn write_zeros(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        if recognises(&*self.disk, name, self.uuid)? == Some(true) {
            self.disk.remove(name)?;
        }
        let file = self.disk.create(name)?;
        // Before it takes any space: what a crash leaves is recognised, and used again.
        let mut header = Pages::zeroed(PAGE_BYTES);
        let unused = SegmentHeader {
            uuid: self.uuid,
            generation: NO_GENERATION,
            number: 0,
            first_frame: 0,
            bytes,
        };
        unused.encode(header.words_mut());
        file.write_durably_at(header.bytes(), 0)?;
        // A full disk is met before anything else is written.
        file.allocate(0..bytes)?;
        let zeros = Pages::zeroed(ZEROS_BYTES.min(bytes as usize));
        for at in (PAGE..bytes).step_by(ZEROS_BYTES) {
            let some = (bytes - at).min(zeros.bytes().len() as u64) as usize;
            file.write_at(&zeros.bytes()[..some], at)?;
        }
        file.sync()?;
        self.disk.sync_names()?;
        Ok(file)
    }

    /// Makes a segment of one that is not needed any more, if that is of a size that this build makes, and if
    /// the pool has not become more private since.
    pub(super) fn reuse(&self, old: &str, number: u64, bytes_min: u64) -> Option<Segment> {
        let again = || -> io::Result<Segment> {
            let file = self.disk.open(old)?;
            let bytes = file.len()?;
            let is_of_size = (bytes_min..=self.sizes.segment_max).contains(&bytes);
            // Who has opened it to read, as its permissions were, would read on.
            if !is_of_size || bytes % PAGE != 0 || !file.is_as_private()? {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            // Its header stays until the log gets here. It says another number, so an opening finds the log's end here;
            // and it has no later frame than the checkpoint that made it obsolete, so nothing is missed before it.
            let new = names::segment(number);
            if old != new {
                self.disk.rename(old, &new)?;
                self.disk.sync_names()?;
            }
            Ok(Segment { number, file, bytes })
        };
        again().ok()
    }

    /// Makes an obsolete segment the reserve; whether that is there then.
    pub(super) fn set_aside(&self, old: u64) -> bool {
        let (old, min) = (names::segment(old), self.sizes.segment_min);
        let set_aside = || -> io::Result<()> {
            let file = self.disk.open(&old)?;
            if file.len()? < min || !file.is_as_private()? {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            self.disk.rename(&old, names::RESERVE)?;
            self.disk.sync_names()?;
            // If it stays longer than it has to be, the next opening tries again.
            let _ = file.shorten(min);
            Ok(())
        };
        let is_done = set_aside().is_ok();
        if !is_done {
            // Whichever name it has by now.
            let _ = self.disk.remove(&old);
            let _ = self.disk.remove(names::RESERVE);
        }
        is_done
    }

    /// Whether there is a reserve that can be used: a crash may have left one that is not whole.
    fn has_reserve(&self) -> io::Result<bool> {
        if recognises(&*self.disk, names::RESERVE, self.uuid)? != Some(true) {
            return Ok(false);
        }
        let (file, min) = (self.disk.open(names::RESERVE)?, self.sizes.segment_min);
        let bytes = file.len()?;
        if bytes > min {
            file.shorten(min)?;
        }
        Ok(bytes >= min && file.is_as_private()?)
    }

    /// Makes the reserve, unless there is one: from a segment of no use, if one fits.
    pub(super) fn provide_reserve(&self, useless: &mut Vec<u64>) -> Result<(), LogError> {
        if self.has_reserve().unwrap_or(false) {
            return Ok(());
        }
        let _ = self.disk.remove(names::RESERVE);
        while let Some(old) = useless.pop() {
            if self.set_aside(old) {
                return Ok(());
            }
        }
        self.make_exactly(names::RESERVE, self.sizes.segment_min).map(drop)
    }

    /// The first segment of a new log: one that is of no use any more, or a new one.
    pub(super) fn first(
        &self,
        number: u64,
        bytes: u64,
        useless: &mut Vec<u64>,
    ) -> Result<Segment, LogError> {
        while let Some(old) = useless.pop() {
            match self.reuse(&names::segment(old), number, bytes) {
                Some(segment) => return Ok(segment),
                None => self.remove(old),
            }
        }
        self.make(number, bytes)
    }

    /// The segment in which a log goes on; `None` if who must not read the pool may have opened it.
    pub(super) fn again(&self, number: u64) -> io::Result<Option<Segment>> {
        let file = self.disk.open(&names::segment(number))?;
        let bytes = file.len()? / PAGE * PAGE;
        Ok(file.is_as_private()?.then_some(Segment { number, file, bytes }))
    }

    /// The reserve as the first segment of a new log.
    pub(super) fn first_of_reserve(&self, number: u64) -> Option<Segment> {
        self.reuse(names::RESERVE, number, self.sizes.segment_min)
    }
}
