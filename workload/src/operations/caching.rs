//! The simulated cache of Debnath et al., *Revisiting Hash Table Design for Phase Change Memory*, section 4.6.

use super::Operation;
use crate::random::{Purpose, Random};
use crate::{ParameterError, Part, Scatter};

/// Operations of a cache that always holds the same number of records.
///
/// A look-up hits with probability `hit_share`; the paper has 0.95 and 0.90. "During a cache
/// miss, we randomly delete (evict) a KV pair from the hash table and re-insert the missing KV
/// pair": a miss is [`ReadAbsent`](Operation::ReadAbsent), then [`Remove`](Operation::Remove) of
/// a random record and [`Insert`](Operation::Insert) of the missing one.
///
/// The paper does not say which records are missed. Here there are as many beside the cached ones
/// as let the cache hit `hit_share` of requests that are uniform over all: evicted records are
/// among them and come back.
///
/// Without an end; `take` may cut a miss short, which leaves the record evicted or not yet
/// inserted.
///
/// ```
/// use workload::operations::{Caching, Operation};
/// use workload::{Part, Scatter};
/// use std::collections::HashSet;
///
/// let (cached, scatter) = (1_000, Scatter::new(42));
/// let mut cache: HashSet<u64> = (0..cached).map(|rank| scatter.key(rank)).collect();
/// for operation in Caching::new(cached, 0.95, scatter, 42, Part::WHOLE)?.take(10_000) {
///     match operation {
///         Operation::Read(key) => assert!(cache.contains(&key)),
///         Operation::ReadAbsent(key) => assert!(!cache.contains(&key)),
///         Operation::Remove(key) => assert!(cache.remove(&key)),
///         Operation::Insert(key) => assert!(cache.insert(key)),
///         other => panic!("{other:?} in a cache"),
///     }
/// }
/// # Ok::<(), workload::ParameterError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Caching {
    scatter: Scatter,
    random: Random,
    hits_below: u64,
    numbering: Numbering,
    /// The part's records by number, those cached before those that are not. Four bytes each,
    /// as these arrays are nearly as long as the table under test.
    numbers: Vec<u32>,
    cached: u64,
    /// What remains to be done of a miss, last first.
    pending: [Option<Operation>; 2],
}

impl Caching {
    /// This part's operations on a table that holds the keys of the ranks below `cached`. Every
    /// part must have a record: at least as many as there are parts.
    pub fn new(
        cached: u64,
        hit_share: f64,
        scatter: Scatter,
        seed: u64,
        part: Part,
    ) -> Result<Caching, ParameterError> {
        if !(hit_share > 0.0 && hit_share <= 1.0) {
            let expected = "above 0 and at most 1";
            return Err(ParameterError::OutOfRange {
                what: "the share of hits",
                given: hit_share,
                expected,
            });
        }
        let too_many = ParameterError::Records { records: cached, limit: u64::from(u32::MAX) };
        if cached < part.of() {
            return Err(ParameterError::FewerThanParts { records: cached, parts: part.of() });
        }
        let uncached = match hit_share {
            1.0 => 0,
            _ => ((cached as f64 * (1.0 / hit_share - 1.0)).round() as u64).max(part.of()),
        };
        let own_cached = part.range(cached);
        let own_uncached = part.range(uncached);
        let numbering = Numbering {
            cached: own_cached.end - own_cached.start,
            first_cached: own_cached.start,
            first_uncached: cached.saturating_add(own_uncached.start),
        };
        let own = numbering.cached.saturating_add(own_uncached.end - own_uncached.start);
        let Ok(own) = u32::try_from(own) else { return Err(too_many) };
        Ok(Caching {
            scatter,
            random: Random::of_part(seed, Purpose::Operations, part),
            hits_below: (hit_share * 2f64.powi(64)) as u64,
            cached: numbering.cached,
            numbering,
            numbers: (0..own).collect(),
            pending: [None; 2],
        })
    }

    fn key(&self, number: u32) -> u64 {
        self.scatter.key(self.numbering.rank(number))
    }
}

impl Iterator for Caching {
    type Item = Operation;

    #[inline]
    fn next(&mut self) -> Option<Operation> {
        if let Some(operation) = self.pending[1].take().or_else(|| self.pending[0].take()) {
            return Some(operation);
        }
        let uncached = self.numbers.len() as u64 - self.cached;
        let any_cached = self.random.below(self.cached) as usize;
        if uncached == 0 || self.random.word() < self.hits_below {
            return Some(Operation::Read(self.key(self.numbers[any_cached])));
        }
        let any_uncached = (self.cached + self.random.below(uncached)) as usize;
        let missed = self.key(self.numbers[any_uncached]);
        let evicted = self.key(self.numbers[any_cached]);
        self.numbers.swap(any_cached, any_uncached);
        self.pending = [Some(Operation::Insert(missed)), Some(Operation::Remove(evicted))];
        Some(Operation::ReadAbsent(missed))
    }
}

/// A part's records by number: first those of its ranks that are cached at the beginning, then
/// its other ranks.
#[derive(Debug, Clone)]
struct Numbering {
    cached: u64,
    first_cached: u64,
    first_uncached: u64,
}

impl Numbering {
    #[inline]
    fn rank(&self, number: u32) -> u64 {
        match u64::from(number).checked_sub(self.cached) {
            None => self.first_cached + u64::from(number),
            Some(uncached) => self.first_uncached + uncached,
        }
    }
}
