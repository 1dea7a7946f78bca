//! What an owner does for its guests: requests in words, carried out on an engine.

use super::part_way::PartWay;
use super::wire::{DONE, Malformed, Operation, Reader, Write, write_unfinished};
use crate::body::Body;
use crate::{Error, Result};
use index::{Done, Fixed, Index, Record, RecordScan, Records, Scan, Unfinished};
use pmem::view::View;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Words of an answer after which a scan or a batch leaves the rest to the next request: what is found may be far
/// larger than what is asked for.
pub(super) const SCAN_WORDS: usize = 4096;
pub(super) const BATCH_ANSWER_WORDS: usize = 1 << 17;
/// Entries of a store's batch that are done at once. Their cache misses overlap.
const ENTRIES_AT_ONCE: usize = 32;
/// Steps after which a scan answers, with whatever it has found: others wait.
pub(super) const SCAN_STEPS: usize = 64;

/// An engine that serves guests.
pub(crate) trait Served: Send + Sync {
    /// Does what is asked, which is about keys and values, and adds what it finds to `answer`. An error is not in the
    /// answer yet; that of a batch which was done in part is. Returns how many entries were done, of a batch.
    fn serve(
        &self,
        operation: Operation,
        request: &mut Reader<'_>,
        answer: &mut Vec<u64>,
    ) -> Result<Option<Done>>;

    fn scan(&self) -> Box<dyn ServedScan + '_>;

    /// What guests see by themselves.
    fn view(&self) -> Option<Arc<View>>;

    fn body(&self) -> &dyn Body;
}

/// A scan for a guest.
pub(crate) trait ServedScan {
    /// Adds the next pairs to `answer`, each behind a one, and then a zero. Returns whether there are more.
    fn go_on(&mut self, answer: &mut Vec<u64>) -> Result<bool>;
}

/// Scans of a guest by their numbers, with the moment when it asked for more of them last.
pub(super) type Scans<'a> = HashMap<u64, (Box<dyn ServedScan + 'a>, Instant)>;

fn write_found<V: Fixed>(answer: &mut Vec<u64>, found: Option<V>) {
    answer.maybe(found, Write::fixed);
}

impl<K: Fixed, V: Fixed> Served for Arc<dyn Index<K, V>> {
    fn serve(
        &self,
        operation: Operation,
        request: &mut Reader<'_>,
        answer: &mut Vec<u64>,
    ) -> Result<Option<Done>> {
        let index = &**self;
        match operation {
            Operation::Get => {
                let found = index.get(request.fixed()?);
                answer.push(DONE);
                write_found(answer, found);
            }
            Operation::Insert | Operation::Update | Operation::Upsert | Operation::Remove => {
                let key = request.fixed()?;
                let found = match operation {
                    Operation::Insert => index.insert(key, request.fixed()?),
                    Operation::Update => index.update(key, request.fixed()?),
                    Operation::Upsert => index.upsert(key, request.fixed()?),
                    _ => index.remove(key),
                }?;
                answer.push(DONE);
                write_found(answer, found);
            }
            Operation::CompareExchange => {
                let key = request.fixed()?;
                let (expected, new) =
                    (request.maybe(Reader::fixed)?, request.maybe(Reader::fixed)?);
                let changed = index.compare_exchange(key, expected, new)?;
                answer.extend([DONE, changed.is_ok().into()]);
                if let Err(found) = changed {
                    write_found(answer, found);
                }
            }
            _ => return serve_batch(index, operation, request, answer).map(Some),
        }
        Ok(None)
    }

    fn scan(&self) -> Box<dyn ServedScan + '_> {
        Box::new(TableScan::<K, V> { scan: (**self).scan(), pairs: Vec::new() })
    }

    fn view(&self) -> Option<Arc<View>> {
        (**self).view()
    }

    fn body(&self) -> &dyn Body {
        self
    }
}

/// What a batch has found is in the answer also if it failed part-way.
#[inline(never)]
fn serve_batch<K: Fixed, V: Fixed>(
    index: &dyn Index<K, V>,
    operation: Operation,
    request: &mut Reader<'_>,
    answer: &mut Vec<u64>,
) -> Result<Done> {
    let count = request.count()?;
    let mut found: Vec<Option<V>> = Vec::new();
    let done = match operation {
        Operation::GetMany | Operation::RemoveMany => {
            let keys = read_each(count, || request.fixed::<K>())?;
            found.resize(count, None);
            match operation {
                Operation::RemoveMany => index.remove_many(&keys, &mut found),
                _ => {
                    index.get_many(&keys, &mut found);
                    Ok(())
                }
            }
        }
        Operation::InsertMany | Operation::UpdateMany | Operation::UpsertMany => {
            let pairs = read_each(count, || Ok((request.fixed::<K>()?, request.fixed::<V>()?)))?;
            found.resize(count, None);
            match operation {
                Operation::InsertMany => index.insert_many(&pairs, &mut found),
                Operation::UpdateMany => index.update_many(&pairs, &mut found),
                _ => index.upsert_many(&pairs, &mut found),
            }
        }
        _ => return Err(Malformed.into()),
    };
    let done = match done {
        Ok(()) => {
            answer.push(DONE);
            Done::first(count)
        }
        Err(unfinished) => write_part_way(answer, &unfinished.into()),
    };
    found.into_iter().for_each(|found| write_found(answer, found));
    Ok(done)
}

