//! A pool: superblock, extents, and who may write.
//!
//! Every change of the superblock writes and persists one copy, then the other. After a crash at any point one copy is
//! whole: the new one if the first persist was complete, otherwise the old one.

mod beside;
mod clean;
mod copies;
mod damage;
mod gate;
mod holes;
mod logged;
mod note;
mod room;

use crate::error::{Damage, OpenError, SpaceError};
use crate::medium::{Medium, MediumKind, written_over};
use crate::offset::{HUGE_PAGE_BYTES, LINE, Offset, WORD};
use crate::superblock::{
    COPY_BYTES, COPY_WORDS, ENGINE_PARAMS, ENGINE_ROOTS, EXTENTS_MAX, Extent, HEAP, Place,
    PoolKind, SUPERBLOCK_BYTES, Superblock,
};
use crate::sync::{self, AtomicU64, Mutex};
use crate::view::View;
use copies::{read_copy, write_copies, write_copy};
use gate::GateState;
pub use gate::{Gate, Write};
use holes::Holes;
pub use note::{NOTE_BYTES_MAX, note_extent, note_in};
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Others begin at multiples of no more than this, the largest bucket: aligned to their size, those of a small pool
/// would leave holes.
const EXTENT_ALIGN_SMALL: u64 = 256;

/// Words of a line.
const LINE_WORDS: usize = (LINE / WORD) as usize;

/// What a new pool should be.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What the pool holds.
    pub kind: PoolKind,
    /// Number of the engine.
    pub engine: u32,
    /// Size of a key in bytes; 0 for byte strings.
    pub key_bytes: u32,
    /// Size of a value in bytes; 0 for byte strings.
    pub value_bytes: u32,
    /// Number of the hash function.
    pub hash_id: u32,
    /// Seed of the hash function.
    pub hash_seed: u64,
    /// Random identity of the pool.
    pub uuid: u128,
    /// log2 of the size of the heap's segments in bytes.
    pub segment_log2: u32,
    /// The engine's parameters.
    pub engine_params: [u64; ENGINE_PARAMS],
}

/// Why a mutation may not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The pool was opened for reading only.
    #[error("the pool was opened read-only; open it for writing to change it")]
    ReadOnly,
    /// The superblock could not be marked dirty.
    #[error("the pool could not be marked as being written: {0}")]
    Io(#[from] io::Error),
}

/// An open pool on medium `M`.
#[derive(Debug)]
pub struct Pool<M: Medium> {
    medium: M,
    superblock: Mutex<Superblock>,
    /// Serialises sync, close and the first write after a sync.
    transition: Mutex<()>,
    gate: Arc<Gate>,
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    uuid: u128,
    place: Place,
    /// Number of pairs recorded in the pool when it was opened clean.
    recorded_pairs: Option<u64>,
    /// Number of pairs to record when the pool is closed. At first it is the recorded one, so that a pool whose table
    /// turns out to be damaged keeps saying what it should hold.
    pairs_to_record: Mutex<Option<u64>>,
    /// First record of free slots, and the sequence number that it names, if the pool was opened clean and says so.
    recorded_free_slots: Option<(Offset, u64)>,
    free_slots_to_record: Mutex<Option<Offset>>,
    /// See [`Pool::refuse`].
    damage: Mutex<Option<Damage>>,
    forks_at_open: u32,
    /// Up to where memory was requested to be prepared.
    prepared: AtomicU64,
    /// Up to where memory may be prepared beyond the end.
    prepared_max: AtomicU64,
    /// Beyond the end, what has no space any more. Changes under the superblock's lock.
    hollow: Mutex<Range<u64>>,
    /// What has no space any more before the end. Held by who reads the whole pool, too.
    holes: Mutex<Holes>,
    /// See [`Pool::show_by`].
    view: OnceLock<Arc<View>>,
}

/// What a clean pool says of itself.
#[derive(Debug, Default)]
struct Recorded {
    pairs: Option<u64>,
    free_slots: Option<(Offset, u64)>,
}

