//! What the owner of a cache does for its guests.

use super::service::{
    BATCH_ANSWER_WORDS, SCAN_STEPS, SCAN_WORDS, Served, ServedScan, read_each, write_part_way,
    write_record,
};
use super::wire::{DONE, Malformed, Operation, Reader, Write};
use crate::body::Body;
use crate::cache::{CacheOperations, Demand, End, Entries};
use crate::store::Record;
use crate::{CacheStats, Result};
use index::Done;
use pmem::view::View;
use std::sync::Arc;
use std::time::Duration;

impl Served for Arc<dyn CacheOperations> {
    fn serve(
        &self,
        operation: Operation,
        request: &mut Reader<'_>,
        answer: &mut Vec<u64>,
    ) -> Result<Option<Done>> {
        let cache = &**self;
        match operation {
            Operation::Get | Operation::Peek => {
                let key = request.bytes()?;
                let found = match operation {
                    Operation::Get => cache.get(key),
                    _ => cache.peek(key),
                }?;
                answer.push(DONE);
                write_record(answer, found.map(Record::into_inner));
            }
            Operation::PutUntil => {
                let (key, value) = (request.bytes()?, request.bytes()?);
                cache.put(key, value, read_end(request)?)?;
                answer.push(DONE);
            }
            Operation::PutIf => {
                let (key, value) = (request.bytes()?, request.bytes()?);
                let end = read_end(request)?;
                let demand = request.maybe(Reader::bytes)?.map_or(Demand::Absent, Demand::Value);
                let is_put = cache.put_if(key, value, end, demand)?;
                answer.extend([DONE, is_put.into()]);
            }
            Operation::Touch => {
                let key = request.bytes()?;
                let is_there = cache.touch(key, read_end(request)?)?;
                answer.extend([DONE, is_there.into()]);
            }
            Operation::Remove => {
                let was_there = cache.remove(request.bytes()?)?;
                answer.extend([DONE, was_there.into()]);
            }
            Operation::TimeLeft => {
                let left = cache.time_left(request.bytes()?)?;
                answer.push(DONE);
                answer.maybe(left, |answer, left| {
                    answer.maybe(left, |answer, left| answer.push(left.as_millis() as u64));
                });
            }
            Operation::Clear => {
                cache.clear()?;
                answer.push(DONE);
            }
            Operation::GetMany => {
                let count = request.count()?;
                let keys = read_each(count, || request.bytes())?;
                let start = answer.len();
                answer.extend([DONE, 0]);
                for key in keys {
                    write_record(answer, cache.get(key)?.map(Record::into_inner));
                    answer[start + 1] += 1;
                    if answer.len() - start > BATCH_ANSWER_WORDS {
                        break;
                    }
                }
            }
            Operation::PutMany => {
                let count = request.count()?;
                let pairs = read_each(count, || Ok((request.bytes()?, request.bytes()?)))?;
                return Ok(Some(match cache.put_many(&pairs) {
                    Ok(()) => {
                        answer.extend([DONE, count as u64]);
                        answer.resize(answer.len() + count, 0);
                        Done::first(count)
                    }
                    Err(unfinished) => write_part_way(answer, &unfinished.into()),
                }));
            }
            Operation::RemoveMany => {
                let count = request.count()?;
                let keys = read_each(count, || request.bytes())?;
                return Ok(Some(match cache.remove_many(&keys) {
                    Ok(were_there) => {
                        answer.extend([DONE, count as u64]);
                        answer.extend(were_there.into_iter().map(u64::from));
                        Done::first(count)
                    }
                    Err(unfinished) => write_part_way(answer, &unfinished.into()),
                }));
            }
            Operation::CacheFigures => {
                let stats = cache.stats()?;
                answer.push(DONE);
                write_stats(answer, &stats);
            }
            _ => return Err(Malformed.into()),
        }
        Ok(None)
    }

    fn scan(&self) -> Box<dyn ServedScan + '_> {
        Box::new(CacheScan { entries: (**self).entries(), taken: Vec::new() })
    }

    fn view(&self) -> Option<Arc<View>> {
        None
    }

    fn body(&self) -> &dyn Body {
        self
    }
}

struct CacheScan<'a> {
    entries: Box<dyn Entries + 'a>,
    taken: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ServedScan for CacheScan<'_> {
    fn go_on(&mut self, answer: &mut Vec<u64>) -> Result<bool> {
        let start = answer.len();
        let mut goes_on = true;
        for _ in 0..SCAN_STEPS {
            if !goes_on || answer.len() >= start + SCAN_WORDS {
                break;
            }
            goes_on = self.entries.take_some(&mut self.taken)?;
            for (key, value) in self.taken.drain(..) {
                answer.push(1);
                answer.bytes(&key);
                answer.bytes(&value);
            }
        }
        answer.push(0);
        Ok(goes_on)
    }
}

pub(super) fn write_end(words: &mut Vec<u64>, end: End) {
    words.extend(match end {
        End::Never => [0, 0],
        End::AfterMs(ms) => [1, ms],
        End::AtMs(ms) => [2, ms],
    });
}

fn read_end(words: &mut Reader<'_>) -> std::result::Result<End, Malformed> {
    match (words.word()?, words.word()?) {
        (0, _) => Ok(End::Never),
        (1, ms) => Ok(End::AfterMs(ms)),
        (2, ms) => Ok(End::AtMs(ms)),
        _ => Err(Malformed),
    }
}

fn write_stats(words: &mut Vec<u64>, stats: &CacheStats) {
    words.extend([
        stats.hits,
        stats.misses,
        stats.insertions,
        stats.evictions,
        stats.expired,
        stats.refused,
        stats.kept,
        stats.hits_ever,
        stats.misses_ever,
        stats.entries,
        stats.entry_bytes,
        stats.index_bytes,
        stats.pool_bytes,
        stats.capacity_bytes,
        stats.volatile_bytes,
        stats.oldest_put.as_millis() as u64,
        stats.oldest_kept.as_millis() as u64,
    ]);
}

pub(super) fn read_stats(words: &mut Reader<'_>) -> std::result::Result<CacheStats, Malformed> {
    let mut stats = CacheStats::default();
    for figure in [
        &mut stats.hits,
        &mut stats.misses,
        &mut stats.insertions,
        &mut stats.evictions,
        &mut stats.expired,
        &mut stats.refused,
        &mut stats.kept,
        &mut stats.hits_ever,
        &mut stats.misses_ever,
        &mut stats.entries,
        &mut stats.entry_bytes,
        &mut stats.index_bytes,
        &mut stats.pool_bytes,
        &mut stats.capacity_bytes,
        &mut stats.volatile_bytes,
    ] {
        *figure = words.word()?;
    }
    stats.oldest_put = Duration::from_millis(words.word()?);
    stats.oldest_kept = Duration::from_millis(words.word()?);
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_ends_are_on_the_other_side_what_they_were() {
        let mut words: Vec<u64> = (1..=17).collect();
        let stats = read_stats(&mut Reader(&words)).unwrap();
        assert_eq!((stats.hits, stats.volatile_bytes), (1, 15));
        let mut again = Vec::new();
        write_stats(&mut again, &stats);
        assert_eq!(again, words);
        words.pop();
        assert_eq!(read_stats(&mut Reader(&words)), Err(Malformed));
        for end in [End::Never, End::AfterMs(7), End::AtMs(8)] {
            let mut words = Vec::new();
            write_end(&mut words, end);
            assert_eq!(read_end(&mut Reader(&words)), Ok(end));
        }
        assert_eq!(read_end(&mut Reader(&[3, 0])), Err(Malformed));
    }
}