pub(super) fn write_part_way(answer: &mut Vec<u64>, part_way: &PartWay) -> Done {
    write_unfinished(answer, part_way.error(), part_way.failed(), part_way.done());
    part_way.done()
}

pub(super) fn read_each<T>(
    count: usize,
    mut read: impl FnMut() -> std::result::Result<T, Malformed>,
) -> std::result::Result<Vec<T>, Malformed> {
    (0..count).map(|_| read()).collect()
}

struct TableScan<'a, K, V> {
    scan: Box<dyn Scan<K, V> + 'a>,
    pairs: Vec<(K, V)>,
}

impl<K: Fixed, V: Fixed> ServedScan for TableScan<'_, K, V> {
    fn go_on(&mut self, answer: &mut Vec<u64>) -> Result<bool> {
        let start = answer.len();
        let mut goes_on = true;
        for _ in 0..SCAN_STEPS {
            if !goes_on || answer.len() >= start + SCAN_WORDS {
                break;
            }
            goes_on = self.scan.take_some(&mut self.pairs)?;
            for (key, value) in self.pairs.drain(..) {
                answer.push(1);
                answer.fixed(key);
                answer.fixed(value);
            }
        }
        answer.push(0);
        Ok(goes_on)
    }
}

pub(super) fn write_record(answer: &mut Vec<u64>, found: Option<Record<'_>>) {
    answer.maybe(found, |answer, found| answer.bytes(found.bytes()));
}

impl Served for Arc<dyn Records> {
    fn serve(
        &self,
        operation: Operation,
        request: &mut Reader<'_>,
        answer: &mut Vec<u64>,
    ) -> Result<Option<Done>> {
        let records = &**self;
        match operation {
            Operation::Get
            | Operation::Insert
            | Operation::Update
            | Operation::Upsert
            | Operation::Remove => {
                let key = request.bytes()?;
                let found = match operation {
                    Operation::Get => records.get(key),
                    Operation::Insert => records.insert(key, request.bytes()?),
                    Operation::Update => records.update(key, request.bytes()?),
                    Operation::Upsert => records.upsert(key, request.bytes()?),
                    _ => records.remove(key),
                }?;
                answer.push(DONE);
                write_record(answer, found);
                Ok(None)
            }
            Operation::CompareExchange => {
                let key = request.bytes()?;
                let (expected, new) =
                    (request.maybe(Reader::bytes)?, request.maybe(Reader::bytes)?);
                let changed = records.compare_exchange(key, expected, new)?;
                answer.extend([DONE, changed.is_ok().into()]);
                if let Err(found) = changed {
                    write_record(answer, found);
                }
                Ok(None)
            }
            Operation::GetMany | Operation::RemoveMany => {
                let count = request.count()?;
                let keys = read_each(count, || request.bytes())?;
                let done = in_parts(&keys, answer, |keys| match operation {
                    Operation::GetMany => records
                        .get_many(keys)
                        .map_err(|error| Unfinished::refused(Unfinished::<Error>::NO_ENTRY, error)),
                    _ => records.remove_many(keys),
                });
                Ok(Some(done))
            }
            Operation::InsertMany | Operation::UpdateMany | Operation::UpsertMany => {
                let count = request.count()?;
                let pairs = read_each(count, || Ok((request.bytes()?, request.bytes()?)))?;
                let done = in_parts(&pairs, answer, |pairs| match operation {
                    Operation::InsertMany => records.insert_many(pairs),
                    Operation::UpdateMany => records.update_many(pairs),
                    _ => records.upsert_many(pairs),
                });
                Ok(Some(done))
            }
            _ => Err(Malformed.into()),
        }
    }

    fn scan(&self) -> Box<dyn ServedScan + '_> {
        Box::new(StoreScan { scan: (**self).scan() })
    }

    fn view(&self) -> Option<Arc<View>> {
        (**self).view()
    }

    fn body(&self) -> &dyn Body {
        self
    }
}

/// Does the entries of a batch in order, some at once, until the answer is large: how many were done, and what was
/// found of them. The guest asks for the others.
fn in_parts<'a, E>(
    entries: &[E],
    answer: &mut Vec<u64>,
    mut run: impl FnMut(
        &[E],
    )
        -> std::result::Result<Vec<Option<Record<'a>>>, Unfinished<index::ItemError>>,
) -> Done {
    let start = answer.len();
    answer.extend([DONE, 0]);
    let mut done = 0;
    for part in entries.chunks(ENTRIES_AT_ONCE) {
        match run(part) {
            Ok(found) => found.into_iter().for_each(|found| write_record(answer, found)),
            Err(unfinished) => {
                answer.truncate(start);
                return write_part_way(answer, &PartWay::from(unfinished).after(done));
            }
        }
        done += part.len();
        if answer.len() - start > BATCH_ANSWER_WORDS {
            break;
        }
    }
    answer[start + 1] = done as u64;
    Done::first(done)
}

struct StoreScan<'a> {
    scan: Box<dyn RecordScan + 'a>,
}

impl ServedScan for StoreScan<'_> {
    fn go_on(&mut self, answer: &mut Vec<u64>) -> Result<bool> {
        let start = answer.len();
        let mut goes_on = true;
        while goes_on && answer.len() < start + SCAN_WORDS {
            match self.scan.next()? {
                Some((key, value)) => {
                    answer.push(1);
                    answer.bytes(key);
                    answer.bytes(value);
                }
                None => goes_on = false,
            }
        }
        answer.push(0);
        Ok(goes_on)
    }
}
