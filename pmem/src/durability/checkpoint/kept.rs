//! What a checkpoint finds of an earlier image in its file.

use super::super::disk::{DiskFile, PAGE_BYTES};
use super::super::pages::Pages;
use super::PAGE;
use std::ops::Range;

/// Looks in vain after which most chunks, 64 in a row, are written without one.
const VAIN_MAX: u32 = 8;
/// What lies between two pages that differ is written with them if it is no more than this. Past the page cache each
/// write waits for the device, which writes so much in about the same time.
const GAP_BYTES: usize = 128 << 10;

/// An image that is on the device, and is written over.
pub(super) struct Kept<'a> {
    file: &'a dyn DiskFile,
    bytes: u64,
    found: Pages,
    /// Chunks that are still to be written without a look.
    unseen: u32,
    /// Looks in a row that were in vain.
    vain: u32,
}

impl Kept<'_> {
    pub(super) fn new(file: &dyn DiskFile, bytes: u64) -> Kept<'_> {
        Kept { file, bytes, found: Pages::new(), unseen: 0, vain: 0 }
    }

    /// The bytes of a chunk, which begins at byte `at` of the image, that are others than those in the file: whole
    /// pages, and short gaps between them. Where most of them are, the next chunks are likely to be so, too, and
    /// reading them would cost time for nothing: of a pool that is written all over, one chunk in 64 is read.
    pub(super) fn different(&mut self, at: u64, chunk: &Pages) -> Vec<Range<usize>> {
        let all = chunk.bytes();
        let whole = || std::iter::once(0..all.len()).collect();
        if self.unseen > 0 || at + all.len() as u64 > self.bytes {
            self.unseen = self.unseen.saturating_sub(1);
            return whole();
        }
        self.found.resize(chunk.words().len());
        // What cannot be read is written over.
        if !self.file.read_at(self.found.bytes_mut(), PAGE + at).is_ok_and(|read| read == all.len())
        {
            return whole();
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let both = all.chunks(PAGE_BYTES).zip(self.found.bytes().chunks(PAGE_BYTES));
        for (page, _) in (0..).zip(both).filter(|(_, (new, old))| new != old) {
            let from = page * PAGE_BYTES;
            match ranges.last_mut() {
                Some(last) if from - last.end <= GAP_BYTES => last.end = from + PAGE_BYTES,
                _ => ranges.push(from..from + PAGE_BYTES),
            }
        }
        let bytes: usize = ranges.iter().map(Range::len).sum();
        let are_most = 4 * bytes > 3 * all.len();
        self.vain = if are_most { (self.vain + 1).min(VAIN_MAX) } else { 0 };
        self.unseen = (1 << self.vain) >> 2;
        if are_most { whole() } else { ranges }
    }
}
