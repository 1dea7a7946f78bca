//! Batches of a guest whose entries are byte strings.

use super::link::Link;
use super::part_way::PartWay;
use super::wire::{BATCH_WORDS, Malformed, Operation, Reader, read_batch_answer};
use crate::held::Held;
use crate::{Error, Result};

impl Link {
    /// Has a batch done, in parts of which each goes through a lane at once, if its entries do. `bytes` tells how long
    /// an entry is, about; `read` reads what was found of one.
    pub(super) fn batch<'a, T: Held, E, F>(
        &'a self,
        operation: Operation,
        own: impl Fn(&'a T, &[E]) -> std::result::Result<Vec<F>, PartWay>,
        entries: &[E],
        bytes: impl Fn(&E) -> usize,
        write: impl Fn(&mut Vec<u64>, &E),
        read: impl Fn(&mut Reader<'_>) -> Result<F>,
    ) -> std::result::Result<Vec<F>, PartWay> {
        let mut all = Vec::with_capacity(entries.len());
        let mut rest = entries;
        while !rest.is_empty() {
            let mut words = 0;
            let fits = |entry: &&E| {
                words += 4 + bytes(entry) / 8;
                words <= BATCH_WORDS
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let part = &rest[..count];
            let asked = self.ask(
                operation,
                |own_pool| own(own_pool, part),
                |request| {
                    request.push(part.len() as u64);
                    part.iter().for_each(|entry| write(request, entry));
                },
                |answer| {
                    let (mut words, failed) = read_batch_answer(answer, part.len());
                    if let Some(part_way) = failed {
                        return Err(part_way);
                    }
                    let done = words.count().map_err(Error::from)?;
                    Ok((0..done).map(|_| read(&mut words)).collect::<Result<Vec<_>>>()?)
                },
            );
            let before = all.len();
            all.extend(asked.map_err(|part_way| part_way.after(before))?);
            // The owner answers a beginning of them, if what it has found is large.
            match all.len() - before {
                done if (1..=count).contains(&done) => rest = &rest[done..],
                _ => return Err(PartWay::from(Error::from(Malformed)).after(before)),
            }
        }
        Ok(all)
    }
}
