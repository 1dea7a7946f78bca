//! The content of a pool.

use pmem::{Medium, Offset, WORD};

/// The words of a pool at one moment.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Image(pub(crate) Vec<u64>);

impl Image {
    /// The words of `medium` as they are.
    pub(crate) fn of(medium: &impl Medium) -> Image {
        let mut image = Image::default();
        // A helper may make the pool longer meanwhile.
        image.grow(medium.size());
        for at in (0..image.bytes() / WORD).map(|word| Offset(0).word(word)) {
            image.store(at, medium.load(at));
        }
        image
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.len() as u64 * WORD
    }

    /// The words of a range of pool bytes.
    pub(crate) fn words(&mut self, start: Offset, bytes: u64) -> &mut [u64] {
        let first = (start.0 / WORD) as usize;
        &mut self.0[first..first + (bytes / WORD) as usize]
    }

    /// Stores one word.
    pub(crate) fn store(&mut self, at: Offset, value: u64) {
        self.words(at, WORD)[0] = value;
    }

    /// Makes the pool `bytes` long; what is new is 0.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.0.resize((bytes / WORD) as usize, 0);
    }

    /// Puts the image onto an empty medium.
    pub(crate) fn fill(&self, medium: &impl Medium) {
        medium.grow(self.bytes()).expect("the image fits");
        for (word, at) in self.0.iter().zip(0..).filter(|&(&word, _)| word != 0) {
            medium.store(Offset(0).word(at), *word);
        }
    }
}
