//! What the owner of a pool lets its guests see by themselves: the sidecar that look-ups read, in memory that they
//! share. Guests only read. So nothing that they do, and no end of theirs, is ever seen in it.
//!
//! ```text
//! line 0  state: SHOWN and a word of the engine's, 0 while look-ups are to be left to the owner, or 1 for good
//!      1  epoch: never smaller than that of the owner's items
//!      2  bytes of each part
//!      3  notes, as the engine has them
//!    512  parts: arrays of the engine's
//! ```
//!
//! A guest's look-up is one between two looks:
//!
//! 1. It [looks](View::look) at state and epoch. The engine's word tells where keys are.
//! 2. It searches, and copies what it finds. All of that may be nonsense.
//! 3. It looks again. If [nothing has changed](View::is_as), what it has read was there.
//!
//! The engine hides the view before it moves pairs, and shows another word afterwards.
//!
//! Items need the epoch. An item that a guest finds in a slot is linked then. Who unlinks it is pinned, and reads the
//! epoch of the items, *e*, behind that; until it unpins, that epoch grows to *e* + 1 and no further (see
//! [`epoch`](crate::epoch)). The epoch here grows first, so it was *e* + 2 at most when the guest looked. The space is
//! used again when the epoch of the items is *e* + 3, and the one here is no less. So if that is the same as before the
//! slot was read, nobody has stored anything else there.
//!
//! Guests pin nothing: a guest that stops or dies holds no space back. The price is that a look-up whose copy takes
//! long may have to be asked of the owner.

use crate::sync::{Array, AtomicU64, Line, Ordering, Zeroable, fence};
use std::io;

#[cfg(not(feature = "loom"))]
use crate::sync::Shared;
#[cfg(not(feature = "loom"))]
use std::sync::Arc;

/// Most parts of a view.
pub const PARTS_MAX: usize = 8;
/// Notes of a view.
pub const NOTES: usize = 8 * (HEAD_LINES - FIRST_NOTES);

const HEAD_LINES: usize = 64;
const STATE: usize = 0;
const EPOCH: usize = 1;
const SIZES: usize = 2;
const FIRST_NOTES: usize = 3;
/// Parts begin at multiples of this: of huge pages.
#[cfg(not(any(feature = "simulated", feature = "loom")))]
const PART_ALIGN: usize = crate::offset::HUGE_PAGE_BYTES as usize;
#[cfg(any(feature = "simulated", feature = "loom"))]
const PART_ALIGN: usize = 4096;

/// Bit of the state. No word of an engine has it.
pub const SHOWN: u64 = 1 << 63;
/// The state in the end.
const CLOSED: u64 = 1;

/// See the [module](self).
#[derive(Debug)]
pub struct View {
    head: Array<Line>,
    #[cfg(not(feature = "loom"))]
    memory: Arc<Shared>,
    /// Bytes of each part, as they were when the view was made or entered.
    #[cfg(not(feature = "loom"))]
    sizes: [usize; PARTS_MAX],
    /// The owner's, for guests.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    descriptor: Option<std::os::fd::OwnedFd>,
}

/// What a guest saw at the beginning of a look-up.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    state: u64,
    epoch: u64,
}

impl Look {
    /// The engine's word, and the highest bit.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.state
    }
}

/// Where each part begins, and where the last one ends; `None` if that is more than can be addressed.
fn places(part_bytes: &[usize; PARTS_MAX]) -> Option<[usize; PARTS_MAX + 1]> {
    let mut places = [PART_ALIGN; PARTS_MAX + 1];
    for (part, bytes) in part_bytes.iter().enumerate() {
        let end = places[part].checked_add(*bytes)?;
        places[part + 1] = end.checked_next_multiple_of(PART_ALIGN)?;
    }
    (places[PARTS_MAX] <= isize::MAX as usize).then_some(places)
}

impl View {
    /// The owner's: with parts of so many bytes, all of them zero, and hidden.
    ///
    /// # Panics
    ///
    /// If these are more than [`PARTS_MAX`].
    pub fn make(part_bytes: &[usize]) -> io::Result<View> {
        let mut sizes = [0; PARTS_MAX];
        sizes[..part_bytes.len()].copy_from_slice(part_bytes);
        let places = places(&sizes).ok_or(io::ErrorKind::OutOfMemory)?;
        let view = View::of(places[PARTS_MAX], sizes)?;
        for (word, bytes) in view.line(SIZES).0.iter().zip(sizes) {
            word.store(bytes as u64, Ordering::Relaxed);
        }
        Ok(view)
    }

    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    fn of(bytes: usize, sizes: [usize; PARTS_MAX]) -> io::Result<View> {
        use crate::sync::Writers;
        if crate::limits::commits_strictly() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (memory, descriptor) = Shared::make("firndex-view", bytes, Writers::Maker)?;
        let memory = Arc::new(memory);
        let head = Array::within(&memory, 0, HEAD_LINES);
        Ok(View { head, memory, sizes, descriptor: Some(descriptor) })
    }

