//! The images that a crash can leave.

use pmem::medium::sim::{Durable, Order, Pending, PendingLine, word_hash};
use std::collections::HashSet;
use workload::{Random, mix};

const LINE_WORDS: usize = 8;
/// Pending stores of a line up to which all its states are enumerated.
const STORES_ENUMERATED: usize = 10;
/// The same for a line of bulk copies. Nothing leads to them yet, and each has as many states as its words have
/// subsets.
const COPIES_ENUMERATED: usize = 3;
/// States of a line that are tried beyond that, besides the beginnings of its log.
const STATES_SAMPLED: usize = 8;

/// The states in which a crash may leave one line, each once.
#[derive(Debug)]
struct LineStates {
    line: usize,
    states: Vec<[u64; LINE_WORDS]>,
}

/// A crash image: the words of the pool, with a hash of them.
#[derive(Debug, Clone)]
pub struct Image {
    /// The words up to the pool's size.
    pub words: Vec<u64>,
    /// Hash of size and words.
    pub hash: u64,
}

impl Image {
    /// The image of these words.
    pub fn new(words: Vec<u64>) -> Image {
        let content = words.iter().enumerate();
        let sum =
            content.fold(0u64, |sum, (index, &word)| sum.wrapping_add(word_hash(index, word)));
        let hash = mix(sum ^ words.len() as u64);
        Image { words, hash }
    }
}

/// For each store, the earlier ones that survive if it does.
fn needs(stores: &[Pending]) -> Vec<u64> {
    let needed = |(index, store): (usize, &Pending)| {
        stores[..index].iter().enumerate().fold(0, |needed, (earlier, before)| {
            let is_ordered = before.word == store.word
                || (store.order == Order::Release && before.order != Order::Copy);
            needed | u64::from(is_ordered) << earlier
        })
    };
    stores.iter().enumerate().map(needed).collect()
}

/// Whether the stores chosen by `mask` can have survived without the others.
fn is_possible(needs: &[u64], mask: u64) -> bool {
    (0..).zip(needs).all(|(index, needed)| mask >> index & 1 == 0 || needed & !mask == 0)
}

fn state_after(certain: &[u64], stores: &[Pending], mask: u64) -> [u64; LINE_WORDS] {
    let mut words = [0; LINE_WORDS];
    words[..certain.len()].copy_from_slice(certain);
    let survivors = stores.iter().enumerate().filter(|(index, _)| mask & 1 << index != 0);
    survivors.for_each(|(_, store)| words[usize::from(store.word)] = store.value);
    words
}

/// Adds what must survive with the stores chosen by `mask`.
fn closed(needs: &[u64], mask: u64) -> u64 {
    let mut mask = mask;
    for (index, needed) in needs.iter().enumerate().rev() {
        if mask & 1 << index != 0 {
            mask |= needed;
        }
    }
    // What was added has its own needs; the order is transitive but for copies, which need none.
    mask
}

/// Whether a crash can leave a line in this state. If the line has very many pending stores, only each word by itself
/// is checked.
pub fn is_left(certain: &[u64; LINE_WORDS], stores: &[Pending], found: &[u64; LINE_WORDS]) -> bool {
    if stores.len() <= STORES_ENUMERATED {
        let needs = needs(stores);
        let mut masks = 0..1 << stores.len();
        return masks
            .any(|mask| is_possible(&needs, mask) && state_after(certain, stores, mask) == *found);
    }
    has_words_of(certain, stores, found)
}

/// Whether a crash can leave each of these words by itself.
pub fn has_words_of(
    certain: &[u64; LINE_WORDS],
    stores: &[Pending],
    found: &[u64; LINE_WORDS],
) -> bool {
    (0..).zip(certain.iter().zip(found)).all(|(word, (certain, found))| {
        certain == found || stores.iter().any(|store| store.word == word && store.value == *found)
    })
}

