//! Memory that a disk reads and writes: whole pages, aligned to pages.

/// All reads and writes are of whole pages of this size, at multiples of it, in memory with this alignment.
pub const PAGE_BYTES: usize = 4096;

/// Words of a page.
pub(super) const PAGE_WORDS: usize = PAGE_BYTES / 8;

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u64; PAGE_WORDS]);

const _: () = assert!(size_of::<Page>() == PAGE_BYTES && align_of::<Page>() == PAGE_BYTES);

/// Pages that are filled word by word.
pub(super) struct Pages {
    pages: Vec<Page>,
    /// Words in use.
    len: usize,
}

impl Pages {
    /// No words.
    pub(super) fn new() -> Pages {
        Pages { pages: Vec::new(), len: 0 }
    }

    /// `bytes` bytes, a multiple of the page's size, of zeros.
    pub(super) fn zeroed(bytes: usize) -> Pages {
        let mut pages = Pages::new();
        pages.resize(bytes / 8);
        pages
    }

    /// Makes it `words` long; new ones are zero.
    pub(super) fn resize(&mut self, words: usize) {
        let pages = words.div_ceil(PAGE_WORDS);
        if pages > self.pages.len() {
            self.pages.resize(pages, Page([0; PAGE_WORDS]));
        }
        let before = std::mem::replace(&mut self.len, words);
        if words > before {
            self.words_mut()[before..].fill(0);
        }
        self.clear_rest();
    }

    /// Clears what follows the last word in its page, and is written with it. To be called after [`Pages::extend`],
    /// which comes too often to do it; what was used before on later pages is soon written over.
    pub(super) fn clear_rest(&mut self) {
        let (from, end) = (self.len, self.len.div_ceil(PAGE_WORDS) * PAGE_WORDS);
        self.all_words_mut()[from..end].fill(0);
    }

    /// The words.
    pub(super) fn words(&self) -> &[u64] {
        &self.all_words()[..self.len]
    }

    /// The words, to be changed.
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        let len = self.len;
        &mut self.all_words_mut()[..len]
    }

    fn all_words(&self) -> &[u64] {
        let words = self.pages.len() * PAGE_WORDS;
        // SAFETY: `Page` is an array of words without padding, so the vector's pages are so many words in a row.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), words) }
    }

    fn all_words_mut(&mut self) -> &mut [u64] {
        let words = self.pages.len() * PAGE_WORDS;
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), words) }
    }

    /// The bytes of the pages that hold the words; after the last word they are zero, but see [`Pages::clear_rest`].
    pub(super) fn bytes(&self) -> &[u8] {
        let bytes = self.len.div_ceil(PAGE_WORDS) * PAGE_BYTES;
        // SAFETY: every byte of a word is a valid byte; so many pages there are.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), bytes) }
    }

    /// The bytes of the pages that hold the words, to be read into.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.len.div_ceil(PAGE_WORDS) * PAGE_BYTES;
        // SAFETY: as above, and any bytes make valid words.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), bytes) }
    }
}

impl Extend<u64> for Pages {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, words: I) {
        let words = words.into_iter();
        let from = self.len;
        let expected = words.size_hint().0;
        if from + expected > self.pages.len() * PAGE_WORDS {
            // Some more at once: each growth moves all pages.
            let pages = (from + expected).div_ceil(PAGE_WORDS);
            self.pages.resize(pages + pages / 2, Page([0; PAGE_WORDS]));
        }
        self.len = from + expected;
        let mut beyond = Vec::new();
        let mut free = self.words_mut()[from..].iter_mut();
        let mut written = from;
        for word in words {
            match free.next() {
                Some(place) => {
                    *place = word;
                    written += 1;
                }
                None => beyond.push(word),
            }
        }
        self.len = written;
        // Only what says too little of its length comes here.
        for word in beyond {
            self.resize(self.len + 1);
            let last = self.len - 1;
            self.words_mut()[last] = word;
        }
    }
}
