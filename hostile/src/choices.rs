//! Bytes as a sequence of choices: what a fuzzer varies, and what a generator draws.

/// Choices that bytes make. Those that they do not make are 0.
#[derive(Debug, Clone)]
pub(crate) struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { rest: bytes }
    }

    /// What is left, as it is.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    /// A number of this many bytes.
    fn number(&mut self, bytes: u32) -> u64 {
        (0..bytes).fold(0, |number, nth| number | u64::from(self.byte()) << (8 * nth))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.number(8)
    }

    /// A number below `end`; 0 if there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let bytes = (usize::BITS - end.saturating_sub(1).leading_zeros()).div_ceil(8);
        (self.number(bytes) as usize).checked_rem(end).unwrap_or(0)
    }

    /// One of them.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len());
        all.get(at).copied()
    }

    /// Whether something happens that happens once in so many times, at most 256.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
