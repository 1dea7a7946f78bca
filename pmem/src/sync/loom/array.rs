//! Arrays of loom's atomics: no memory of zero bytes is one, so each element is made.

use super::super::element::Zeroable;
use std::io;
use std::ops::Range;

/// As in production, but no longer than it must be, and with all elements at once.
#[derive(Debug)]
pub struct Array<T>(Box<[T]>);

impl<T: Zeroable> Array<T> {
    /// An array of `len_min` elements.
    pub fn reserve(_len: usize, len_min: usize) -> io::Result<Self> {
        Ok(Array((0..len_min.max(1)).map(|_| T::default()).collect()))
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
