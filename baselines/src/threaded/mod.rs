//! Growing hash tables for several threads, with which the papers compare.
//!
//! | name | table | file |
//! |---|---|---|
//! | `clht` | a bucket is a line, look-ups take no lock, the whole table is copied to grow | [`clht`] |
//! | `cceh` | extendible hashing: a directory of segments of lines, which are split one by one | [`cceh`] |
//! | `cmap` | lists behind buckets with locks; a new bucket is filled when it is first met | [`cmap`] |
//! | `dash-eh` | extendible hashing with fingerprints and stashes; look-ups write nothing | [`dash`] |
//!
//! Each is made as its paper has it, and made right where the published code is not. What differs is numbered in its
//! file. All have this in common: keys and values are words, and every bit pattern is legal. An operation that has
//! returned is durable, and what a look-up returns is, too: a look-up that may have met a change under way makes it
//! durable itself. A lock is a word of the table, in a line that its holder writes anyway. A crash may leave it taken,
//! and whoever opens the table releases it, or who first meets it then.
//!
//! They are for comparison, not for use. What lies on a medium is trusted to be a table.

pub mod cceh;
pub mod clht;
pub mod cmap;
pub mod dash;
mod ground;

pub use ground::{Ground, Step};

use crate::region::OpenError;
use ground::SHAPE_WORDS;
use pmem::{Medium, SpaceError};
use std::sync::Arc;

/// A hash table of words, used by any number of threads. What it returns is durable.
pub trait Threaded: Send + Sync {
    /// The value of `key`.
    fn get(&self, key: u64) -> Option<u64>;

    /// Stores the pair if `key` is absent. Returns the value that was there.
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, SpaceError>;

    /// Replaces the value if `key` is present. Returns the value before.
    fn update(&self, key: u64, value: u64) -> Option<u64>;

    /// Stores the pair. Returns the value before.
    fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, SpaceError>;

    /// Removes `key`. Returns its value.
    fn remove(&self, key: u64) -> Option<u64>;

    /// Gives `key` the state `new` if its state is `expected`. Returns the state before.
    fn exchange(
        &self,
        key: u64,
        expected: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, SpaceError>;

    /// Visits every pair, durable as it is shown. Beside others that change the table, a pair may be shown as it is at
    /// some time meanwhile, and one that they move may be left out or shown twice.
    fn for_each(&self, visit: &mut dyn FnMut(u64, u64));

    /// Pairs stored, counted by a walk. Nobody changes the table meanwhile.
    fn count(&self) -> u64 {
        let mut pairs = 0;
        self.for_each(&mut |_, _| pairs += 1);
        pairs
    }

    /// Slots, on which the load factor is based.
    fn capacity(&self) -> u64;

    /// Bytes of the table, without what it has outgrown.
    fn bytes(&self) -> u64;

    /// How often it has grown since it was opened: once for each part that was split, if it grows in parts.
    fn resizes(&self) -> u64;

    /// Verifies every invariant. Nobody changes the table meanwhile.
    fn check(&self) -> Result<(), String>;
}

/// A paper's way to place pairs.
pub trait Scheme<M: Medium>: Send + Sync + Sized {
    /// A key with another meaning in a slot. A pair of such a key never comes here.
    const MARK: Option<u64>;