fn line_states(durable: &Durable, pending: &PendingLine, random: &mut Random) -> LineStates {
    let line = pending.line as usize;
    let start = line * LINE_WORDS;
    let certain = &durable.words[start..durable.words.len().min(start + LINE_WORDS)];
    // Logs longer than a mask do not occur: what is stored is flushed and fenced soon.
    let stores = &pending.stores[..pending.stores.len().min(64)];
    let all = u64::MAX >> (64 - stores.len() as u32);
    let (mut states, mut met) = (Vec::new(), HashSet::new());
    let mut add = |mask: u64| {
        let state = state_after(certain, stores, mask);
        if met.insert(state) {
            states.push(state);
        }
    };
    let needs = needs(stores);
    let is_copied = stores.iter().all(|store| store.order == Order::Copy);
    let enumerated = if is_copied { COPIES_ENUMERATED } else { STORES_ENUMERATED };
    if stores.len() <= enumerated {
        (0..=all).filter(|&mask| is_possible(&needs, mask)).for_each(add);
    } else {
        add(0);
        add(all);
        (0..stores.len()).for_each(|count| add(closed(&needs, (1 << count) - 1)));
        (0..STATES_SAMPLED).for_each(|_| {
            add(closed(&needs, random.word() & all));
        });
    }
    LineStates { line, states }
}

/// All images of a crash, or a sample of them.
#[derive(Debug)]
pub struct Images {
    base: Vec<u64>,
    base_sum: u64,
    words_certain: usize,
    lines: Vec<LineStates>,
}

impl Images {
    /// The images that `durable` stands for.
    pub fn new(durable: &Durable, random: &mut Random) -> Images {
        let lines =
            durable.pending.iter().map(|pending| line_states(durable, pending, random)).collect();
        Images {
            base_sum: durable.sum,
            base: durable.words.clone(),
            words_certain: (durable.size_certain / 8) as usize,
            lines,
        }
    }

    /// Number of different images, without those whose size is not yet certain.
    pub fn count(&self) -> u64 {
        self.lines.iter().fold(1u64, |count, line| count.saturating_mul(line.states.len() as u64))
    }

    /// Calls `visit` for every image if there are at most `most`, otherwise for about that many. `visit` gets the hash
    /// and a way to build the image; `false` ends the visits.
    pub fn visit(
        &self,
        most: u64,
        random: &mut Random,
        visit: &mut dyn FnMut(u64, &dyn Fn() -> Image) -> bool,
    ) {
        let mut choice = vec![0usize; self.lines.len()];
        if self.count() <= most {
            loop {
                if !self.visit_one(&choice, visit) {
                    return;
                }
                let Some(next) = (0..choice.len())
                    .find(|&index| choice[index] + 1 < self.lines[index].states.len())
                else {
                    return;
                };
                choice[next] += 1;
                choice[..next].fill(0);
            }
        }
        // The corners first: nothing arrives, everything, all but one line, one line only.
        let full: Vec<usize> = self.lines.iter().map(|line| line.states.len() - 1).collect();
        let mut corners = vec![choice.clone(), full.clone()];
        for index in 0..self.lines.len().min(most as usize / 4) {
            let mut alone = choice.clone();
            alone[index] = full[index];
            let mut missing = full.clone();
            missing[index] = 0;
            corners.extend([alone, missing]);
        }
        let rest = (most as usize).saturating_sub(corners.len());
        let sampled = (0..rest).map(|_| {
            // Lines that arrive whole or not at all are as telling as torn ones, and rarer in a
            // uniform sample.
            let whole = random.index(2) == 0;
            let pick = |line: &LineStates, random: &mut Random| {
                if whole {
                    random.index(2) * (line.states.len() - 1)
                } else {
                    random.index(line.states.len())
                }
            };
            self.lines.iter().map(|line| pick(line, random)).collect::<Vec<usize>>()
        });
        let sampled: Vec<Vec<usize>> = sampled.collect();
        let _ = corners.iter().chain(&sampled).all(|choice| self.visit_one(choice, visit));
    }

