//! The pool alone: extents handed out and roots changed, without an engine.

use super::{Failed, Refusal, Setup, Subject, place, read_only, spec, sync};
use crate::history::{Action, Key, Value};
use pmem::medium::sim::Sim;
use pmem::pool::note_extent;
use pmem::superblock::{PoolKind, SUPERBLOCK_BYTES};
use pmem::{Offset, Pool};

/// A pool whose engine roots are the keys. A change takes an extent, too, whose size depends on
/// what is stored; so extents and roots must change together. It has a note, which it was made with.
pub struct PoolSubject(Pool<Sim>);

const OWNER: u8 = 9;
/// The root that says that the note is there. The others are keys.
const MADE: usize = 9;
/// Longer than a line, with the word before it.
const NOTE: &[u8] =
    b"a note of more than a line: whoever opens the pool finds all of it or nothing";

impl PoolSubject {
    /// Its name on the command line.
    pub const NAME: &'static str = "pool";

    fn state(&self, key: Key) -> Option<Value> {
        (self.0.superblock().engine_roots[usize::from(key)] as Value).checked_sub(1)
    }
}

impl Subject for PoolSubject {
    fn name(_setup: &Setup) -> String {
        PoolSubject::NAME.into()
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let spec = spec(setup, PoolKind::Table, 1, [0; 16]);
        let pool = Pool::create(medium, &spec, place(0))?;
        let written = pool.write().map_err(|error| Refusal::Wrong(error.to_string()))?;
        pool.set_note(NOTE).map_err(|error| Refusal::Wrong(error.to_string()))?;
        let made = pool.extend(|draft| {
            draft.engine_roots()[MADE] = 1;
            Ok(())
        });
        made.map_err(|error| Refusal::Wrong(error.to_string()))?;
        drop(written);
        Ok(PoolSubject(pool))
    }

    fn open(medium: Sim, _setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        Ok(PoolSubject(Pool::open(medium, place(boot))?))
    }

    fn open_read_only(medium: Sim, _setup: &Setup) -> Result<Self, Refusal> {
        Ok(PoolSubject(read_only(medium)?))
    }

    fn sync(&self) -> Result<(), String> {
        sync(self, &self.0)
    }

    fn call(&self, _setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let found = self.state(key);
        let next = action.apply(found);
        if next == found {
            return Ok(found);
        }
        let _write = self.0.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        // Decided under the superblock's lock, so that concurrent changes do not mix.
        let mut found = None;
        self.0.extend(|draft| {
            let root = &mut draft.engine_roots()[usize::from(key)];
            found = (*root as Value).checked_sub(1);
            let next = action.apply(found);
            *root = next.map_or(0, |value| u64::from(value) + 1);
            if next.is_some() && next != found {
                draft.take_extent(OWNER, 0, 64 + u64::from(next.unwrap_or(0)) % 3 * 64)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn wait_for_writers(&self) {
        self.0.wait_for_writers();
    }

    fn medium(&self) -> &Sim {
        self.0.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let keys = 0..setup.keys.len() as Key;
        Ok(keys.filter_map(|key| Some((key, self.state(key)?))).collect())
    }

    fn check(&self) -> Result<(), String> {
        let superblock = self.0.superblock();
        let last = superblock.extents.iter().map(|extent| extent.end()).max();
        let end = last.unwrap_or(SUPERBLOCK_BYTES);
        match self.0.medium() {
            medium if pmem::Medium::size(medium) < end => {
                Err(format!("the extents end at {end:#x}, beyond the pool's memory"))
            }
            medium => {
                let load = |at| pmem::Medium::load(medium, at);
                let note = note_extent(&superblock);
                let found = self.0.note();
                // A crash amid its creation leaves a pool without the root that comes behind the note.
                let is_made = superblock.engine_roots[MADE] != 0;
                let begun = note.is_some_and(|extent| load(extent.start) != 0);
                if found.as_deref() != Some(NOTE) && (is_made || begun || found.is_some()) {
                    return Err("its note is not the one that it was made with".into());
                }
                // A fresh extent is zero.
                let is_note = |at: Offset| note.is_some_and(|it| it.start <= at && at.0 < it.end());
                let words = SUPERBLOCK_BYTES / 8..end / 8;
                let dirty =
                    words.map(|word| Offset(word * 8)).find(|&at| !is_note(at) && load(at) != 0);
                dirty.map_or(Ok(()), |at| Err(format!("the extent at {at} is not zero")))
            }
        }
    }
}
