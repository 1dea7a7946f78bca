//! Volatile arrays that grow without moving, for sidecars and per-thread state.

use super::element::Zeroable;
use super::{Shared, pages};
use crate::prefetch::{prefetch, prefetch_write};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// An array whose elements are zero at first and whose memory is taken when first touched.
///
/// Addresses are reserved for the whole length at once, so that elements never move, and an
/// element is found by its index alone.
#[derive(Debug)]
pub struct Array<T> {
    base: NonNull<T>,
    len: usize,
    /// The memory that it is a part of, if it has none of its own.
    shared: Option<Arc<Shared>>,
}

// SAFETY: the array owns its mapping, or keeps it, and hands out shared references to `Sync` elements only.
unsafe impl<T: Zeroable> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroable> Sync for Array<T> {}

impl<T: Zeroable> Array<T> {
    /// An array of `len` elements, or of fewer if the system does not grant that many
    /// addresses; fails if it does not even grant `len_min`.
    pub fn reserve(len: usize, len_min: usize) -> io::Result<Self> {
        let mut len = len.max(len_min).max(1);
        loop {
            match Self::map(len) {
                Ok(base) => return Ok(Array { base, len, shared: None }),
                Err(error) if len <= len_min.max(1) => return Err(error),
                Err(_) => len = (len / 2).max(len_min),
            }
        }
    }

    /// The `len` elements that begin at byte `at` of shared memory.
    ///
    /// # Panics
    ///
    /// If they do not lie in it, or not aligned.
    pub(crate) fn within(shared: &Arc<Shared>, at: usize, len: usize) -> Self {
        let end = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(at));
        assert!(
            end.is_some_and(|end| end <= shared.bytes()) && at.is_multiple_of(align_of::<T>()),
            "{len} elements at byte {at} of shared memory that has {}",
            shared.bytes()
        );
        // SAFETY: within the mapping, which begins with a page.
        let base = unsafe { shared.base().byte_add(at) }.cast();
        Array { base, len, shared: Some(Arc::clone(shared)) }
    }

    fn map(len: usize) -> io::Result<NonNull<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(pages::zeroed(bytes)?.cast())
    }

    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`Array::len`].
    #[inline(always)]
    pub fn get(&self, index: usize) -> &T {
        if index >= self.len {
            self.beyond(index);
        }
        // SAFETY: the index is in bounds, and whatever is there is a valid `T` by `Zeroable`.
        unsafe { &*self.base.as_ptr().add(index) }
    }

    /// The element at `index`.
    ///
    /// # Safety
    ///
    /// `index` is below [`Array::len`].
    #[inline(always)]
    pub unsafe fn get_unchecked(&self, index: usize) -> &T {
        // SAFETY: as in `get`; the caller vouches for the index.
        unsafe { &*self.base.as_ptr().add(index) }
    }

    /// All elements: for those who look at several, to check them against one length.
    #[inline(always)]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the mapping holds `len` elements, and whatever is there is a valid `T` by `Zeroable`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// Out of line, so that the check of every access is no more than a comparison.
    #[cold]
    #[inline(never)]
    fn beyond(&self, index: usize) -> ! {
        panic!("index {index} beyond the {} elements reserved", self.len);
    }

    /// Hints that the element at `index` is about to be read.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        prefetch(self.base.as_ptr().wrapping_add(index));
    }

    /// Hints that the element at `index` is about to be written.
    #[inline(always)]
    pub fn prefetch_write(&self, index: usize) {
        prefetch_write(self.base.as_ptr().wrapping_add(index));
    }

    /// Asks for huge pages behind a range of elements that is as large as one or larger, its ends
    /// included, and touches the elements if `populate`. A hint. Shared memory has huge pages only if they are
    /// populated, which may take long where memory is in pieces.
    pub fn advise(&self, elements: Range<usize>, populate: bool) {
        let end = elements.end.min(self.len);
        let bytes = elements.start.min(end) * size_of::<T>()..end * size_of::<T>();
        let (base, len) = (self.base.cast(), self.len * size_of::<T>());
        // SAFETY: the range lies in this array's memory, which is as long as that.
        unsafe {
            match self.shared {
                None => pages::advise(base, len, bytes, populate),
                Some(_) if populate => pages::advise_shared(base, len, bytes),
                Some(_) => {}
            }
        }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        if self.shared.is_some() {
            return;
        }
        // SAFETY: the memory is this array's own, elements borrow `self`, and none needs drop.
        unsafe { pages::free(self.base.cast(), self.len * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Line, Ordering};

    #[test]
    fn elements_are_zero_and_keep_what_is_stored() {
        let array = Array::<AtomicU64>::reserve(1 << 30, 1).unwrap();
        assert_eq!(array.get(array.len() - 1).load(Ordering::Relaxed), 0);
        array.get(12_345).store(7, Ordering::Relaxed);
        array.advise(0..1 << 20, true);
        assert_eq!(array.get(12_345).load(Ordering::Relaxed), 7);
    }

    #[test]
    #[should_panic(expected = "beyond")]
    fn an_index_beyond_the_end_is_refused() {
        let array = Array::<Line>::reserve(4, 1).unwrap();
        array.get(4);
    }
}