impl Recorded {
    fn of(superblock: &Superblock) -> Recorded {
        let free_slots = superblock.free_slots().map(|first| (first, superblock.sequence));
        Recorded { pairs: superblock.pairs(), free_slots }
    }
}

/// Changes to the superblock that become effective together.
#[derive(Debug)]
pub struct Draft {
    superblock: Superblock,
}

impl Draft {
    fn of(superblock: &Superblock) -> Draft {
        Draft { superblock: superblock.clone() }
    }

    /// Hands out an extent of `bytes` zero bytes. It begins at a multiple of a line, of 256 bytes if it is that
    /// large, and of a huge page if it is as large as one. Like everything in a draft, it takes effect only when the
    /// draft is committed.
    pub fn take_extent(&mut self, owner: u8, index: u8, bytes: u64) -> Result<Extent, SpaceError> {
        let align = match bytes {
            HUGE_PAGE_BYTES.. => HUGE_PAGE_BYTES,
            _ => bytes.next_power_of_two().min(EXTENT_ALIGN_SMALL),
        };
        self.take_aligned_extent(owner, index, bytes, align)
    }

    /// As [`Draft::take_extent`], at a multiple of `align` bytes, a power of two.
    pub fn take_aligned_extent(
        &mut self,
        owner: u8,
        index: u8,
        bytes: u64,
        align: u64,
    ) -> Result<Extent, SpaceError> {
        let superblock = &mut self.superblock;
        let align = align.clamp(crate::LINE, HUGE_PAGE_BYTES);
        let start = superblock.end.next_multiple_of(align);
        let needed_bytes = start.saturating_add(bytes);
        if superblock.extents.len() == EXTENTS_MAX {
            let reason = format!(
                "it has {EXTENTS_MAX} extents, the most that can be recorded: copy it into a new pool"
            );
            return Err(SpaceError::Full { needed_bytes, reason });
        }
        let extent = Extent { owner, index, start: Offset(start), bytes };
        superblock.extents.push(extent);
        superblock.end = needed_bytes;
        Ok(extent)
    }

    /// Lengthens the extent with which the pool ends by `bytes` zero bytes, if it ends with one.
    pub fn lengthen_last(&mut self, bytes: u64) {
        let end = self.superblock.end;
        let ends_the_pool = |extent: &&mut Extent| extent.end() == end;
        if let Some(last) = self.superblock.extents.iter_mut().find(ends_the_pool) {
            last.bytes = last.bytes.saturating_add(bytes);
            self.superblock.end = end.saturating_add(bytes);
        }
    }

    /// The extent with which the pool ends.
    pub fn last_extent(&self) -> Option<Extent> {
        self.superblock.last_extent()
    }

    /// How many extents an owner has.
    pub fn extents_of(&self, owner: u8) -> usize {
        self.superblock.extents.iter().filter(|extent| extent.owner == owner).count()
    }

    /// The pool's end: the next extent begins there, or where its alignment allows.
    pub fn end(&self) -> u64 {
        self.superblock.end
    }

    /// Records whether no pair of the table is on its way: see [`Superblock::is_at_rest`].
    pub fn set_at_rest(&mut self, is_at_rest: bool) {
        self.superblock.set_at_rest(is_at_rest);
    }

    /// The engine's roots, for changing.
    pub fn engine_roots(&mut self) -> &mut [u64; ENGINE_ROOTS] {
        &mut self.superblock.engine_roots
    }
}

impl<M: Medium> Pool<M> {
    /// Makes a pool on an empty medium. A crash at any point leaves no valid superblock, or a whole empty pool.
    #[inline(never)]
    pub fn create(medium: M, spec: &Spec, place: Place) -> Result<Self, OpenError> {
        medium.grow(SUPERBLOCK_BYTES)?;
        let superblock = Superblock {
            sequence: 1,
            features_compatible: 0,
            features_read_only: 0,
            features_incompatible: 0,
            uuid: spec.uuid,
            incarnation: 1,
            kind: spec.kind,
            engine: spec.engine,
            key_bytes: spec.key_bytes,
            value_bytes: spec.value_bytes,
            hash_id: spec.hash_id,
            hash_seed: spec.hash_seed,
            clean: false,
            medium: medium.kind(),
            place,
            end: SUPERBLOCK_BYTES,
            segment_log2: spec.segment_log2,
            typed_roots: Default::default(),
            engine_params: spec.engine_params,
            engine_roots: [0; ENGINE_ROOTS],
            extents: Vec::new(),
        };
        write_copies(&medium, &superblock);
        sync_superblock(&medium)?;
        Self::assemble(medium, superblock, Recorded::default(), place, GateState::Open)
    }