    #[cfg(feature = "simulated")]
    fn of(bytes: usize, sizes: [usize; PARTS_MAX]) -> io::Result<View> {
        let memory = Arc::new(Shared::make(bytes)?);
        let head = Array::within(&memory, 0, HEAD_LINES);
        Ok(View { head, memory, sizes })
    }

    #[cfg(feature = "loom")]
    fn of(_bytes: usize, sizes: [usize; PARTS_MAX]) -> io::Result<View> {
        if sizes.iter().any(|&bytes| bytes > 0) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let head = Array::reserve(HEAD_LINES, HEAD_LINES)?;
        Ok(View { head })
    }

    /// A guest's: what the owner has made.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    pub fn enter(memory: std::os::fd::BorrowedFd<'_>) -> io::Result<View> {
        use crate::sync::Writers;
        let bytes = usize::try_from(Shared::length(memory)?).map_err(io::Error::other)?;
        let memory = Arc::new(Shared::enter(memory, bytes, Writers::Maker)?);
        if bytes < HEAD_LINES * size_of::<Line>() {
            return Err(io::Error::other(format!("a view of {bytes} bytes")));
        }
        let head: Array<Line> = Array::within(&memory, 0, HEAD_LINES);
        let words = &head.get(SIZES).0;
        let sizes = std::array::from_fn(|part| words[part].load(Ordering::Relaxed) as usize);
        match places(&sizes) {
            Some(places) if places[PARTS_MAX] == bytes => {
                Ok(View { head, memory, sizes, descriptor: None })
            }
            _ => Err(io::Error::other(format!("a view of {bytes} bytes whose parts do not fit"))),
        }
    }

    /// What a guest enters by.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    pub fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.descriptor.as_ref().map(std::os::fd::AsFd::as_fd)
    }

    fn line(&self, line: usize) -> &Line {
        self.head.get(line)
    }

    /// A part, as an array of as many elements as fit.
    ///
    /// # Panics
    ///
    /// If it is none of the view's.
    #[cfg(not(feature = "loom"))]
    pub fn part<T: Zeroable>(&self, part: usize) -> Array<T> {
        let at = places(&self.sizes).map_or(usize::MAX, |places| places[part]);
        Array::within(&self.memory, at, self.sizes[part] / size_of::<T>())
    }

    /// The views of models have none.
    #[cfg(feature = "loom")]
    pub fn part<T: Zeroable>(&self, part: usize) -> Array<T> {
        panic!("part {part} of a view that has none")
    }

    /// A word of the engine's.
    ///
    /// # Panics
    ///
    /// If `note` is not below [`NOTES`].
    pub fn note(&self, note: usize) -> &AtomicU64 {
        &self.line(FIRST_NOTES + note / 8).0[note % 8]
    }

    #[inline(always)]
    fn state(&self) -> &AtomicU64 {
        // SAFETY: every view has as many lines.
        unsafe { &self.head.get_unchecked(STATE).0[0] }
    }

    #[inline(always)]
    fn epoch(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &self.head.get_unchecked(EPOCH).0[0] }
    }

    /// Owner: lets guests search by `word`, in what was stored before.
    ///
    /// # Panics
    ///
    /// If the word has the highest bit.
    pub fn show(&self, word: u64) {
        assert!(word & SHOWN == 0, "a word of an engine with the highest bit: {word:#x}");
        self.set_state(word | SHOWN);
    }

    /// Owner: shows nothing from now on, whoever is about to. Safe in a signal's handler.
    pub fn close(&self) {
        self.state().store(CLOSED, Ordering::Relaxed);
        // As in `hide`.
        fence(Ordering::SeqCst);
    }

    /// Stores a state, unless the view has been closed.
    fn set_state(&self, state: u64) {
        let unless_closed = |found| (found != CLOSED).then_some(state);
        let _ = self.state().fetch_update(Ordering::Release, Ordering::Relaxed, unless_closed);
    }

    /// Owner: has guests ask from now on. A look-up that misses this has missed what comes after it, too.
    pub fn hide(&self) {
        self.set_state(0);
        // Who sees one of the stores behind this also sees that the view is hidden.
        fence(Ordering::SeqCst);
    }

    /// Owner: the epoch of the items is about to become this.
    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.epoch().fetch_max(epoch, Ordering::SeqCst);
    }

    /// Guest: begins a look-up of no items. `None`: the owner is to be asked.
    #[inline(always)]
    pub fn look(&self) -> Option<Look> {
        self.look_in(0)
    }

    /// The same of items, too.
    #[inline(always)]
    pub fn look_at_items(&self) -> Option<Look> {
        self.look_in(self.epoch().load(Ordering::Acquire))
    }

    #[inline(always)]
    fn look_in(&self, epoch: u64) -> Option<Look> {
        let state = self.state().load(Ordering::Acquire);
        (state & SHOWN != 0).then_some(Look { state, epoch })
    }

    /// Guest: whether all that was read since that look was there, but for items.
    #[inline(always)]
    pub fn is_as(&self, look: Look) -> bool {
        fence(Ordering::Acquire);
        self.state().load(Ordering::Relaxed) == look.state
    }

    /// Guest: the same of items, too, since a look at them.
    #[inline(always)]
    pub fn are_items_as(&self, look: Look) -> bool {
        self.is_as(look) && self.epoch().load(Ordering::Relaxed) == look.epoch
    }
}

