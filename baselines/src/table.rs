//! What all tables have in common: the trait, and everything that does not depend on the scheme.

use crate::region::{Change, Changes, Region};
use pmem::{Medium, Offset};

/// There is no room for a pair; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A hash table of words, used by one thread. What it returns is durable.
pub trait Table: Send + Sync {
    /// The value of `key`.
    fn get(&self, key: u64) -> Option<u64>;

    /// Stores the pair if `key` is absent. Returns the value that was there.
    fn insert(&mut self, key: u64, value: u64) -> Result<Option<u64>, Full>;

    /// Replaces the value if `key` is present. Returns the value before.
    fn update(&mut self, key: u64, value: u64) -> Option<u64>;

    /// Removes `key`. Returns its value.
    fn remove(&mut self, key: u64) -> Option<u64>;

    /// Pairs stored.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots on which the load factor is based, without a stash.
    fn capacity(&self) -> u64;

    /// Bytes of the table, including a stash. The log is not included, since it is as large for a table of any size.
    fn bytes(&self) -> u64;

    /// Pairs in the stash, if there is one.
    fn stashed(&self) -> u64;

    /// What changes have written since the table was opened.
    fn changes(&self) -> Changes;

    /// Visits every pair.
    fn for_each(&self, visit: &mut dyn FnMut(u64, u64));

    /// Verifies every invariant.
    fn check(&self) -> Result<(), String>;
}

/// The key of an empty slot, if a scheme has empty slots.
pub(crate) const EMPTY: u64 = 0;

/// A paper's way to place pairs. A pair is 16 aligned bytes wherever it lies: the key, then the value.
///
/// Changes are set in a transaction that the caller begins and ends.
pub trait Scheme: Send + Sync {
    /// Keys with another meaning in a slot. A pair of such a key never comes here: it lies in a cell beside the table.
    const MARKS: &'static [u64];

    /// Where the pair of `key` lies.
    fn find<M: Medium>(&self, region: &Region<M>, key: u64) -> Option<Offset>;

    /// Sets the cells that store a pair whose key is absent. On `Full` the caller forgets what was set.
    fn place<M: Medium>(
        &mut self,
        region: &mut Region<M>,
        key: u64,
        value: u64,
    ) -> Result<(), Full>;

    /// Sets the cells that remove the pair of `key`, which lies at `at`.
    fn erase<M: Medium>(&mut self, region: &mut Region<M>, key: u64, at: Offset);

    /// Visits where each pair lies.
    fn for_each<M: Medium>(&self, region: &Region<M>, visit: &mut dyn FnMut(Offset));

    /// Verifies the invariants of the scheme alone.
    fn check<M: Medium>(&self, _region: &Region<M>) -> Result<(), String> {
        Ok(())
    }

    /// Like [`Table::capacity`].
    fn capacity(&self) -> u64;

    /// Like [`Table::bytes`].
    fn bytes(&self) -> u64;

    /// Like [`Table::stashed`].
    fn stashed(&self) -> u64 {
        0
    }

    /// Reads what the shape does not contain, when the table is opened.
    fn opened<M: Medium>(&mut self, _region: &Region<M>) {}
}

/// A table of one scheme.
#[derive(Debug)]
pub struct Baseline<M, S> {
    region: Region<M>,
    scheme: S,
    /// Counted on opening: a stored count would be one more cell in each transaction.
    len: u64,
}

/// First word of a mark's cell, if there is a pair.
const PRESENT: u64 = 1;

impl<M: Medium, S: Scheme> Baseline<M, S> {
    /// The table in `region`.
    pub fn of(region: Region<M>, mut scheme: S) -> Self {
        scheme.opened(&region);
        let mut baseline = Baseline { region, scheme, len: 0 };
        let mut len = 0;
        baseline.for_each(&mut |_, _| len += 1);
        baseline.len = len;
        baseline
    }

    #[inline(always)]
    fn mark(key: u64) -> Option<usize> {
        S::MARKS.iter().position(|&mark| mark == key)
    }

    /// The cell of a mark, if it holds a pair.
    #[inline]
    fn find_aside(&self, mark: usize) -> Option<Offset> {
        let cell = self.region.aside(mark);
        (self.region.load(cell) == PRESENT).then_some(cell)
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Option<Offset> {
        match Self::mark(key) {
            None => self.scheme.find(&self.region, key),
            Some(mark) => self.find_aside(mark),
        }
    }
}

impl<M: Medium, S: Scheme> Table for Baseline<M, S> {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        Some(self.region.load(self.find(key)?.word(1)))
    }

    fn insert(&mut self, key: u64, value: u64) -> Result<Option<u64>, Full> {
        if let Some(at) = self.find(key) {
            return Ok(Some(self.region.load(at.word(1))));
        }
        match Self::mark(key) {
            Some(mark) => self.region.set_pair(self.region.aside(mark), PRESENT, value),
            None => {
                if let Err(full) = self.scheme.place(&mut self.region, key, value) {
                    self.region.abandon();
                    return Err(full);
                }
            }
        }
        self.region.commit(Change::Insert);
        self.len += 1;
        Ok(None)
    }

    fn update(&mut self, key: u64, value: u64) -> Option<u64> {
        let at = self.find(key)?;
        let (first, before) = self.region.load_pair(at);
        self.region.set_pair(at, first, value);
        self.region.commit(Change::Update);
        Some(before)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        let at = self.find(key)?;
        let value = self.region.load(at.word(1));
        match Self::mark(key) {
            Some(_) => self.region.set_pair(at, 0, 0),
            None => self.scheme.erase(&mut self.region, key, at),
        }
        self.region.commit(Change::Remove);
        self.len -= 1;
        Some(value)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn capacity(&self) -> u64 {
        self.scheme.capacity()
    }

    fn bytes(&self) -> u64 {
        self.scheme.bytes()
    }

    fn stashed(&self) -> u64 {
        self.scheme.stashed()
    }

    fn changes(&self) -> Changes {
        self.region.changes()
    }

    fn for_each(&self, visit: &mut dyn FnMut(u64, u64)) {
        for (mark, &key) in S::MARKS.iter().enumerate() {
            if let Some(at) = self.find_aside(mark) {
                visit(key, self.region.load(at.word(1)));
            }
        }
        self.scheme.for_each(&self.region, &mut |at| {
            let (key, value) = self.region.load_pair(at);
            visit(key, value);
        });
    }

    fn check(&self) -> Result<(), String> {
        self.region.check()?;
        self.scheme.check(&self.region)?;
        let (mut pairs, mut lost) = (0, None);
        self.scheme.for_each(&self.region, &mut |at| {
            pairs += 1;
            let key = self.region.load(at);
            let found = self.scheme.find(&self.region, key);
            if found != Some(at) {
                lost = Some(format!("key {key:#x} lies at {at}, and is looked for at {found:?}"));
            }
        });
        let aside = (0..S::MARKS.len()).filter(|&mark| self.find_aside(mark).is_some());
        let counted = pairs + aside.count() as u64;
        match lost {
            Some(lost) => Err(lost),
            None if counted != self.len => {
                Err(format!("{counted} pairs are there, {} were counted", self.len))
            }
            None => Ok(()),
        }
    }
}
