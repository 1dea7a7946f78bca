//! Arrays of loom's atomics: no memory of zero bytes is one, so each element is made.

use super::super::element::Zeroable;
use std::io;
use std::ops::Range;

/// Elements of an array that need not be as long.
const ELEMENTS_MAX: usize = 1 << 10;

/// As in production, but with all elements at once, and so not as long.
#[derive(Debug)]
pub struct Array<T>(Box<[T]>);

impl<T: Zeroable> Array<T> {
    /// An array of `len` elements, or of fewer where that would be many.
    pub fn reserve(len: usize, len_min: usize) -> io::Result<Self> {
        let len = len.min(ELEMENTS_MAX).max(len_min).max(1);
        Ok(Array((0..len).map(|_| T::default()).collect()))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The element at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`Array::len`].
    pub fn get(&self, index: usize) -> &T {
        &self.0[index]
    }

    /// As [`Array::get`].
    ///
    /// # Safety
    ///
    /// As in production.
    pub unsafe fn get_unchecked(&self, index: usize) -> &T {
        self.get(index)
    }

    /// All elements.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Nothing.
    pub fn prefetch(&self, _index: usize) {}

    /// Nothing.
    pub fn prefetch_write(&self, _index: usize) {}

    /// Nothing.
    pub fn advise(&self, _elements: Range<usize>, _populate: bool) {}
}
