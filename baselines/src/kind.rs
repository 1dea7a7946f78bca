//! All tables by name, and how they are created.

use crate::array_hash::{self, ArrayHash};
use crate::chained::Chains;
use crate::cuckoo::Cuckoo;
use crate::hopscotch::{self, Hopscotch};
use crate::linear_probing::{LinearProbing, Removal};
use crate::path::{self, Path};
use crate::pfht::{self, Pfht};
use crate::region::{Commit, OpenError, Region, SHAPE_WORDS};
use crate::table::{Baseline, Scheme, Table};
use pmem::Medium;
use std::sync::Arc;

/// A table of the papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Linear probing whose removals leave marks.
    Probing,
    /// Linear probing whose removals shift pairs back.
    ProbingShift,
    /// Chained hashing.
    Chained,
    /// Array hash.
    Array,
    /// Hopscotch hashing.
    Hopscotch,
    /// Cuckoo hashing, two functions, buckets of a line.
    Cuckoo24,
    /// Cuckoo hashing, two functions, buckets of two lines.
    Cuckoo28,
    /// Cuckoo hashing, three functions, buckets of a line.
    Cuckoo34,
    /// Path hashing.
    Path,
    /// PFHT, as its paper has it.
    Pfht,
}

/// Most pairs that an insertion or a removal moves, as in Debnath et al. for cuckoo hashing.
const MOVES_MAX: u64 = 512;
/// Pairs of the stash of hopscotch hashing and PFHT up to a load factor of 0.90, as in that paper.
pub const STASH_PAIRS: u64 = 8192;
/// Slots for each bucket of the array hash.
const SLOTS_PER_ARRAY: u64 = 4;
/// Most cells of a transaction of chained hashing.
const CHAIN_RECORDS: u64 = 4;

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 10] = [
        Kind::Probing,
        Kind::ProbingShift,
        Kind::Chained,
        Kind::Array,
        Kind::Hopscotch,
        Kind::Cuckoo24,
        Kind::Cuckoo28,
        Kind::Cuckoo34,
        Kind::Path,
        Kind::Pfht,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Probing => "probing",
            Kind::ProbingShift => "probing-shift",
            Kind::Chained => "chained",
            Kind::Array => "array",
            Kind::Hopscotch => "hopscotch",
            Kind::Cuckoo24 => "cuckoo-2-4",
            Kind::Cuckoo28 => "cuckoo-2-8",
            Kind::Cuckoo34 => "cuckoo-3-4",
            Kind::Path => "path",
            Kind::Pfht => "pfht-paper",
        }
    }
}

/// The parameters with which a table is created. Its memory keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Which table.
    pub kind: Kind,
    /// Slots on which the load factor is based.
    pub slots: u64,
    /// Pairs of the stash of hopscotch hashing and PFHT.
    pub stash: u64,
    /// Slots of a neighbourhood of hopscotch hashing, buckets of chained hashing and array hash, levels of path
    /// hashing, slots of a bucket of PFHT.
    pub width: u64,
    /// Most pairs that an insertion or a removal moves.
    pub moves_max: u64,
    /// Seed of hashing and of random choices.
    pub seed: u64,
}

impl Shape {
    /// A table of about `slots` slots, as in its paper.
    pub fn new(kind: Kind, slots: u64, seed: u64) -> Shape {
        let width = match kind {
            Kind::Hopscotch => hopscotch::NEIGHBOURS_MAX,
            Kind::Chained => slots,
            Kind::Array => slots.div_ceil(SLOTS_PER_ARRAY),
            Kind::Path => path::levels(slots),
            Kind::Pfht => pfht::BUCKET_SLOTS,
            _ => 0,
        };
        Shape { kind, slots, stash: STASH_PAIRS, width, moves_max: MOVES_MAX, seed }
    }

    /// The shape of the table that lies on `medium`.
    pub fn on<M: Medium>(medium: &M) -> Result<Shape, OpenError> {
        Shape::of_words(Region::shape(medium)?)
    }

