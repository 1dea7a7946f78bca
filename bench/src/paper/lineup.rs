//! The tables that a measurement compares.

use super::Scene;
use crate::filling::{explained, fill};
use crate::keys::Keys;
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, bail};
use std::sync::Arc;

/// What some tables can do beyond being maps.
pub(crate) trait Handle: Send + Sync {
    /// Doubles the table, in this thread.
    fn double(&self) -> Result<()>;

    /// Whether it has a cached table.
    fn is_cached(&self) -> bool {
        false
    }

    /// Fills the cached table; returns whether that holds every pair then.
    fn refill(&self) -> bool {
        false
    }
}

/// A table, and the pairs in it.
pub(crate) struct Entrant {
    pub(crate) name: String,
    pub(crate) map: Box<dyn Map>,
    pub(crate) handle: Option<Arc<dyn Handle>>,
    /// Slots on which its load factor is based. One that grows has those of the others.
    pub(crate) capacity: u64,
    /// The keys that it may have: as many as it has room for.
    pub(crate) keys: Keys,
    /// It has this many of them: the first ones.
    pub(crate) pairs: u64,
}

/// A table that was opened for a setting.
pub(crate) type Opened = (Box<dyn Map>, Option<Arc<dyn Handle>>);

impl Entrant {
    /// A table with room for `capacity` pairs, or as much as it says it has.
    pub(crate) fn new(
        name: impl Into<String>,
        (map, handle): Opened,
        capacity: Option<u64>,
        seed: u64,
    ) -> Result<Entrant> {
        let known = || map.facts().map(|facts| facts.capacity);
        let capacity = capacity.or_else(known).context("a table that does not know its size")?;
        Ok(Entrant {
            name: name.into(),
            map,
            handle,
            capacity,
            keys: Keys::new(seed, capacity),
            pairs: 0,
        })
    }

    /// The largest empty table that the setting's pairs fill to at least `load_factor`; if there is none, the smallest.
    pub(crate) fn largest(
        name: impl Into<String>,
        setting: &Setting,
        load_factor: f64,
        open: &dyn Fn(&Setting) -> Result<Opened>,
    ) -> Result<Entrant> {
        let mut pairs = setting.pairs;
        loop {
            let opened = open(&Setting { capacity: pairs, grows: false, ..setting.clone() })?;
            let facts = opened.0.facts().context("a table that does not know its size")?;
            if facts.capacity as f64 * load_factor <= setting.pairs as f64 || pairs <= 1 {
                return Entrant::new(name, opened, None, setting.seed);
            }
            pairs /= 2;
        }
    }

    /// Inserts pairs up to this many, off the clock.
    pub(crate) fn fill(&mut self, pairs: u64, setting: &Setting) -> Result<()> {
        if pairs > self.pairs {
            let filled = fill(&self.map, self.keys, self.pairs..pairs, setting.threads);
            explained(&self.map, setting, filled)
                .with_context(|| format!("filling {} to {pairs} pairs", self.name))?;
            self.pairs = pairs;
        }
        Ok(())
    }

    /// The number of pairs at this load factor.
    pub(crate) fn pairs_at(&self, load_factor: f64) -> u64 {
        ((self.capacity as f64 * load_factor) as u64).max(1)
    }

    /// Whether it has a cached table.
    pub(crate) fn is_cached(&self) -> bool {
        self.handle.as_ref().is_some_and(|handle| handle.is_cached())
    }

    /// Doubles the table in this thread.
    pub(crate) fn double(&self) -> Result<()> {
        match &self.handle {
            Some(handle) => handle.double(),
            None => bail!("{} does not double when it is told to", self.name),
        }
    }

    /// A row of the table as it is.
    pub(crate) fn row(&self, paper: &'static str, op: &str, step: u32, setting: &Setting) -> Row {
        Row {
            pairs: Some(self.pairs),
            load_factor: Some(self.pairs as f64 / self.capacity as f64),
            step: Some(step),
            ..setting.row(paper, op, &self.name)
        }
    }
}

impl Scene<'_> {
    /// Tables of these names for the setting's capacity, of those that there are. All have as many pairs at a load
    /// factor as if they had `capacity` slots.
    pub(crate) fn lineup(
        &self,
        names: &[&str],
        setting: &Setting,
        capacity: u64,
    ) -> Result<Vec<Entrant>> {
        let there = names.iter().filter(|name| self.has(name, setting));
        let open = |name: &&str| {
            let map = self.open(name, setting)?;
            Entrant::new(*name, (map, None), Some(capacity), setting.seed)
        };
        there.map(open).collect()
    }
}
