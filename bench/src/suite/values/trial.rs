//! Every operation by itself, on one store that stays open.

use super::rows::{lists, row};
use crate::byte_store::ByteStore;
use crate::contents::Contents;
use crate::crew::refuse_wrong;
use crate::keys::Writer;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

/// Orders of the pairs, one per operation.
const GETS: u64 = 31;
const GETS_MANY: u64 = 32;
const OVERWRITES: u64 = 33;
const REMOVALS: u64 = 34;
/// At most this many pairs are looked at again after the clock has stopped.
const CHECKS_MAX: u64 = 1 << 17;

/// One store on trial.
pub(super) struct Trial<'a> {
    store: &'a dyn ByteStore,
    contents: &'a Contents,
    name: &'a str,
    setting: &'a Setting,
    rows: Vec<Row>,
}

impl<'a> Trial<'a> {
    /// A trial of an empty store.
    pub(super) fn new(
        store: &'a dyn ByteStore,
        contents: &'a Contents,
        name: &'a str,
        setting: &'a Setting,
    ) -> Trial<'a> {
        Trial { store, contents, name, setting, rows: Vec::new() }
    }

    /// All operations in turn.
    pub(super) fn run(mut self) -> Result<Vec<Row>> {
        let (contents, pairs) = (self.contents, self.contents.pairs());
        let ops = self.setting.ops.min(pairs);
        let removals = ops.min(pairs / 2);
        let stored = |salt| {
            let order = contents.order(salt);
            move |place| contents.word(order.apply(place))
        };
        self.put("load", pairs, &|number| contents.word(number), Writer::Insert)?;
        self.get("get", None, ops, &stored(GETS), Some(Writer::Insert))?;
        if self.store.has_get_many() {
            let batch = Some(self.setting.batch);
            self.get("get_many", batch, ops, &stored(GETS_MANY), Some(Writer::Insert))?;
        }
        self.get("miss", None, ops, &|number| contents.absent(number), None)?;
        self.put("overwrite", ops, &stored(OVERWRITES), Writer::Update)?;
        self.remove(removals, &stored(REMOVALS))?;
        self.check(ops, removals).context("what the operations have left")?;
        Ok(self.rows)
    }

    fn row(&mut self, op: &str, batch: Option<usize>, ops: u64, spent: Duration, left: u64) {
        let row = Row { batch, pairs: Some(left), ..row(self.setting, op, self.name) };
        self.rows.push(row.with_rate(ops as f64 / spent.as_secs_f64().max(1e-9), None));
    }

    fn put(&mut self, op: &str, ops: u64, word: &dyn Fn(u64) -> u64, writer: Writer) -> Result<()> {
        let mut spent = Duration::ZERO;
        for places in lists(ops) {
            let words: Vec<u64> = places.map(word).collect();
            let list = self.contents.pairs_of(&words, writer);
            let pairs = list.pairs();
            let started = Instant::now();
            self.store.put(&pairs).with_context(|| op.to_owned())?;
            spent += started.elapsed();
        }
        self.row(op, None, ops, spent, self.contents.pairs());
        Ok(())
    }

    /// Looks keys up. Each must have what the writer stored, or be absent.
    fn get(
        &mut self,
        op: &str,
        batch: Option<usize>,
        ops: u64,
        word: &dyn Fn(u64) -> u64,
        writer: Option<Writer>,
    ) -> Result<()> {
        let contents = self.contents;
        let is_right = |word: u64, found: Option<&[u8]>| match (writer, found) {
            (Some(writer), Some(found)) => contents.is_value(word, writer, found),
            (writer, found) => writer.is_none() && found.is_none(),
        };
        let mut spent = Duration::ZERO;
        // Right answers are counted, so a store that does not answer for a key is noticed, too.
        let mut right = 0;
        for places in lists(ops) {
            let words: Vec<u64> = places.map(word).collect();
            let list = contents.keys(&words);
            let keys = list.keys();
            let started = Instant::now();
            match batch {
                None => self.store.get(&keys, &mut |place, found| {
                    right += u64::from(is_right(words[place], found));
                })?,
                Some(batch) => {
                    for (keys, words) in keys.chunks(batch).zip(words.chunks(batch)) {
                        self.store.get_many(keys, &mut |place, found| {
                            right += u64::from(is_right(words[place], found));
                        })?;
                    }
                }
            }
            spent += started.elapsed();
        }
        refuse_wrong(op, ops - right, ops)?;
        self.row(op, batch, ops, spent, contents.pairs());
        Ok(())
    }

    fn remove(&mut self, ops: u64, word: &dyn Fn(u64) -> u64) -> Result<()> {
        let mut spent = Duration::ZERO;
        for places in lists(ops) {
            let words: Vec<u64> = places.map(word).collect();
            let list = self.contents.keys(&words);
            let keys = list.keys();
            let started = Instant::now();
            let removed = self.store.remove(&keys)?;
            spent += started.elapsed();
            let expected = keys.len();
            ensure!(
                removed.is_none_or(|removed| removed == expected),
                "remove: {removed:?} of {expected} keys were there"
            );
        }
        self.row("remove", None, ops, spent, self.contents.pairs() - ops);
        Ok(())
    }

    /// Looks up a sample of what the operations should have left, off the clock.
    fn check(&self, overwritten: u64, removed: u64) -> Result<()> {
        let contents = self.contents;
        let mut left = vec![Some(Writer::Insert); contents.pairs() as usize];
        let changes = [(OVERWRITES, overwritten, Some(Writer::Update)), (REMOVALS, removed, None)];
        for (salt, count, writer) in changes {
            let order = contents.order(salt);
            for place in 0..count {
                left[order.apply(place) as usize] = writer;
            }
        }
        let step = contents.pairs().div_ceil(CHECKS_MAX).max(1);
        let numbers: Vec<u64> = (0..contents.pairs()).step_by(step as usize).collect();
        let words: Vec<u64> = numbers.iter().map(|&number| contents.word(number)).collect();
        let list = contents.keys(&words);
        let mut right = 0;
        self.store.get(&list.keys(), &mut |place, found| {
            let expected = left[numbers[place] as usize];
            right += u64::from(match (expected, found) {
                (Some(writer), Some(found)) => contents.is_value(words[place], writer, found),
                (expected, found) => expected.is_none() && found.is_none(),
            });
        })?;
        let count = numbers.len() as u64;
        refuse_wrong("looking everything up", count - right, count)
    }
}
