//! Figures of a pool that only its owner knows.

use super::wire::{Malformed, Reader, Write};
use crate::Durability;
use crate::body::Body;
use index::{CacheUse, Level, Occupancy};
use pmem::heap::HeapUse;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a guest's [`Stats`](crate::Stats) are made of, beside the pool's superblock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    pub(crate) occupancy: Occupancy,
    pub(crate) heap: HeapUse,
    pub(crate) scan_time: Duration,
    pub(crate) pool_bytes: u64,
    pub(crate) incarnation: u64,
    pub(crate) durability: Durability,
    pub(crate) recovery: Duration,
    pub(crate) guests: u64,
}

impl Figures {
    pub(super) fn of(body: &dyn Body, of_pool: &OfPool, guests: u64) -> Figures {
        Figures {
            occupancy: body.occupancy(),
            heap: body.heap_use(),
            scan_time: body.scan_time(),
            pool_bytes: of_pool.pool_bytes,
            incarnation: of_pool.incarnation,
            durability: of_pool.durability,
            recovery: of_pool.recovery,
            guests,
        }
    }

    pub(super) fn write(&self, words: &mut Vec<u64>) {
        let occupancy = &self.occupancy;
        words.push(occupancy.levels.len() as u64);
        for level in &occupancy.levels {
            words.bytes(level.name.as_bytes());
            words.extend([level.pairs, level.slots, level.pool_bytes, level.sidecar_bytes]);
        }
        words.extend([occupancy.capacity, occupancy.resizing.into(), occupancy.resizes]);
        words.maybe(occupancy.cached, |words, cached| {
            let CacheUse { bytes, is_full_loaded, hits, absences, misses } = cached;
            words.extend([bytes, is_full_loaded.into(), hits, absences, misses]);
        });
        let HeapUse { pool_bytes, used_bytes, vacant_bytes } = self.heap;
        words.extend([pool_bytes, used_bytes, vacant_bytes]);
        words.extend([self.scan_time, self.recovery].map(|time| time.as_nanos() as u64));
        words.extend([self.pool_bytes, self.incarnation, self.guests]);
        words.push(self.durability.code());
    }

    pub(super) fn read(words: &mut Reader<'_>) -> Result<Figures, Malformed> {
        let mut levels = Vec::new();
        let count = words.count()?;
        if count > NAMES_MAX {
            return Err(Malformed);
        }
        for _ in 0..count {
            let name = name_of(words.text()?)?;
            let (pairs, slots) = (figure(words)?, figure(words)?);
            let (pool_bytes, sidecar_bytes) = (figure(words)?, figure(words)?);
            levels.push(Level { name, pairs, slots, pool_bytes, sidecar_bytes });
        }
        let (capacity, resizing, resizes) = (words.word()?, words.flag()?, words.word()?);
        let cached = words.maybe(|words| {
            Ok(CacheUse {
                bytes: figure(words)?,
                is_full_loaded: words.flag()?,
                hits: figure(words)?,
                absences: figure(words)?,
                misses: figure(words)?,
            })
        })?;
        let heap = HeapUse {
            pool_bytes: figure(words)?,
            used_bytes: figure(words)?,
            vacant_bytes: figure(words)?,
        };
        let mut time = || words.word().map(Duration::from_nanos);
        let (scan_time, recovery) = (time()?, time()?);
        Ok(Figures {
            occupancy: Occupancy { levels, capacity, resizing, resizes, cached },
            heap,
            scan_time,
            recovery,
            pool_bytes: words.word()?,
            incarnation: words.word()?,
            guests: words.word()?,
            durability: Durability::from_code(words.word()?).ok_or(Malformed)?,
        })
    }
}

/// Larger ones no owner has. So whoever adds some of them up need not expect a sum that is none.
const FIGURE_MAX: u64 = 1 << 56;

fn figure(words: &mut Reader<'_>) -> Result<u64, Malformed> {
    Some(words.word()?).filter(|&figure| figure <= FIGURE_MAX).ok_or(Malformed)
}

/// Of these, what the owner's handle knows.
pub(super) struct OfPool {
    pub(super) pool_bytes: u64,
    pub(super) incarnation: u64,
    pub(super) durability: Durability,
    pub(super) recovery: Duration,
}

/// Names of levels that are kept: all engines together have far fewer.
const NAMES_MAX: usize = 64;

/// The same name for good: an engine's own are constants, which are no others in another process.
fn name_of(name: String) -> Result<&'static str, Malformed> {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.iter().find(|known| **known == name) {
        return Ok(known);
    }
    if names.len() == NAMES_MAX {
        return Err(Malformed);
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.push(name);
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_on_the_other_side_what_they_were() {
        let level = |name| Level { name, pairs: 1, slots: 2, pool_bytes: 3, sidecar_bytes: 4 };
        let cache = CacheUse { bytes: 1, is_full_loaded: true, hits: 2, absences: 3, misses: 4 };
        for cached in [None, Some(cache)] {
            let figures = Figures {
                occupancy: Occupancy {
                    levels: vec![level("level 1"), level("stash")],
                    capacity: 5,
                    resizing: true,
                    resizes: 6,
                    cached,
                },
                heap: HeapUse { pool_bytes: 7, used_bytes: 8, vacant_bytes: 9 },
                scan_time: Duration::from_micros(10),
                pool_bytes: 11,
                incarnation: 12,
                durability: Durability::Commit,
                recovery: Duration::from_micros(13),
                guests: 14,
            };
            let mut words = Vec::new();
            figures.write(&mut words);
            assert_eq!(Figures::read(&mut Reader(&words)), Ok(figures));
            for cut in 0..words.len() {
                assert_eq!(Figures::read(&mut Reader(&words[..cut])), Err(Malformed));
            }
            // Whatever one of the words is, what is made of them can be added up.
            for at in 0..words.len() {
                let mut words = words.clone();
                words[at] = u64::MAX;
                if let Ok(Figures { occupancy, .. }) = Figures::read(&mut Reader(&words)) {
                    assert!(occupancy.bytes_per_pair().is_finite());
                    assert!(occupancy.cached.is_none_or(|cached| cached.hit_rate() <= 1.0));
                }
            }
        }
    }
}
