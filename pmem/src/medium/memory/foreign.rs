//! A file that other programs have taken pages from, or put something else into.

use super::{Backing, Memory};
use crate::medium::Medium;
use crate::offset::{Offset, WORD};
use crate::sync::count_bus_error;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

impl Memory {
    /// An error if a page of the file has vanished.
    pub(super) fn demand_whole(&self) -> io::Result<()> {
        if self.is_written_over.load(Ordering::Acquire) {
            return Err(written_over());
        }
        if self.has_failed() {
            return Err(io::Error::other("a page of the pool's file has vanished"));
        }
        Ok(())
    }

    /// [`Medium::read_two`].
    pub(super) fn read_two_by_call(&self, at: Offset) -> Option<[u64; 2]> {
        let Backing::File { file, .. } = &self.backing else { return Some(self.load_two(at)) };
        let mut bytes = [0; 2 * WORD as usize];
        file.read_exact_at(&mut bytes, at.0).ok()?;
        let word = |index: usize| bytes[8 * index..][..8].try_into().map(u64::from_ne_bytes).ok();
        Some([word(0)?, word(1)?])
    }

    /// [`Medium::fail`].
    pub(super) fn set_written_over(&self) {
        if let Some(watch) = &self.watch {
            // What is stored from now on does not reach what others have put there.
            watch.fail();
        }
        self.is_written_over.store(true, Ordering::Release);
        count_bus_error();
    }
}

/// The error of a pool whose file has other content than the pool has given it.
pub(crate) fn written_over() -> io::Error {
    io::Error::other(
        "another program has written over the pool's file: it does not begin with what this pool wrote there last",
    )
}