#[cfg(all(test, not(any(feature = "simulated", feature = "loom"))))]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags};
    use std::os::fd::AsFd;

    #[test]
    fn a_guest_sees_what_the_owner_stores() {
        let view = View::make(&[5 << 20, 64]).unwrap();
        let guest = View::enter(view.descriptor().unwrap()).unwrap();
        assert!(guest.look().is_none());
        let (own, seen) = (view.part::<AtomicU64>(0), guest.part::<AtomicU64>(0));
        assert_eq!((own.len(), seen.len()), (5 << 17, 5 << 17));
        own.advise(0..own.len(), true);
        own.get((5 << 17) - 1).store(42, Ordering::Relaxed);
        view.part::<Line>(1).get(0).0[7].store(7, Ordering::Relaxed);
        view.note(NOTES - 1).store(9, Ordering::Relaxed);
        view.show(1 << 62);
        let look = guest.look_at_items().unwrap();
        assert_eq!(look.word(), 3 << 62);
        assert_eq!(seen.get((5 << 17) - 1).load(Ordering::Relaxed), 42);
        assert_eq!(guest.part::<Line>(1).get(0).0[7].load(Ordering::Relaxed), 7);
        assert_eq!(guest.note(NOTES - 1).load(Ordering::Relaxed), 9);
        assert!(guest.are_items_as(look));
        view.set_epoch(1);
        assert!(guest.is_as(look) && !guest.are_items_as(look));
        view.hide();
        assert!(!guest.is_as(look) && guest.look().is_none());
        view.show(3);
        assert!(!guest.is_as(look) && guest.look().is_some());
        view.close();
        view.show(3);
        assert!(guest.look().is_none());
        assert_eq!(seen.get((5 << 17) - 1).load(Ordering::Relaxed), 42);
    }

    /// A page that vanishes would end a guest, and one that it may write the owner.
    /// Loom cannot tell: it lets an exchange read what another one beside it has replaced.
    #[test]
    fn nothing_is_shown_once_it_is_closed_whoever_is_about_to() {
        for _ in 0..200 {
            let view = View::make(&[]).unwrap();
            view.show(5);
            std::thread::scope(|scope| {
                let closing = scope.spawn(|| view.close());
                while !closing.is_finished() {
                    view.hide();
                    view.show(5);
                }
            });
            assert!(view.look().is_none());
        }
        let view = View::make(&[]).unwrap();
        view.close();
        view.hide();
        view.show(7);
        assert!(view.look().is_none());
    }

    #[test]
    fn nobody_cuts_it_off_or_writes_it() {
        let view = View::make(&[4096]).unwrap();
        let memory = view.descriptor().unwrap();
        assert!(rustix::fs::ftruncate(memory, 4096).is_err());
        assert!(rustix::io::write(memory, &[1]).is_err());
        let bytes = usize::try_from(Shared::length(memory).unwrap()).unwrap();
        assert!(Shared::enter(memory, bytes, crate::sync::Writers::All).is_err());
        assert!(Shared::enter(memory, bytes, crate::sync::Writers::Maker).is_ok());
    }

    #[test]
    fn what_is_no_view_is_refused() {
        let memory = |bytes: u64, seals: SealFlags, sizes: [u64; PARTS_MAX]| {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let memory = rustix::fs::memfd_create("no-view", flags).unwrap();
            rustix::fs::ftruncate(&memory, bytes).unwrap();
            for (part, size) in (0..).zip(sizes) {
                let at = (64 * SIZES) as u64 + 8 * part;
                rustix::io::pwrite(&memory, &size.to_ne_bytes(), at).unwrap();
            }
            rustix::fs::fcntl_add_seals(&memory, seals).unwrap();
            rustix::fs::ftruncate(&memory, bytes).unwrap();
            View::enter(memory.as_fd()).map(drop)
        };
        let none = [0; PARTS_MAX];
        let page = PART_ALIGN as u64;
        assert!(memory(page, SealFlags::SHRINK, none).is_ok());
        let found = memory(page, SealFlags::GROW, none).unwrap_err().to_string();
        assert!(found.contains("GROW"), "{found}");
        for (bytes, sizes) in [
            (page, [1, 0, 0, 0, 0, 0, 0, 0]),
            (2 * page, none),
            (page, [u64::MAX; PARTS_MAX]),
            (page, [1 << 62; PARTS_MAX]),
            (page, [0, 0, 0, 0, 0, 0, 0, u64::MAX]),
        ] {
            let found = memory(bytes, SealFlags::SHRINK, sizes).unwrap_err().to_string();
            assert!(found.contains("do not fit"), "{found}");
        }
    }
}
