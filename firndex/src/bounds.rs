//! Ranges of options, checked before anything is made or opened.

use crate::{Error, Options, Result};
use pmem::superblock::SUPERBLOCK_BYTES;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A table that doubled earlier would be mostly empty, and waste memory.
const RESIZE_AT_MIN: f64 = 0.1;
/// A compaction leaves a seventh of the space free, and should not be due again at once.
const COMPACT_AT: RangeInclusive<f64> = 0.25..=0.95;
/// More threads than this have never made a table faster, and each takes a thread's number.
const HELPERS_MAX: usize = 64;
/// As many as there are processors in the largest machines.
const RECOVERY_THREADS_MAX: usize = 1024;
/// More pairs than a pool of 1 TiB can hold, in whatever way.
const CAPACITY_MAX: u64 = 1 << 40;
/// No pool is smaller than its superblock.
const MAX_BYTES_MIN: u64 = SUPERBLOCK_BYTES;
/// More addresses than any pool reserves.
pub(crate) const MAX_BYTES_MAX: u64 = 1 << 40;
/// A thread that slept less would occupy a processor.
const DURABLE_EVERY_MIN: Duration = Duration::from_micros(100);
/// Losing more than that is not what anybody means by durable.
const DURABLE_EVERY_MAX: Duration = Duration::from_secs(3600);
/// An owner that is awake answers sooner.
const PATIENCE_MIN: Duration = Duration::from_millis(1);
/// Nobody waits longer for a process that is stopped.
const PATIENCE_MAX: Duration = Duration::from_secs(3600);

impl Options {
    /// Refuses a value out of its option's range, or one that is no number.
    pub(crate) fn check(&self) -> Result<()> {
        let settings = &self.settings;
        let (resize_at, shrink_at) = (settings.resize_at, settings.shrink_at);
        // No range has a NaN.
        if !(RESIZE_AT_MIN..).contains(&resize_at) {
            let expected =
                format!("{RESIZE_AT_MIN} or more; above 1 a table never doubles by itself");
            return refuse("resize_at", resize_at, expected);
        }
        if !(0.0..=1.0).contains(&shrink_at) {
            return refuse("shrink_at", shrink_at, "0 to 1; with 0 a table never halves by itself");
        }
        if self.compact_at != 0.0 && !COMPACT_AT.contains(&self.compact_at) {
            let (least, most) = (COMPACT_AT.start(), COMPACT_AT.end());
            let expected = format!("{least} to {most}, or 0 for never");
            return refuse("compact_at", self.compact_at, expected);
        }
        for (option, found, most) in [
            ("helpers", settings.helpers, HELPERS_MAX),
            ("threads", settings.recovery_threads, RECOVERY_THREADS_MAX),
        ] {
            if found > most {
                return refuse(option, found, format!("0 to {most} threads"));
            }
        }
        if self.capacity > CAPACITY_MAX {
            return refuse("capacity", self.capacity, format!("{CAPACITY_MAX} pairs at most"));
        }
        if let Some(bytes) = self.max_bytes
            && !(MAX_BYTES_MIN..=MAX_BYTES_MAX).contains(&bytes)
        {
            let expected = format!("{MAX_BYTES_MIN} to {MAX_BYTES_MAX} bytes (1 TiB)");
            return refuse("max_bytes", bytes, expected);
        }
        for (option, found, range) in [
            ("durable_every", self.durable_every, DURABLE_EVERY_MIN..=DURABLE_EVERY_MAX),
            ("patience", self.patience, PATIENCE_MIN..=PATIENCE_MAX),
        ] {
            if !range.contains(&found) {
                let [least, most] = [range.start(), range.end()].map(Duration::as_secs_f64);
                let found = format!("{} s", found.as_secs_f64());
                return refuse(option, found, format!("{least} to {most} s"));
            }
        }
        Ok(())
    }
}

fn refuse(option: &'static str, found: impl ToString, expected: impl Into<String>) -> Result<()> {
    Err(Error::OutOfRange { option, found: found.to_string(), expected: expected.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Set = fn(Options) -> Options;

    #[test]
    fn options_out_of_range_are_refused_by_name_and_make_no_pool() {
        let wrong: [(&str, Set); 18] = [
            ("resize_at", |options| options.resize_at(f64::NAN)),
            ("resize_at", |options| options.resize_at(0.0)),
            ("resize_at", |options| options.resize_at(-1.0)),
            ("resize_at", |options| options.resize_at(f64::NEG_INFINITY)),
            ("shrink_at", |options| options.shrink_at(f64::NAN)),
            ("shrink_at", |options| options.shrink_at(-0.1)),
            ("shrink_at", |options| options.shrink_at(1.1)),
            ("compact_at", |options| options.compact_at(f64::NAN)),
            ("compact_at", |options| options.compact_at(0.1)),
            ("compact_at", |options| options.compact_at(1.0)),
            ("helpers", |options| options.helpers(usize::MAX)),
            ("threads", |options| options.threads(1025)),
            ("durable_every", |options| options.durable_every(Duration::MAX)),
            ("durable_every", |options| options.durable_every(Duration::ZERO)),
            ("capacity", |options| options.capacity(1 << 50)),
            ("capacity", |options| options.capacity(u64::MAX)),
            ("max_bytes", |options| options.max_bytes(10)),
            ("max_bytes", |options| options.max_bytes(2 << 40)),
        ];
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        for (name, set) in wrong {
            let options = set(Options::new());
            let refusals = [
                options.create_table(&path).map(drop),
                options.open_or_create_store(&path).map(drop),
                options.in_memory_table().map(drop),
                options.in_memory_store().map(drop),
                options.restore(&path).map(drop),
            ];
            for refused in refusals {
                let error = refused.unwrap_err();
                assert!(matches!(error, Error::OutOfRange { option, .. } if option == name));
                let message = error.to_string();
                assert!(message.contains("expected") && message.contains(name), "{message}");
            }
            assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "{name}");
        }
    }

    #[test]
    fn the_ends_of_the_ranges_are_taken() {
        let right: [Set; 11] = [
            |options| options.resize_at(0.1),
            |options| options.resize_at(f64::INFINITY),
            |options| options.shrink_at(0.0),
            |options| options.shrink_at(1.0),
            |options| options.compact_at(0.0),
            |options| options.compact_at(0.25),
            |options| options.compact_at(0.95),
            |options| options.helpers(64),
            |options| options.durable_every(DURABLE_EVERY_MIN),
            |options| options.max_bytes(1 << 20),
            |options| options.max_bytes(MAX_BYTES_MAX),
        ];
        for set in right {
            let table = set(Options::new()).in_memory_table().unwrap();
            assert_eq!(table.put(1, 2).unwrap(), None);
        }
    }
}
