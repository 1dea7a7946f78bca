//! The memory under a pool, with its rules for what survives what.
//!
//! | medium | what it is | after kill -9 | after power loss |
//! |---|---|---|---|
//! | `dram` | anonymous memory | nothing | nothing |
//! | `mapped` | a file mapped shared | every returned operation | a closed or synced pool |
//! | `dax` | a file mapped with MAP_SYNC on a DAX file system | every returned operation | every returned operation |
//! | `dram` or `mapped`, [flushed](Memory::flushed) | the same, paying for flushes and fences as `dax` does | as without | as without |
//! | [`Delay`] | wraps another and adds latencies per line read and line flushed, and what blocks of 256 bytes cost | as wrapped | as wrapped |
//! | [`Count`] | wraps another and counts lines, flushes and fences, and what Optane-like media would write | as wrapped | as wrapped |
//! | [`Either`] | one of two others, known at run time | as that one | as that one |

mod allocate;
mod blocks;
mod count;
mod delay;
mod either;
mod huge;
mod lines;
mod media_writes;
mod memory;
mod near;
mod reservation;
#[cfg(feature = "simulated")]
pub mod sim;
mod space;
mod ticks;
#[cfg(feature = "loom")]
pub mod watched;
mod write_back;

#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub(crate) use allocate::allocate_for_writes;
pub(crate) use allocate::{allocate, give_back, has_space, is_written};
pub use blocks::Blocks;
pub use count::{Cost, Count, measure, media_writes};
pub use delay::{Delay, Latency, delayed_reads};
pub use either::Either;
pub(crate) use huge::whole_pages;
pub use media_writes::MediaWrites;
pub(crate) use memory::written_over;
pub use memory::{Dax, Dram, Mapped, Memory};
pub use write_back::CacheFlush;

use crate::error::SpaceError;
use crate::line_log::Sequence;
use crate::offset::{LINE, Offset, WORD};
use crate::view::View;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Which medium a pool lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediumKind {
    /// Anonymous memory.
    Dram,
    /// A file, mapped shared.
    Mapped,
    /// A file on a DAX file system, mapped with MAP_SYNC.
    Dax,
}

impl MediumKind {
    /// Number under which the superblock records the medium.
    pub const fn code(self) -> u32 {
        match self {
            MediumKind::Dram => 0,
            MediumKind::Mapped => 1,
            MediumKind::Dax => 2,
        }
    }

    /// The medium with this number.
    pub const fn from_code(code: u32) -> Option<MediumKind> {
        match code {
            0 => Some(MediumKind::Dram),
            1 => Some(MediumKind::Mapped),
            2 => Some(MediumKind::Dax),
            _ => None,
        }
    }
}

/// Bytes beyond a medium's limit at which nothing else lies, if it has an [origin](Medium::origin).
pub const GUARD_BYTES: u64 = 4096;

/// The offset with this place, where there is no origin.
fn offset_of(place: *mut u8) -> Offset {
    Offset(place.addr() as u64)
}

