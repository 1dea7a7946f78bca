//! What a look-up has found.

use super::Guard;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Bytes that a guard keeps in place, or that are this value's own. To read them it does not matter which.
pub struct Bytes<'a> {
    start: NonNull<u8>,
    len: usize,
    /// If there is none, the bytes are a box's.
    pinned: Option<Guard<'a>>,
    _bytes: PhantomData<&'a [u8]>,
}

impl<'a> Bytes<'a> {
    /// Bytes that were found under this guard.
    #[inline(always)]
    pub fn pinned(bytes: &'a [u8], guard: Guard<'a>) -> Self {
        let start = NonNull::from(bytes).cast();
        Bytes { start, len: bytes.len(), pinned: Some(guard), _bytes: PhantomData }
    }

    /// Bytes of its own.
    #[inline(always)]
    pub fn own(bytes: Box<[u8]>) -> Self {
        let len = bytes.len();
        let start = NonNull::from(Box::leak(bytes)).cast();
        Bytes { start, len, pinned: None, _bytes: PhantomData }
    }

    /// The bytes.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: they are what was given to `pinned`, where they live for 'a, or to `own`, which are this value's
        // until it is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// A copy of the bytes, or they themselves if they are its own.
    pub fn into_vec(self) -> Vec<u8> {
        if self.pinned.is_some() {
            return self.as_slice().to_vec();
        }
        let this = ManuallyDrop::new(self);
        let bytes = NonNull::slice_from_raw_parts(this.start, this.len);
        // SAFETY: without a guard they are the box that `own` was given. Nothing takes it back after this.
        unsafe { Box::from_raw(bytes.as_ptr()) }.into_vec()
    }
}

impl Drop for Bytes<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.pinned.is_none() {
            let bytes = NonNull::slice_from_raw_parts(self.start, self.len);
            // SAFETY: without a guard they are the box that `own` was given, which nobody else has taken back.
            drop(unsafe { Box::from_raw(bytes.as_ptr()) });
        }
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::Epochs;

    #[test]
    fn they_are_read_the_same_wherever_they_are() {
        let epochs = Epochs::new().unwrap();
        let in_place = [1, 2, 3];
        let pinned = Bytes::pinned(&in_place, epochs.pin());
        assert!(epochs.is_pinned_here());
        let own = Bytes::own(Box::new([1, 2, 3]));
        assert_eq!((pinned.as_slice(), format!("{own:?}")), (own.as_slice(), "[1, 2, 3]".into()));
        assert_eq!((pinned.into_vec(), own.into_vec()), (vec![1, 2, 3], vec![1, 2, 3]));
        assert!(!epochs.is_pinned_here());
        assert!(Bytes::own(Box::default()).as_slice().is_empty());
    }
}
