//! What an owner does for its guests: requests in words, carried out on an engine.

use super::wire::{DONE, Malformed, Operation, Reader, Write, write_error, write_unfinished};
use crate::body::Body;
use crate::{Error, Result};
use index::{Fixed, Index, Record, RecordScan, Records, Scan, Unfinished};
use std::sync::Arc;

/// Words of a scan's answer after which it leaves the rest to the next one.
const SCAN_WORDS: usize = 4096;

/// Why a request was not done.
pub(crate) enum Failed {
    Refused(Error),
    /// It is a batch: the entry that failed, and those that were done.
    PartWay(Error, usize, index::Done),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Refused(error)
    }
}

impl From<Malformed> for Failed {
    fn from(malformed: Malformed) -> Failed {
        Failed::Refused(malformed.into())
    }
}

impl From<index::Error> for Failed {
    fn from(error: index::Error) -> Failed {
        Failed::Refused(error.into())
    }
}

impl From<index::ItemError> for Failed {
    fn from(error: index::ItemError) -> Failed {
        Failed::Refused(error.into())
    }
}

impl<E: Into<Error>> From<Unfinished<E>> for Failed {
    fn from(unfinished: Unfinished<E>) -> Failed {
        Failed::PartWay(unfinished.error.into(), unfinished.failed, unfinished.done)
    }
}

impl Failed {
    pub(super) fn write(&self, answer: &mut Vec<u64>) {
        match self {
            Failed::Refused(error) => write_error(answer, error),
            Failed::PartWay(error, failed, done) => write_unfinished(answer, error, *failed, *done),
        }
    }
}

/// An engine that serves guests.
pub(crate) trait Served: Send + Sync {
    /// Does what is asked, which is about keys and values, and adds what it finds to `answer`.
    fn serve(
        &self,
        operation: Operation,
        request: &mut Reader<'_>,
        answer: &mut Vec<u64>,
    ) -> std::result::Result<(), Failed>;

    fn scan(&self) -> Box<dyn ServedScan + '_>;

    fn body(&self) -> &dyn Body;
}

/// A scan for a guest.
pub(crate) trait ServedScan {
    /// Adds the next pairs to `answer`, each behind a one, and then a zero. Returns whether there are more.
    fn go_on(&mut self, answer: &mut Vec<u64>) -> Result<bool>;
}

fn write_found<V: Fixed>(answer: &mut Vec<u64>, found: Option<V>) {
    answer.maybe(found, Write::fixed);
}

impl<K: Fixed, V: Fixed> Served for Arc<dyn Index<K, V>> {
    fn serve(
        &self,
        operation: Operation,
        request: &mut Reader<'_>,
        answer: &mut Vec<u64>,
    ) -> std::result::Result<(), Failed> {
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
            _ => return serve_batch(index, operation, request, answer),
        }
        Ok(())
    }

    fn scan(&self) -> Box<dyn ServedScan + '_> {
        Box::new(TableScan::<K, V> { scan: (**self).scan(), pairs: Vec::new() })
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
) -> std::result::Result<(), Failed> {
    let count = request.count()?;
    let mut found: Vec<Option<V>> = vec![None; count];
    let done = match operation {
        Operation::GetMany | Operation::RemoveMany => {
            let keys = read_each(count, || request.fixed::<K>())?;
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
            match operation {
                Operation::InsertMany => index.insert_many(&pairs, &mut found),
                Operation::UpdateMany => index.update_many(&pairs, &mut found),
                _ => index.upsert_many(&pairs, &mut found),
            }
        }
        _ => return Err(Malformed.into()),
    };
    match done {
        Ok(()) => answer.push(DONE),
        Err(unfinished) => Failed::from(unfinished).write(answer),
    }
    found.into_iter().for_each(|found| write_found(answer, found));
    Ok(())
}

fn read_each<T>(
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
        while goes_on && answer.len() < start + SCAN_WORDS {
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

fn write_record(answer: &mut Vec<u64>, found: Option<Record<'_>>) {
    answer.maybe(found, |answer, found| answer.bytes(found.bytes()));
}

impl Served for Arc<dyn Records> {
    fn serve(
        &self,
        operation: Operation,
        request: &mut Reader<'_>,
        answer: &mut Vec<u64>,
    ) -> std::result::Result<(), Failed> {
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
            }
            Operation::GetMany | Operation::RemoveMany => {
                let count = request.count()?;
                let keys = read_each(count, || request.bytes())?;
                let found = match operation {
                    Operation::GetMany => records.get_many(&keys)?,
                    _ => records.remove_many(&keys)?,
                };
                answer.push(DONE);
                found.into_iter().for_each(|found| write_record(answer, found));
            }
            Operation::InsertMany | Operation::UpdateMany | Operation::UpsertMany => {
                let count = request.count()?;
                let pairs = read_each(count, || Ok((request.bytes()?, request.bytes()?)))?;
                let found = match operation {
                    Operation::InsertMany => records.insert_many(&pairs),
                    Operation::UpdateMany => records.update_many(&pairs),
                    _ => records.upsert_many(&pairs),
                }?;
                answer.push(DONE);
                found.into_iter().for_each(|found| write_record(answer, found));
            }
            _ => return Err(Malformed.into()),
        }
        Ok(())
    }

    fn scan(&self) -> Box<dyn ServedScan + '_> {
        Box::new(StoreScan { scan: (**self).scan() })
    }

    fn body(&self) -> &dyn Body {
        self
    }
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
