//! The operations of a mix.

use super::mix::{Choice, Plan};
use super::{Kind, LONGEST_SCAN, Mix, Operation};
use crate::random::{Purpose, Random};
use crate::ranks::{MOST_RECORDS, RankStream, Ranks, Shuffled};
use crate::{ParameterError, Part, Scatter};
use std::ops::Range;

/// One part's operations of a [`Mix`].
///
/// Ends after the part's share of the records for loading and removing, never otherwise.
#[derive(Debug, Clone)]
pub struct MixStream {
    scatter: Scatter,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Load(Range<u64>),
    /// How many are left, and which.
    Clear(Option<(u64, Shuffled)>),
    Draw(Box<Draw>),
}

impl MixStream {
    /// This part's operations on a table into which the keys of the ranks below `records` were
    /// loaded (or, for [`Mix::load`], are to be).
    ///
    /// New records get the ranks from `records` on, of which part *i* of *n* takes every *n*-th
    /// beginning with the *i*-th.
    pub fn new(
        mix: &Mix,
        records: u64,
        scatter: Scatter,
        seed: u64,
        part: Part,
    ) -> Result<MixStream, ParameterError> {
        let least = match &mix.plan {
            Plan::Draw { choice, .. } if choice.needs_records() => 1,
            _ => 0,
        };
        if !(least..=MOST_RECORDS).contains(&records) {
            return Err(ParameterError::Records { records, limit: MOST_RECORDS });
        }
        let source = match &mix.plan {
            Plan::Load => Source::Load(part.range(records)),
            Plan::Clear => {
                let range = part.range(records);
                // A part without records has no stream of them.
                Source::Clear(match range.end - range.start {
                    0 => None,
                    left => Some((left, Shuffled::new(records, seed, part)?)),
                })
            }
            Plan::Draw { requests, choice } => Source::Draw(Box::new(Draw {
                choice: choice.clone(),
                // Where there are no records nothing asks this stream for one, but it needs some.
                requests: RankStream::new(*requests, records.max(1), seed, part)?,
                random: Random::of_part(seed, Purpose::Operations, part),
                records,
                inserted: 0,
                part,
            })),
        };
        Ok(MixStream { scatter, source })
    }
}

impl Iterator for MixStream {
    type Item = Operation;

    #[inline]
    fn next(&mut self) -> Option<Operation> {
        match &mut self.source {
            Source::Load(range) => Some(Operation::Insert(self.scatter.key(range.next()?))),
            Source::Clear(removals) => {
                let (left, ranks) = removals.as_mut()?;
                *left = left.checked_sub(1)?;
                Some(Operation::Remove(self.scatter.key(ranks.next_rank())))
            }
            Source::Draw(draw) => Some(draw.operation(self.scatter)),
        }
    }
}

#[derive(Debug, Clone)]
struct Draw {
    choice: Choice,
    requests: RankStream,
    random: Random,
    records: u64,
    inserted: u64,
    part: Part,
}

impl Draw {
    #[inline]
    fn operation(&mut self, scatter: Scatter) -> Operation {
        match self.choice.kind(self.random.word()) {
            Kind::Read => Operation::Read(self.present_key(scatter)),
            Kind::Update => Operation::Update(self.present_key(scatter)),
            Kind::ReadModifyWrite => Operation::ReadModifyWrite(self.present_key(scatter)),
            Kind::Insert => Operation::Insert(self.new_key(scatter)),
            Kind::Scan => self.scan(),
            // A mix has no removals beside other kinds.
            Kind::ReadAbsent | Kind::Remove => {
                Operation::ReadAbsent(scatter.absent_key(self.random.word()))
            }
        }
    }

    /// The key of a record that was loaded or that this part has inserted.
    #[inline]
    fn present_key(&mut self, scatter: Scatter) -> u64 {
        let position = self.requests.next_rank();
        scatter.key(match position.checked_sub(self.records) {
            None => position,
            Some(inserted) => self.inserted_rank(inserted),
        })
    }

    fn new_key(&mut self, scatter: Scatter) -> u64 {
        let rank = self.inserted_rank(self.inserted);
        self.inserted += 1;
        self.requests.grow_to(self.records + self.inserted);
        scatter.key(rank)
    }

    fn inserted_rank(&self, inserted: u64) -> u64 {
        self.records + inserted * self.part.of() + self.part.index()
    }

    fn scan(&mut self) -> Operation {
        let first = self.requests.next_rank();
        let length = 1 + self.random.below(u64::from(LONGEST_SCAN));
        // Of the records beyond those loaded, other parts' may not have been inserted yet.
        let first = first.min(self.records - 1);
        Operation::Scan { first, length: length.min(self.records - first) as u16 }
    }
}