    fn words(&self) -> [u64; SHAPE_WORDS] {
        [self.kind as u64, self.slots, self.stash, self.width, self.moves_max, self.seed]
    }

    fn of_words(words: [u64; SHAPE_WORDS]) -> Result<Shape, OpenError> {
        let [number, slots, stash, width, moves_max, seed] = words;
        let is_kind = |kind: &Kind| *kind as u64 == number;
        let kind = Kind::ALL.into_iter().find(is_kind).ok_or(OpenError::Unknown(number))?;
        Ok(Shape { kind, slots, stash, width, moves_max, seed })
    }

    /// The table of this shape on `medium`, which is empty or already holds it.
    fn over<M: Medium>(
        &self,
        medium: Arc<M>,
        is_new: bool,
        commit: Commit,
    ) -> Result<Box<dyn Table>, OpenError> {
        let Shape { kind, slots, stash, width, moves_max, seed } = *self;
        let over = Over { medium, words: is_new.then(|| self.words()), commit };
        let cuckoo =
            |functions, bucket_slots| Cuckoo::new(functions, bucket_slots, slots, moves_max, seed);
        match kind {
            Kind::Probing => over.of(LinearProbing::new(slots, Removal::Mark, seed), 1),
            Kind::ProbingShift => {
                over.of(LinearProbing::new(slots, Removal::Shift, seed), moves_max + 1)
            }
            Kind::Chained => over.of(Chains::new(0, width, slots, seed), CHAIN_RECORDS),
            Kind::Array => over.of(ArrayHash::new(slots, width, seed), array_hash::RECORDS_MAX),
            Kind::Hopscotch => {
                let hopscotch = Hopscotch::new(slots, width, stash, moves_max, seed);
                over.of(hopscotch, hopscotch::records_max(moves_max).max(CHAIN_RECORDS))
            }
            Kind::Cuckoo24 => over.of(cuckoo(2, 4), moves_max + 1),
            Kind::Cuckoo28 => over.of(cuckoo(2, 8), moves_max + 1),
            Kind::Cuckoo34 => over.of(cuckoo(3, 4), moves_max + 1),
            Kind::Path => over.of(Path::new(slots, width, seed), 1),
            Kind::Pfht => over.of(Pfht::new(width, slots, stash, seed), pfht::RECORDS_MAX),
        }
    }
}

/// Memory for a table.
struct Over<M> {
    medium: Arc<M>,
    /// The words of the shape, to be written if the table is new.
    words: Option<[u64; SHAPE_WORDS]>,
    commit: Commit,
}

impl<M: Medium> Over<M> {
    fn of<S: Scheme + 'static>(
        self,
        scheme: S,
        records_max: u64,
    ) -> Result<Box<dyn Table>, OpenError> {
        let bytes = scheme.bytes();
        let region = match self.words {
            Some(words) => Region::create(self.medium, words, records_max, bytes)?,
            None => Region::open(self.medium, records_max, bytes)?,
        };
        Ok(Box::new(Baseline::of(region.committing(self.commit), scheme)))
    }
}

/// Creates a table on empty memory.
pub fn create<M: Medium>(medium: Arc<M>, shape: &Shape) -> Result<Box<dyn Table>, OpenError> {
    shape.over(medium, true, Commit::Logged)
}

/// Creates a table on empty memory whose changes have no log, for comparisons of time ([`crate::unlogged`]).
pub fn create_unlogged<M: Medium>(
    medium: Arc<M>,
    shape: &Shape,
) -> Result<Box<dyn Table>, OpenError> {
    shape.over(medium, true, Commit::Ordered)
}

/// Opens the table on `medium`, however its last use ended. What lies there is trusted to be a table.
pub fn open<M: Medium>(medium: Arc<M>) -> Result<Box<dyn Table>, OpenError> {
    Shape::on(&*medium)?.over(medium, false, Commit::Logged)
}