    /// Opens the pool on `medium` for writing: marks it dirty, with this place and a new
    /// incarnation, before anything else is stored.
    #[inline(never)]
    pub fn open(medium: M, place: Place) -> Result<Self, OpenError> {
        let (mut superblock, repair) = Self::read(&medium)?;
        superblock.check_state(&place)?;
        superblock.check_writable()?;
        medium.grow(superblock.end)?;
        if medium.kind() == MediumKind::Dax && place.may_be_same_boot(&superblock.place) {
            // A killed process leaves stores in the processors' caches, where recovery sees them
            // and nobody would flush them any more: what is built on them must not outlive them.
            // That goes for the superblock first: the copy chosen above may be durable in part
            // only, and the other one is about to be written. It is all that may be in the caches if
            // it says clean: the process was killed while it said so.
            let end = if superblock.clean { SUPERBLOCK_BYTES } else { superblock.end };
            medium.flush_range(Offset(0), end);
            medium.fence();
        }
        if let Some(copy) = repair {
            // Before the good copy is written: a crash must never meet two bad ones.
            write_copy(&medium, &superblock, copy as u64);
        }
        let recorded = Recorded::of(&superblock);
        superblock.advance(false, None);
        superblock.incarnation += 1;
        superblock.medium = medium.kind();
        superblock.place = place;
        write_copies(&medium, &superblock);
        // Guests of a former owner see what it showed, until they see this.
        sync::fence(sync::Ordering::SeqCst);
        sync_superblock(&medium)?;
        Self::assemble(medium, superblock, recorded, place, GateState::Open)
    }

    /// Records that the restored pool on `medium` is in its proper place: so far it bears the place and the time of its
    /// checkpoint. Also marks it dirty, whatever it was then. Nothing of it has reached the device yet. After a power
    /// loss it must not count, but be restored once more, from the same checkpoint, whose log is of this generation.
    #[inline(never)]
    pub fn adopt(medium: &M, place: Place, generation: u128) -> Result<(), OpenError> {
        let (mut superblock, _) = Self::read(medium)?;
        medium.grow(superblock.end)?;
        superblock.advance(false, None);
        superblock.place = place;
        superblock.set_checkpoints(Some(generation), None);
        write_copies(medium, &superblock);
        Ok(())
    }

    /// Makes a separate pool from a copy of another one's image: with this identity, without a log, and dirty. The
    /// requested durability stays.
    #[inline(never)]
    pub fn adopt_copy(medium: &M, place: Place, uuid: u128) -> Result<(), OpenError> {
        let (mut superblock, _) = Self::read(medium)?;
        medium.grow(superblock.end)?;
        superblock.advance(false, None);
        superblock.set_logged(None);
        superblock.place = place;
        superblock.uuid = uuid;
        write_copies(medium, &superblock);
        Ok(())
    }

    /// Opens a cleanly closed pool for reading; changes nothing in it.
    #[inline(never)]
    pub fn open_read_only(medium: M, place: Place) -> Result<Self, OpenError> {
        let (superblock, _) = Self::read(&medium)?;
        if !superblock.clean {
            superblock.check_state(&place)?;
            return Err(OpenError::NeedsRecovery);
        }
        let recorded = Recorded::of(&superblock);
        Self::assemble(medium, superblock, recorded, place, GateState::ReadOnly)
    }

    fn read(medium: &M) -> Result<(Superblock, Option<usize>), OpenError> {
        let size = medium.size();
        let mut copies = [[0; COPY_WORDS]; 2];
        let mut present = [false; 2];
        for (index, copy) in copies.iter_mut().enumerate() {
            let start = index as u64 * COPY_BYTES;
            present[index] = start + COPY_BYTES <= size;
            if present[index] {
                *copy = read_copy(medium, Offset(start));
            }
        }
        let [a, b] = &copies;
        Superblock::choose([present[0].then_some(a), present[1].then_some(b)])
    }