    /// Makes an empty table, durably.
    fn create(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError>;

    /// Opens a table, however its last use ended. It ends with a fence: everything that the table relies on is durable
    /// then. No lock is taken any more, or none that is not released when it is first met.
    fn open(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError>;

    /// Like [`Threaded::get`].
    fn get(&self, ground: &Ground<M>, key: u64) -> Option<u64>;

    /// Does to `key` what `decide` says of its state, which nobody changes in between, and returns that state. An
    /// error has changed nothing. `decide` is asked again if the place of the key has changed, and the last answer
    /// counts.
    fn change(
        &self,
        ground: &Ground<M>,
        key: u64,
        decide: impl FnMut(Option<u64>) -> Step,
    ) -> Result<Option<u64>, SpaceError>;

    /// Like [`Threaded::for_each`].
    fn for_each(&self, ground: &Ground<M>, visit: &mut dyn FnMut(u64, u64));

    /// Like [`Threaded::capacity`].
    fn capacity(&self, ground: &Ground<M>) -> u64;

    /// Like [`Threaded::bytes`].
    fn bytes(&self, ground: &Ground<M>) -> u64;

    /// Like [`Threaded::resizes`].
    fn resizes(&self) -> u64;

    /// Verifies the invariants of the scheme. That each pair is found, and once, is verified elsewhere.
    fn check(&self, ground: &Ground<M>) -> Result<(), String>;
}

/// A table of one scheme.
struct Table<M, S> {
    ground: Ground<M>,
    scheme: S,
}

impl<M: Medium, S: Scheme<M>> Table<M, S> {
    #[inline(always)]
    fn change(
        &self,
        key: u64,
        decide: impl FnMut(Option<u64>) -> Step,
    ) -> Result<Option<u64>, SpaceError> {
        if S::MARK == Some(key) {
            return Ok(self.ground.change_marked(decide));
        }
        self.scheme.change(&self.ground, key, decide)
    }
}

impl<M: Medium, S: Scheme<M>> Threaded for Table<M, S> {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        if S::MARK == Some(key) {
            return self.ground.get_marked();
        }
        self.scheme.get(&self.ground, key)
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, SpaceError> {
        self.change(key, |found| if found.is_none() { Step::Put(value) } else { Step::Keep })
    }

    fn update(&self, key: u64, value: u64) -> Option<u64> {
        let changed =
            self.change(key, |found| if found.is_some() { Step::Put(value) } else { Step::Keep });
        changed.unwrap_or_default()
    }

    fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, SpaceError> {
        self.change(key, |_| Step::Put(value))
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.change(key, |_| Step::Remove).unwrap_or_default()
    }

    fn exchange(
        &self,
        key: u64,
        expected: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, SpaceError> {
        self.change(key, |found| match new {
            _ if found != expected => Step::Keep,
            Some(value) => Step::Put(value),
            None => Step::Remove,
        })
    }

    fn for_each(&self, visit: &mut dyn FnMut(u64, u64)) {
        if let Some((key, value)) = S::MARK.zip(self.ground.get_marked()) {
            visit(key, value);
        }
        self.scheme.for_each(&self.ground, visit);
    }

    fn capacity(&self) -> u64 {
        self.scheme.capacity(&self.ground)
    }

    fn bytes(&self) -> u64 {
        self.scheme.bytes(&self.ground)
    }

    fn resizes(&self) -> u64 {
        self.scheme.resizes()
    }

    fn check(&self) -> Result<(), String> {
        self.ground.check()?;
        self.scheme.check(&self.ground)?;
        let (mut keys, mut wrong) = (Vec::new(), None);
        self.for_each(&mut |key, value| {
            keys.push(key);
            let found = self.get(key);
            if found != Some(value) {
                wrong = Some(format!(
                    "key {key:#x} lies there with {value:#x}, and get finds {found:x?}"
                ));
            }
        });
        keys.sort_unstable();
        let twice = keys.windows(2).find(|pair| pair[0] == pair[1]);
        let twice = twice.map(|pair| format!("key {:#x} is there twice", pair[0]));
        wrong.or(twice).map_or(Ok(()), Err)
    }
}

/// A scheme by its number, which is part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// CLHT with locks, made persistent.
    Clht,
    /// CCEH, cacheline-conscious extendible hashing.
    Cceh,
    /// The concurrent hash map of libpmemobj-cpp.
    Cmap,
    /// Dash extendible hashing.
    Dash,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Clht, Kind::Cceh, Kind::Cmap, Kind::Dash];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Clht => "clht",
            Kind::Cceh => "cceh",
            Kind::Cmap => "cmap",
            Kind::Dash => "dash-eh",
        }
    }
}