    fn visit_one(
        &self,
        choice: &[usize],
        visit: &mut dyn FnMut(u64, &dyn Fn() -> Image) -> bool,
    ) -> bool {
        let mut sum = self.base_sum;
        for (line, &state) in self.lines.iter().zip(choice) {
            let start = line.line * LINE_WORDS;
            for (index, &word) in (start..self.base.len()).zip(&line.states[state]) {
                if self.base[index] != word {
                    sum = sum
                        .wrapping_sub(word_hash(index, self.base[index]))
                        .wrapping_add(word_hash(index, word));
                }
            }
        }
        let build = |len: usize| {
            let mut words = self.base.clone();
            for (line, &state) in self.lines.iter().zip(choice) {
                let start = line.line * LINE_WORDS;
                let end = words.len().min(start + LINE_WORDS);
                words[start..end].copy_from_slice(&line.states[state][..end - start]);
            }
            words.truncate(len);
            let hash = mix(sum ^ len as u64);
            Image { words, hash }
        };
        let len = self.base.len();
        if !visit(mix(sum ^ len as u64), &|| build(len)) {
            return false;
        }
        // What was put behind the pool may be missing as long as nothing in it has survived.
        if self.words_certain < len
            && build(len).words[self.words_certain..].iter().all(|&word| word == 0)
        {
            let len = self.words_certain;
            return visit(mix(sum ^ len as u64), &|| build(len));
        }
        true
    }
}

/// In words, which pending stores of `durable` are missing from an image.
pub fn missing(durable: &Durable, image: &Image) -> Vec<String> {
    let word_at = |index: usize| image.words.get(index).copied().unwrap_or(0);
    let mut missing = Vec::new();
    for line in &durable.pending {
        let start = line.line as usize * LINE_WORDS;
        let mut last = [None; LINE_WORDS];
        line.stores.iter().for_each(|store| last[usize::from(store.word)] = Some(store.value));
        for (word, value) in last.iter().enumerate() {
            let found = word_at(start + word);
            if let Some(value) = value.filter(|&value| value != found) {
                let at = (start + word) * 8;
                missing.push(format!(
                    "{at:#x} (line {}, word {word}): {value:#x} did not arrive, {found:#x} is there",
                    line.line
                ));
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn durable(stores: &[(u8, u64, Order)]) -> Durable {
        let stores = stores.iter().map(|&(word, value, order)| Pending { word, value, order });
        Durable {
            words: vec![0; LINE_WORDS],
            size_certain: 64,
            sum: 0,
            pending: vec![PendingLine { line: 0, stores: stores.collect() }],
        }
    }

    fn first_words(durable: &Durable) -> BTreeSet<[u64; 2]> {
        let mut random = Random::new(1);
        let mut found = BTreeSet::new();
        Images::new(durable, &mut random).visit(1000, &mut random, &mut |hash, image| {
            let image = image();
            assert_eq!(hash, image.hash);
            assert_eq!(Image::new(image.words.clone()).hash, hash);
            assert!(found.insert([image.words[0], image.words[1]]), "an image comes once");
            true
        });
        found
    }

    #[test]
    fn plain_stores_survive_in_any_order() {
        let both = durable(&[(0, 1, Order::Plain), (1, 2, Order::Plain)]);
        assert_eq!(first_words(&both), BTreeSet::from([[0, 0], [1, 0], [0, 2], [1, 2]]));
    }

    #[test]
    fn a_release_store_survives_with_what_came_before_it() {
        let ordered = durable(&[(1, 2, Order::Plain), (0, 1, Order::Release)]);
        assert_eq!(first_words(&ordered), BTreeSet::from([[0, 0], [0, 2], [1, 2]]));
        let later = durable(&[(0, 1, Order::Release), (1, 2, Order::Plain)]);
        assert!(first_words(&later).contains(&[0, 2]), "a plain store may overtake");
        let copied = durable(&[(1, 2, Order::Copy), (0, 1, Order::Release)]);
        assert!(first_words(&copied).contains(&[1, 0]), "a copy is ordered by nothing");
    }

    #[test]
    fn one_word_keeps_its_order() {
        let twice = durable(&[(0, 1, Order::Plain), (0, 2, Order::Plain)]);
        assert_eq!(first_words(&twice), BTreeSet::from([[0, 0], [1, 0], [2, 0]]));
    }

    #[test]
    fn new_memory_may_be_missing_while_nothing_in_it_is_certain() {
        let mut grown = durable(&[(0, 1, Order::Plain)]);
        grown.words = vec![0; 2 * LINE_WORDS];
        let mut random = Random::new(1);
        let mut sizes = Vec::new();
        Images::new(&grown, &mut random).visit(10, &mut random, &mut |_, image| {
            sizes.push(image().words.len());
            true
        });
        assert_eq!(sizes, [16, 8, 16, 8]);
    }
}