    fn assemble(
        medium: M,
        superblock: Superblock,
        Recorded { pairs: recorded_pairs, free_slots: recorded_free_slots }: Recorded,
        place: Place,
        state: GateState,
    ) -> Result<Self, OpenError> {
        sync::register_process();
        let gate = Arc::new(Gate::new(state).map_err(out_of_memory)?);
        Ok(Pool {
            medium,
            #[cfg(not(any(feature = "simulated", feature = "loom")))]
            uuid: superblock.uuid,
            superblock: Mutex::new(superblock),
            transition: Mutex::new(()),
            gate,
            place,
            recorded_pairs,
            pairs_to_record: Mutex::new(recorded_pairs),
            recorded_free_slots,
            free_slots_to_record: Mutex::default(),
            damage: Mutex::default(),
            forks_at_open: sync::forks(),
            prepared: AtomicU64::new(0),
            prepared_max: AtomicU64::new(u64::MAX),
            hollow: Mutex::default(),
            holes: Mutex::default(),
            view: OnceLock::new(),
        })
    }

    /// The memory of the pool.
    #[inline(always)]
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The current superblock.
    #[inline(never)]
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().clone()
    }

    /// Whether the pool was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.gate.state() == GateState::ReadOnly
    }

    /// Whether this process inherited the pool by fork, and so must not use it: its sidecars are outdated copies.
    #[inline(always)]
    pub fn is_inherited(&self) -> bool {
        sync::forks() != self.forks_at_open
    }

    /// The right to change the pool. Waits only while a sync marks the pool clean.
    #[inline(always)]
    pub fn write(&self) -> Result<Write<'_>, WriteError> {
        loop {
            match self.gate.enter() {
                Some(write) => return Ok(write),
                None => self.reopen_gate()?,
            }
        }
    }

    /// The gate that [`Pool::write`] passes, for callers that do not want to depend on the medium.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    #[cold]
    #[inline(never)]
    fn reopen_gate(&self) -> Result<(), WriteError> {
        match self.gate.state() {
            GateState::ReadOnly => Err(WriteError::ReadOnly),
            GateState::Open => Ok(()),
            GateState::Syncing | GateState::Clean => {
                let _transition = self.transition.lock();
                if self.gate.state() == GateState::Clean {
                    self.mark(false, None, None)?;
                    self.gate.set(GateState::Open);
                }
                Ok(())
            }
        }
    }

    /// Waits until all present holders of the right to write have given it back. Others may take it and give it back
    /// meanwhile.
    pub fn wait_for_writers(&self) {
        self.gate.wait_for_writers();
    }

    /// Runs `look` while no thread has the right to write, so that numbers of pairs are exact. A thread that has that
    /// right must not call this.
    pub fn at_rest<R>(&self, look: impl FnOnce() -> R) -> R {
        let _transition = self.transition.lock();
        if self.gate.state() != GateState::Open {
            return look();
        }
        self.gate.close();
        let seen = look();
        self.gate.set(GateState::Open);
        seen
    }

    /// The number of pairs that the pool held when it was closed, if it was opened clean and has a record of that.
    pub fn recorded_pairs(&self) -> Option<u64> {
        self.recorded_pairs
    }

    /// Sets the number of pairs to record when the pool is closed; `None` if pairs may come and go until then. An
    /// opening for writing sets `None` before any pair changes.
    pub fn record_pairs(&self, pairs: Option<u64>) {
        *self.pairs_to_record.lock() = pairs;
    }

    /// The first record of free slots of the heap, and the sequence number that records name, if the pool was opened
    /// clean and has such records.
    pub(crate) fn recorded_free_slots(&self) -> Option<(Offset, u64)> {
        self.recorded_free_slots
    }

    /// Sets the first record that a close is to name.
    pub(crate) fn record_free_slots(&self, first: Option<Offset>) {
        *self.free_slots_to_record.lock() = first;
    }

    /// Changes the superblock: takes extents, changes roots. Either all of it takes effect or nothing. It is durable
    /// when this returns. Needs the right to write.
    pub fn extend<R>(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<R, SpaceError>,
    ) -> Result<R, SpaceError> {
        let mut current = self.superblock.lock();
        let mut draft = Draft::of(&current);
        let result = change(&mut draft)?;
        self.commit(&mut current, draft)?;
        Ok(result)
    }

    /// Bytes by which [`Pool::extend`] would make the pool longer with this change.
    pub fn bytes_of<R>(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<R, SpaceError>,
    ) -> Result<u64, SpaceError> {
        let mut draft = Draft::of(&self.superblock.lock());
        let end = draft.end();
        change(&mut draft)?;
        Ok(draft.end() - end)
    }

    /// Replaces the superblock in effect, with memory behind all of it.
    #[inline(never)]
    fn commit(&self, current: &mut Superblock, draft: Draft) -> Result<(), SpaceError> {
        let Draft { superblock: mut new } = draft;
        let io = |source| SpaceError::Io { needed_bytes: new.end, source };
        self.demand_own(current).map_err(io)?;
        // Memory comes first: an extent on record without memory behind it would fault.
        self.grow_amply(new.end)?;
        self.fill_hollow(new.end)?;
        new.sequence += 1;
        write_copies(&self.medium, &new);
        *current = new;
        Ok(())
    }

    /// An error if another program has put something else into the file: whatever that is, it does not begin with the
    /// superblock that was written last. From then on the pool has failed, so that neither its log nor a checkpoint
    /// takes over what is there.
    #[inline(never)]
    fn demand_own(&self, current: &Superblock) -> io::Result<()> {
        if read_copy(&self.medium, Offset(0)) == *current.encode() {
            return Ok(());
        }
        self.medium.fail();
        Err(written_over())
    }

    /// As [`Pool::extend`] does before it changes anything, looks whether the file is still this pool's.
    #[inline(never)]
    pub fn look_at_file(&self) -> io::Result<()> {
        if self.is_read_only() {
            // Its first copy may be one that nobody has repaired.
            return Ok(());
        }
        self.demand_own(&self.superblock.lock())
    }

    /// The extent with which the pool ends.
    #[inline(never)]
    pub fn last_extent(&self) -> Option<Extent> {
        self.superblock.lock().last_extent()
    }

    /// Says that an engine is about to read all that it has, whatever its slots lead to.
    #[inline(never)]
    pub fn read_index_ahead(&self) {
        let extents: Vec<Extent> = self.superblock.lock().extents.to_vec();
        for extent in extents.into_iter().filter(|extent| extent.owner != HEAP) {
            self.medium.read_ahead(extent.start.0..extent.end());
        }
    }

    /// Extents of one owner, by index.
    #[inline(never)]
    pub fn extents_of(&self, owner: u8) -> Vec<Extent> {
        let mut extents: Vec<Extent> = self
            .superblock
            .lock()
            .extents
            .iter()
            .filter(|extent| extent.owner == owner)
            .copied()
            .collect();
        extents.sort_by_key(|extent| extent.index);
        extents
    }
}

impl<M: Medium> Drop for Pool<M> {
    fn drop(&mut self) {
        if !self.is_inherited() {
            // Nobody is left to tell; a pool that could not be marked clean is dirty, and says so
            // when it is opened next.
            if self.close().is_ok() && self.gate.state() == GateState::Clean {
                self.medium.cut(self.superblock.lock().end);
            }
        }
    }
}

fn sync_superblock<M: Medium>(medium: &M) -> Result<(), OpenError> {
    medium.sync(0..SUPERBLOCK_BYTES).map_err(|source| OpenError::Io {
        action: "syncing",
        path: "the pool".into(),
        source,
    })
}

fn out_of_memory(source: io::Error) -> OpenError {
    OpenError::Io { action: "reserving memory for", path: "the pool".into(), source }
}

#[cfg(all(test, not(any(feature = "simulated", feature = "loom"))))]
mod image_tests;
#[cfg(test)]
pub(crate) mod tests;