/// The parameters with which a table is created. Its memory keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Which table.
    pub kind: Kind,
    /// log2 of its size at first. What it counts is the scheme's: buckets, or segments.
    pub size_log2: u32,
    /// log2 of the size of its parts: buckets of a segment, or lines of a chunk of nodes.
    pub part_log2: u32,
    /// Seed of hashing.
    pub seed: u64,
}

impl Shape {
    /// A table as its paper has it, that takes `pairs` before it grows.
    pub fn new(kind: Kind, pairs: u64, seed: u64) -> Shape {
        let (size_log2, part_log2) = match kind {
            Kind::Clht => (clht::size_log2(pairs), 0),
            Kind::Cceh => (cceh::size_log2(pairs), cceh::PART_LOG2),
            Kind::Cmap => cmap::size_logs2(pairs),
            Kind::Dash => (dash::size_log2(pairs), dash::PART_LOG2),
        };
        Shape { kind, size_log2, part_log2, seed }
    }

    /// The shape of the table that lies on `medium`.
    pub fn on<M: Medium>(medium: &M) -> Result<Shape, OpenError> {
        let (number, [size_log2, part_log2, seed, _]) = Ground::shape(medium)?;
        let is_kind = |kind: &Kind| *kind as u64 == number;
        let kind = Kind::ALL.into_iter().find(is_kind).ok_or(OpenError::Unknown(number))?;
        Ok(Shape { kind, size_log2: size_log2 as u32, part_log2: part_log2 as u32, seed })
    }

    fn words(&self) -> [u64; SHAPE_WORDS] {
        [self.size_log2.into(), self.part_log2.into(), self.seed, 0]
    }
}

/// Creates a table on empty memory.
pub fn create<M: Medium>(medium: Arc<M>, shape: &Shape) -> Result<Box<dyn Threaded>, OpenError> {
    match shape.kind {
        Kind::Clht => create_as::<M, clht::Clht>(medium, shape),
        Kind::Cceh => create_as::<M, cceh::Cceh>(medium, shape),
        Kind::Cmap => create_as::<M, cmap::Cmap>(medium, shape),
        Kind::Dash => create_as::<M, dash::Dash>(medium, shape),
    }
}

fn create_as<M: Medium, S: Scheme<M> + 'static>(
    medium: Arc<M>,
    shape: &Shape,
) -> Result<Box<dyn Threaded>, OpenError> {
    let ground = Ground::create(medium, shape.kind as u64, shape.words(), shape.seed);
    let ground = ground.map_err(OpenError::Space)?;
    let scheme = S::create(&ground, shape).map_err(OpenError::Space)?;
    ground.publish();
    Ok(Box::new(Table { ground, scheme }))
}

/// Opens the table on `medium`, however its last use ended.
pub fn open<M: Medium>(medium: Arc<M>) -> Result<Box<dyn Threaded>, OpenError> {
    let shape = Shape::on(&*medium)?;
    match shape.kind {
        Kind::Clht => open_as::<M, clht::Clht>(medium, &shape),
        Kind::Cceh => open_as::<M, cceh::Cceh>(medium, &shape),
        Kind::Cmap => open_as::<M, cmap::Cmap>(medium, &shape),
        Kind::Dash => open_as::<M, dash::Dash>(medium, &shape),
    }
}

fn open_as<M: Medium, S: Scheme<M> + 'static>(
    medium: Arc<M>,
    shape: &Shape,
) -> Result<Box<dyn Threaded>, OpenError> {
    let ground = Ground::open(medium, shape.seed).map_err(OpenError::Space)?;
    let scheme = S::open(&ground, shape).map_err(OpenError::Space)?;
    Ok(Box::new(Table { ground, scheme }))
}
