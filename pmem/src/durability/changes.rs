//! What epochs of the log change, line by line.

use super::disk::PAGE_BYTES;
use crate::line_log::Record;
use crate::offset::{LINE, WORD};
use std::collections::HashMap;

const LINE_WORDS: usize = (LINE / WORD) as usize;
const PAGE: u64 = PAGE_BYTES as u64;
/// What lies between two pages that are written is written with them if it is no more than this: a write takes as long
/// as some pages do.
const GAP_BYTES: u64 = 2 * PAGE;

/// The last content of each word that was logged. It takes memory by the lines that have such words, however long the
/// log is.
pub(super) struct Changes {
    lines: Vec<Line>,
    /// Where in `lines` each line is, by its number.
    places: HashMap<u64, usize>,
    /// The end of the last word.
    end: u64,
}

struct Line {
    number: u64,
    /// Which of its words were logged, from the lowest bit on.
    logged: u8,
    words: [u64; LINE_WORDS],
}

impl Changes {
    /// None yet.
    pub(super) fn new() -> Changes {
        Changes { lines: Vec::new(), places: HashMap::new(), end: 0 }
    }

    /// Adds a record that is newer than all before.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        for (at, &word) in (record.at.0..).step_by(WORD as usize).zip(record.content) {
            let (number, index) = (at / LINE, (at % LINE / WORD) as usize);
            let lines = &mut self.lines;
            let place = *self.places.entry(number).or_insert_with(|| {
                lines.push(Line { number, logged: 0, words: [0; LINE_WORDS] });
                lines.len() - 1
            });
            let line = &mut self.lines[place];
            line.words[index] = word;
            line.logged |= 1 << index;
            self.end = self.end.max(at + WORD);
        }
    }

    /// How many lines change.
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// The end of the last word that is changed.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// In order of their places.
    pub(super) fn in_order(mut self) -> Ordered {
        self.lines.sort_unstable_by_key(|line| line.number);
        Ordered(self.lines)
    }
}

/// Changes in order of their places.
pub(super) struct Ordered(Vec<Line>);

/// Pages that are written at once.
pub(super) struct Run<'a> {
    /// Offset of the first one.
    pub(super) at: u64,
    pub(super) bytes: usize,
    lines: &'a [Line],
}

impl Ordered {
    /// The pages that change, in runs with short gaps between the pages. No run lies in two chunks of so many bytes.
    pub(super) fn runs(&self, chunk_bytes: u64) -> impl Iterator<Item = Run<'_>> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let at = page_of(rest.first()?);
            let mut end = at + PAGE;
            let is_in_run = |line: &&Line| {
                let page = page_of(line);
                let is_near = page <= end + GAP_BYTES && page / chunk_bytes == at / chunk_bytes;
                if is_near {
                    end = end.max(page + PAGE);
                }
                is_near
            };
            let count = rest.iter().take_while(is_in_run).count();
            let (lines, later) = rest.split_at(count);
            rest = later;
            Some(Run { at, bytes: (end - at) as usize, lines })
        })
    }

    /// Changes words of a part of the image that begins with the line at this offset.
    pub(super) fn change(&self, at: u64, words: &mut [u64]) {
        let first = self.0.partition_point(|line| line.number < at / LINE);
        let end = at + words.len() as u64 * WORD;
        let lines = self.0[first..].iter().take_while(|line| line.number * LINE < end);
        lines.for_each(|line| line.change(at, words));
    }

    /// Bytes of all runs.
    pub(super) fn bytes(&self, chunk_bytes: u64) -> u64 {
        self.runs(chunk_bytes).map(|run| run.bytes as u64).sum()
    }
}

impl Run<'_> {
    /// Changes the run's words, which begin at its offset.
    pub(super) fn change(&self, words: &mut [u64]) {
        self.lines.iter().for_each(|line| line.change(self.at, words));
    }
}

impl Line {
    /// Changes the line's words, where these are the words from offset `at` on.
    fn change(&self, at: u64, words: &mut [u64]) {
        let first = ((self.number * LINE - at) / WORD) as usize;
        for (index, &word) in self.words.iter().enumerate() {
            if self.logged & 1 << index != 0
                && let Some(changed) = words.get_mut(first + index)
            {
                *changed = word;
            }
        }
    }
}

fn page_of(line: &Line) -> u64 {
    line.number * LINE / PAGE * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset::Offset;

    fn changes(records: &[(u64, &[u64])]) -> Changes {
        let mut changes = Changes::new();
        for &(word, content) in records {
            let record = Record { sequence: 0, at: Offset(0).word(word), content };
            changes.add(&record);
        }
        changes
    }

    #[test]
    fn the_last_record_of_a_word_counts_and_no_other_word_changes() {
        let changes = changes(&[(1030, &[1, 2]), (1025, &[3]), (1031, &[4, 5])]);
        assert_eq!((changes.end(), changes.lines()), (1033 * WORD, 2));
        let changes = changes.in_order();
        let [run] = &changes.runs(1 << 20).collect::<Vec<_>>()[..] else { panic!("several runs") };
        assert_eq!((run.at, run.bytes), (2 * PAGE, PAGE_BYTES));
        let mut words = vec![9; 512];
        run.change(&mut words);
        assert_eq!(words[..10], [9, 3, 9, 9, 9, 9, 1, 4, 5, 9]);
        assert!(words[10..].iter().all(|&word| word == 9));
    }

    #[test]
    fn runs_join_near_pages_and_end_with_their_chunk() {
        let page = |page: u64| (page * PAGE / WORD, &[1][..]);
        let changes = changes(&[page(9), page(0), page(3), page(7), page(8)]).in_order();
        let found: Vec<(u64, usize)> =
            changes.runs(8 * PAGE).map(|run| (run.at / PAGE, run.bytes / PAGE_BYTES)).collect();
        // Of 1 and 2, and of 4 to 6: two pages are a short gap, three are not. The chunk ends before page 8.
        assert_eq!(found, [(0, 4), (7, 1), (8, 2)]);
        assert_eq!(changes.bytes(8 * PAGE), 7 * PAGE);
    }
}
