//! Engines on words, for all types of 8 bytes.

use engines::engine::as_pairs;
use index::{
    CheckReport, Error, Exchange, Fixed, Index, Occupancy, Scan, Shrunk, Unfinished, WhenBuilt,
};
use pmem::heap::{Compacted, HeapUse};
use pmem::view::View;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// `index`, whose keys and values are words, for a `K` and a `V` of one word each.
pub(crate) fn boxed<K: Fixed, V: Fixed>(index: Box<dyn Index<u64, u64>>) -> Box<dyn Index<K, V>> {
    // Where they are words already, batches need not be copied.
    as_pairs(index).unwrap_or_else(|words| Box::new(OfWords(words)))
}

/// The value that is this word.
#[inline(always)]
pub(crate) fn of_word<V: Fixed>(word: u64) -> V {
    V::of_words(|_| word)
}

/// The word that this value is.
#[inline(always)]
pub(crate) fn word_of<V: Fixed>(value: V) -> u64 {
    value.word(0)
}

/// An engine whose keys and values are words, under keys and values that are one word each.
struct OfWords(Box<dyn Index<u64, u64>>);

impl OfWords {
    fn pairs_many<K: Fixed, V: Fixed>(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
        run: impl FnOnce(
            &dyn Index<u64, u64>,
            &[(u64, u64)],
            &mut [Option<u64>],
        ) -> Result<(), Unfinished<Error>>,
    ) -> Result<(), Unfinished<Error>> {
        let pairs: Vec<_> =
            pairs.iter().map(|&(key, value)| (key.word(0), value.word(0))).collect();
        converted(out, |out| run(&*self.0, &pairs, out))
    }
}

/// What `run` leaves in a copy of `out` in words, in `out`: also on an error, since some of the
/// batch was then done.
fn converted<V: Fixed, T>(out: &mut [Option<V>], run: impl FnOnce(&mut [Option<u64>]) -> T) -> T {
    let mut words: Vec<_> = out.iter().map(|value| value.map(word_of)).collect();
    let done = run(&mut words);
    for (value, word) in out.iter_mut().zip(words) {
        *value = word.map(of_word);
    }
    done
}

fn words_of<K: Fixed>(keys: &[K]) -> Vec<u64> {
    keys.iter().copied().map(word_of).collect()
}

impl<K: Fixed, V: Fixed> Index<K, V> for OfWords {
    fn get(&self, key: K) -> Option<V> {
        self.0.get(key.word(0)).map(of_word)
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        Ok(self.0.insert(key.word(0), value.word(0))?.map(of_word))
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        Ok(self.0.update(key.word(0), value.word(0))?.map(of_word))
    }

    fn upsert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        Ok(self.0.upsert(key.word(0), value.word(0))?.map(of_word))
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        Ok(self.0.remove(key.word(0))?.map(of_word))
    }

    fn compare_exchange(
        &self,
        key: K,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<Exchange<V>, Error> {
        let (expected, new) = (expected.map(word_of), new.map(word_of));
        let done = self.0.compare_exchange(key.word(0), expected, new)?;
        Ok(done.map_err(|found| found.map(of_word)))
    }

    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        converted(out, |out| self.0.get_many(&words_of(keys), out));
    }

    fn insert_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        self.pairs_many(pairs, out, |words, pairs, out| words.insert_many(pairs, out))
    }

    fn update_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        self.pairs_many(pairs, out, |words, pairs, out| words.update_many(pairs, out))
    }

    fn upsert_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        self.pairs_many(pairs, out, |words, pairs, out| words.upsert_many(pairs, out))
    }

    fn remove_many(&self, keys: &[K], out: &mut [Option<V>]) -> Result<(), Unfinished<Error>> {
        converted(out, |out| self.0.remove_many(&words_of(keys), out))
    }

    fn compare_exchange_many(
        &self,
        changes: &[(K, Option<V>, Option<V>)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        let changes: Vec<_> = changes
            .iter()
            .map(|&(key, expected, new)| (key.word(0), expected.map(word_of), new.map(word_of)))
            .collect();
        converted(out, |out| self.0.compare_exchange_many(&changes, out))
    }

    fn scan(&self) -> Box<dyn Scan<K, V> + '_> {
        Box::new(ScanOfWords { scan: self.0.scan(), words: Vec::new() })
    }

    fn for_each_on(&self, threads: usize, visit: &(dyn Fn(K, V) -> ControlFlow<()> + Sync)) {
        self.0.for_each_on(threads, &|key, value| visit(of_word(key), of_word(value)));
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn occupancy(&self) -> Occupancy {
        self.0.occupancy()
    }

    fn heap_use(&self) -> HeapUse {
        self.0.heap_use()
    }

    fn compact(&self) -> Compacted {
        self.0.compact()
    }

    fn give_back(&self) -> u64 {
        self.0.give_back()
    }

    fn check(&self) -> CheckReport {
        self.0.check()
    }

    fn settle(&self) {
        self.0.settle();
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        self.0.shrink()
    }

    fn scan_time(&self) -> Duration {
        self.0.scan_time()
    }

    fn is_built(&self) -> bool {
        self.0.is_built()
    }

    fn when_built(&self, then: WhenBuilt) {
        self.0.when_built(then);
    }

    fn view(&self) -> Option<Arc<View>> {
        self.0.view()
    }
}

/// A scan of the words.
struct ScanOfWords<'a> {
    scan: Box<dyn Scan<u64, u64> + 'a>,
    words: Vec<(u64, u64)>,
}

impl<K: Fixed, V: Fixed> Scan<K, V> for ScanOfWords<'_> {
    fn take_some(&mut self, pairs: &mut Vec<(K, V)>) -> Result<bool, Error> {
        let goes_on = self.scan.take_some(&mut self.words);
        pairs.extend(self.words.drain(..).map(|(key, value)| (of_word(key), of_word(value))));
        goes_on
    }
}