/// Every access to pool memory.
///
/// Word accesses need offsets aligned to 8 bytes ([`Medium::load_pair`]: 16) below
/// [`Medium::limit`]; they panic otherwise, so engines check what they read from a pool before
/// they use it as an offset. Offsets between [`Medium::size`] and the limit have no memory
/// behind them yet.
///
/// Stores, flushes and fences are told apart by the place in the code that calls them
/// (`#[track_caller]`), for media that record it; on the others nothing of that is left.
///
/// Order of stores: two stores to one line by one thread become durable in program order if the
/// later one is a [`Medium::store_release`]. Across lines nothing is ordered but by
/// [`Medium::flush`] and then [`Medium::fence`].
pub trait Medium: Send + Sync + 'static {
    /// Whether an access is a bare instruction. If it is not, a call costs little by comparison: an engine then
    /// compiles its mutations once, and calls the code that decides about a change.
    const IS_BARE: bool = false;

    /// Which medium this is.
    fn kind(&self) -> MediumKind;

    /// Whether reading from it takes longer than from DRAM.
    fn reads_slowly(&self) -> bool {
        self.kind() == MediumKind::Dax
    }

    /// Whether a flush or a fence is more than an order that the compiler has to keep.
    fn flushes(&self) -> bool {
        true
    }

    /// Loads a word, with acquire ordering.
    fn load(&self, at: Offset) -> u64;

    /// Stores a word, with relaxed ordering.
    #[track_caller]
    fn store(&self, at: Offset, value: u64);

    /// Stores a word, with release ordering, and after every earlier store to its line.
    #[track_caller]
    fn store_release(&self, at: Offset, value: u64);

    /// Stores two words, the higher one first: a lower one that survives a crash or is seen by
    /// [`Medium::load_pair`] has its higher one. As [`Medium::store`] and then
    /// [`Medium::store_release`]; `at` is aligned to 16.
    #[track_caller]
    fn store_pair(&self, at: Offset, low: u64, high: u64) {
        self.store(at.word(1), high);
        self.store_release(at, low);
    }

    /// Replaces `current` by `new` in one step (acquire and release). Returns what was found.
    #[track_caller]
    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64>;

    /// Loads two words in one step, with acquire ordering.
    fn load_pair(&self, at: Offset) -> (u64, u64);

    /// Loads two words that follow each other, in any order, each as [`Medium::load`] does.
    #[inline(always)]
    fn load_two(&self, at: Offset) -> [u64; 2] {
        [self.load(at), self.load(at.word(1))]
    }

    /// As [`Medium::load_two`]; `None` if the words do not lie below [`Medium::size`], or are not
    /// aligned.
    #[inline(always)]
    fn try_load_two(&self, at: Offset) -> Option<[u64; 2]> {
        let lies_below = at.0.checked_add(2 * WORD).is_some_and(|end| end <= self.size());
        (at.0.is_multiple_of(WORD) && lies_below).then(|| self.load_two(at))
    }

    /// Loads the words of the line that begins at `at`, in any order, each as [`Medium::load`] does.
    #[inline(always)]
    fn load_line(&self, at: Offset) -> [u64; (LINE / WORD) as usize] {
        std::array::from_fn(|word| self.load(at.word(word as u64)))
    }

    /// Hints that the line at `at` is about to be read.
    fn prefetch(&self, at: Offset);

    /// Hints that the line at `at` is about to be written.
    fn prefetch_write(&self, at: Offset);

    /// The address of offset 0, if an access is a bare instruction; otherwise null. The *place* of an offset is this
    /// address plus the offset.
    fn origin(&self) -> *mut u8 {
        std::ptr::null_mut()
    }

    /// [`Medium::load_pair`] at a place.
    ///
    /// # Safety
    ///
    /// If there is an origin, the place is that of an offset as `load_pair` takes it, in a medium of this type that
    /// lives: or one at most [`GUARD_BYTES`] beyond the limit, where there is no memory; or it is other memory for
    /// such accesses.
    unsafe fn load_pair_at(&self, place: *mut u8) -> (u64, u64) {
        self.load_pair(offset_of(place))
    }

    /// [`Medium::store_pair`] at a place.
    ///
    /// # Safety
    ///
    /// As for [`Medium::load_pair_at`].
    #[track_caller]
    unsafe fn store_pair_at(&self, place: *mut u8, low: u64, high: u64) {
        self.store_pair(offset_of(place), low, high);
    }

    /// [`Medium::store`] at a place.
    ///
    /// # Safety
    ///
    /// As for [`Medium::load_pair_at`], for a word.
    #[track_caller]
    unsafe fn store_at(&self, place: *mut u8, value: u64) {
        self.store(offset_of(place), value);
    }

    /// [`Medium::store_release`] at a place.
    ///
    /// # Safety
    ///
    /// As for [`Medium::load_pair_at`], for a word.
    #[track_caller]
    unsafe fn store_release_at(&self, place: *mut u8, value: u64) {
        self.store_release(offset_of(place), value);
    }

    /// [`Medium::prefetch`] at a place, whatever that is.
    fn prefetch_at(&self, place: *mut u8) {
        self.prefetch(offset_of(place));
    }

    /// [`Medium::prefetch_write`] at a place, whatever that is.
    fn prefetch_write_at(&self, place: *mut u8) {
        self.prefetch_write(offset_of(place));
    }

    /// Starts writing back the line at `at`; complete after this thread's next fence.
    #[track_caller]
    fn flush(&self, at: Offset);

    /// Completes this thread's flushes before anything that follows.
    #[track_caller]
    fn fence(&self);

    /// Flushes a range: what is stored there, and not what else its lines hold. (To most media a flush is of whole
    /// lines. A log has to take no more than what is the caller's.)
    #[track_caller]
    fn flush_range(&self, at: Offset, bytes: u64) {
        if bytes == 0 {
            return;
        }
        for line in at.line()..=at.add(bytes - 1).line() {
            self.flush(Offset(line * LINE));
        }
    }

    /// A number for the pair of words that this thread is about to change, and to flush by [`Medium::flush_pair`],
    /// drawn when it has just taken the lock on it. Where nothing is logged there is none.
    fn sequence(&self, _at: Offset) -> Sequence {
        Sequence::NONE
    }

    /// Flushes the two words at `at`, aligned to 16. The calling thread holds a lock on them until its next fence.
    /// `sequence` was drawn under that lock, or is [`Sequence::NONE`]. Threads without the lock make the pair durable
    /// by [`Medium::persist_observed`].
    #[track_caller]
    fn flush_pair(&self, at: Offset, _sequence: Sequence) {
        self.flush_range(at, 2 * WORD);
    }

    /// [`Medium::flush_pair`], and a fence.
    #[track_caller]
    fn persist_pair(&self, at: Offset, sequence: Sequence) {
        self.flush_pair(at, sequence);
        self.fence();
    }

    /// Makes the two words at `at`, aligned to 16, durable as the caller has read them, while whoever holds the lock on
    /// them may be changing them. Once that one `is_locked` no longer, it has made them durable itself.
    #[track_caller]
    fn persist_observed(&self, at: Offset, _is_locked: impl Fn() -> bool) {
        self.persist(at);
    }

    /// Flushes the line at `at` and waits for it.
    #[track_caller]
    fn persist(&self, at: Offset) {
        self.flush(at);
        self.fence();
    }

    /// Copies `bytes` in; they may become durable as any subset of their words until a fence.
    ///
    /// # Safety
    ///
    /// No other thread accesses the range meanwhile.
    #[track_caller]
    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]);

    /// The bytes of a range, in place; `None` if they do not lie below [`Medium::size`].
    ///
    /// # Safety
    ///
    /// Nobody stores to the range while the slice lives.
    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]>;

    /// A word of the pool's first page, by its number. There is one: nobody has a pool without its superblock.
    fn load_at_start(&self, word: u64) -> u64 {
        self.load(Offset(0).word(word))
    }

    /// Whether these bytes are at `at`, which is aligned to words, while others may store there. `false` if they would
    /// not lie in the pool.
    fn has_bytes(&self, at: Offset, bytes: &[u8]) -> bool {
        self.copy_out(at, bytes.len() as u64).is_some_and(|found| *found == *bytes)
    }

    /// A copy of `len` bytes at `at`, which is aligned to words: of whatever is there while others may store to it.
    /// `None` if they do not lie in the pool.
    fn copy_out(&self, at: Offset, len: u64) -> Option<Box<[u8]>> {
        if at.0.checked_add(len)? > self.size() {
            return None;
        }
        let mut bytes = vec![0; len as usize];
        for (bytes, word) in bytes.chunks_mut(WORD as usize).zip(0..) {
            bytes.copy_from_slice(&self.load(at.word(word)).to_ne_bytes()[..bytes.len()]);
        }
        Some(bytes.into())
    }

    /// Bytes that have memory behind them, from the start of the pool.
    fn size(&self) -> u64;

    /// Bytes that the pool may ever have.
    fn limit(&self) -> u64;

    /// Puts memory behind the pool's first `size` bytes; new bytes read as zero.
    fn grow(&self, size: u64) -> Result<(), SpaceError>;

    /// The same beside the owner of the pool, who has lengthened it meanwhile: whether there are so many bytes.
    fn follow(&self, size: u64) -> bool {
        size <= self.size()
    }

    /// [`Medium::grow`] for a helper thread, which no operation waits for. It may take longer, and get faster memory.
    fn grow_ahead(&self, size: u64) -> Result<(), SpaceError> {
        self.grow(size)
    }

    /// Gives everything after the first `size` bytes back to the system, if it takes it. Nobody uses what lies there
    /// any more, unless the medium [grows](Medium::grow) again.
    fn cut(&self, size: u64) {
        let _ = size;
    }

    /// Gives the whole pages of a range back to the system; returns whether it took them. The caller must not need
    /// their content: it is undefined afterwards. No thread may store there before [`Medium::take_back`].
    fn give_back(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// Takes space again for a range that was given back.
    fn take_back(&self, range: Range<u64>) -> Result<(), SpaceError> {
        let _ = range;
        Ok(())
    }

    /// Touches the pages of a range so that later accesses do not fault. A hint.
    fn populate(&self, range: Range<u64>);

    /// Says that all of a range is about to be read, in whatever order: otherwise what is not in memory is read page by
    /// page. A hint.
    fn read_ahead(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Makes the kernel write a range to its file and waits, where that means something.
    fn sync(&self, range: Range<u64>) -> io::Result<()>;

    /// Whether a page of the pool's file has vanished. Then what was read since may have been zeros, and what was
    /// stored since is not in the file.
    fn has_failed(&self) -> bool {
        false
    }

    /// Closes what guests see of the pool before anybody reads zeros where a page has vanished.
    fn close_on_failure(&self, _view: &Arc<View>) {}

    /// Two words as a call reads them, that no page which has just vanished ends the process with; `None` if they are
    /// not there any more.
    fn read_two(&self, at: Offset) -> Option<[u64; 2]> {
        Some(self.load_two(at))
    }

    /// Says that another program has put something else into the pool's file. From then on it has failed.
    fn fail(&self) {}
}
