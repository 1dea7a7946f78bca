//! Whoever reads a cache judges what it reads, and tells what is wrong.

use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use cli::output;

use super::ledger::Ledger;
use super::values::{Read, Source};
use super::verdict::{Breach, Line, Taken, is_within};

/// Breaches that a thread tells one by one.
const TOLD_MAX: u64 = 10;
/// The unit of a file's blocks, whatever the file system's are.
const BLOCK_BYTES: u64 = 512;

/// What the wall clock says, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What was known of a key before a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    key: u64,
    line: Line,
    now_ms: u64,
}

impl Before {
    /// As before a call that began at this time.
    pub(super) fn at(self, now_ms: u64) -> Before {
        Before { now_ms, ..self }
    }
}

/// A thread that reads.
pub(super) struct Witness<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) source: &'a Source,
    pub(super) thread: u64,
    told: u64,
}

impl<'a> Witness<'a> {
    pub(super) fn new(ledger: &'a Ledger, source: &'a Source, thread: u64) -> Witness<'a> {
        Witness { ledger, source, thread, told: 0 }
    }

    /// To be called before a call that may return a value of the key.
    pub(super) fn before(&self, key: u64) -> Before {
        let line = self.ledger.line(key);
        // Most have no end, and then nobody asks what time it was.
        Before { key, line, now_ms: if line.has_end() { now_ms() } else { 0 } }
    }

    /// Judges a value that the call has returned.
    pub(super) fn judge(&mut self, before: Before, value: &[u8]) -> Read {
        let Before { key, line, now_ms } = before;
        let after = self.ledger.line(key);
        let read = self.source.read(key, value, line.oldest()..=after.begun);
        self.ledger.count_found(self.thread);
        if let Err(breach) = line.judge(&after, read, now_ms) {
            let bytes = value.len();
            self.tell(
                breach,
                format_args!(
                    "key {key} has {read:?}, {bytes} bytes; before the call, at {now_ms} ms, it was \
                     {line:?}, afterwards {after:?}"
                ),
            );
        }
        read
    }

    pub(super) fn tell(&mut self, breach: Breach, what: impl Display) {
        self.ledger.count_breach(self.thread, breach);
        self.told += 1;
        if self.told <= TOLD_MAX {
            output::complain(&format!("{}: {what}", breach.name()));
        }
    }

    /// Looks how large the file is. The cache is open, or nobody has it.
    pub(super) fn measure(&mut self, path: &Path) -> Result<()> {
        let found =
            std::fs::metadata(path).with_context(|| format!("asking {}", path.display()))?;
        let taken = Taken { length: found.len(), space: found.blocks() * BLOCK_BYTES };
        let (capacities, most) = (self.ledger.capacities(), self.ledger.capacity_most());
        if !is_within(taken, capacities, most) {
            self.tell(
                Breach::Large,
                format_args!(
                    "{}: {taken:?}, capacities {capacities:?}, at most {most} so far",
                    path.display()
                ),
            );
        }
        Ok(())
    }
}
