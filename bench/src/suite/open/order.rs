//! What a process of its own does with a store.

use crate::byte_store::ByteStore;
use crate::choices::Kind;
use crate::contender;
use crate::contender::Contender;
use crate::contents::{Contents, KEY_BYTES};
use crate::kept::Form;
use crate::keys::Writer;
use crate::own;
use crate::victim::{Obeyed, OpenOrder, Task};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Bytes of a table's keys and values.
const WORD_BYTES: usize = 8;
/// Bytes of a store's values.
const VALUE_BYTES: usize = 100;
/// Pairs of a list that is put at once while a store is filled.
const LIST: u64 = 10_000;
/// Salt of the order in which pairs are put again.
const ORDER: u64 = 41;
/// At most this many of all pairs are looked up by an opening, and as many of those that were put last.
const CHECKS_MAX: u64 = 1 << 14;

/// Bytes of a form's values.
pub(super) fn value_bytes(form: Form) -> usize {
    match form.kind {
        Kind::Table => WORD_BYTES,
        Kind::Store => VALUE_BYTES,
    }
}

/// Seconds from the beginning of the opening.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(super) get_s: Option<f64>,
    pub(super) put_s: Option<f64>,
    pub(super) synced_s: Option<f64>,
    pub(super) built_s: Option<f64>,
}

/// Does what was ordered, and leaves the store open.
pub(crate) fn obey(order: &OpenOrder, contenders: &[Box<dyn Contender>]) -> Result<Obeyed> {
    let contender = contender::on_disk(contenders, &order.contender)?;
    let key_bytes = if order.form.kind == Kind::Table { WORD_BYTES } else { KEY_BYTES };
    let contents = Contents::new(order.seed, order.pairs, value_bytes(order.form));
    let contents = contents.with_keys_of(key_bytes);
    let worker = Worker { order, contents };
    let (report, store) = match order.task {
        Task::Fill => {
            let store = worker.open(contender)?;
            worker.fill(&*store)?;
            (Report::default(), store)
        }
        Task::Touch { get, put } => worker.touch(contender, get, put)?,
        Task::Put { pairs, synced } => worker.put(contender, pairs, synced)?,
    };
    let report = serde_json::to_string(&report)?;
    Ok(Obeyed { report, close: Box::new(move || store.close()) })
}

struct Worker<'a> {
    order: &'a OpenOrder,
    contents: Contents,
}

impl Worker<'_> {
    fn open(&self, contender: &dyn Contender) -> Result<Box<dyn ByteStore>> {
        let OpenOrder { form, directory, pools, pairs, seed, .. } = self.order;
        match (contender.engine(), form.logging) {
            (Some(engine), Some(logging)) => {
                let place = own::Place::new(directory, pools.as_deref());
                own::open(&own::options(engine, logging, &place, *seed), form.kind, &place, *pairs)
            }
            _ => contender.open_store(directory, *seed),
        }
    }

    fn fill(&self, store: &dyn ByteStore) -> Result<()> {
        for from in (0..self.order.pairs).step_by(LIST as usize) {
            let numbers = from..self.order.pairs.min(from + LIST);
            let words: Vec<u64> = numbers.map(|number| self.contents.word(number)).collect();
            store.put(&self.contents.pairs_of(&words, Writer::Insert).pairs())?;
        }
        Ok(())
    }

    /// The number of the pair that is put next after so many.
    fn number_of(&self, put: u64) -> u64 {
        self.contents.order(ORDER).apply(put % self.order.pairs)
    }

    /// Looks up the pairs of these numbers; those that were put again have their second value.
    fn look_up(&self, store: &dyn ByteStore, numbers: &[u64], writer: Writer) -> Result<u64> {
        let words: Vec<u64> = numbers.iter().map(|&number| self.contents.word(number)).collect();
        let list = self.contents.keys(&words);
        let mut right = 0;
        store.get(&list.keys(), &mut |place, found| {
            let is_right =
                found.is_some_and(|found| self.contents.is_value(words[place], writer, found));
            right += u64::from(is_right);
        })?;
        Ok(right)
    }

    /// The pair that was put last, or the first one, and who has put it.
    fn last(&self) -> (u64, Writer) {
        match self.order.changed.checked_sub(1) {
            Some(put) => (self.number_of(put), Writer::Update),
            None => (0, Writer::Insert),
        }
    }

    fn touch(
        &self,
        contender: &dyn Contender,
        get: bool,
        put: bool,
    ) -> Result<(Report, Box<dyn ByteStore>)> {
        let (last, writer) = self.last();
        let number = self.number_of(self.order.changed);
        let word = self.contents.word(number);
        let list = self.contents.pairs_of(&[word], Writer::Update);
        let pair = list.pairs();
        let mut report = Report::default();
        let started = Instant::now();
        let passed_s = || Some(started.elapsed().as_secs_f64());
        let store = self.open(contender)?;
        if get {
            let right = self.look_up(&*store, &[last], writer)?;
            report.get_s = passed_s();
            ensure!(right == 1, "the first get after opening is wrong: pair {last}");
        }
        if put {
            store.put(&pair)?;
            report.put_s = passed_s();
            store.sync()?;
            report.synced_s = passed_s();
        }
        if get {
            store.wait_until_built()?;
            report.built_s = passed_s();
        }
        self.check(&*store, self.order.changed + u64::from(put))?;
        Ok((report, store))
    }

    /// Looks up the pairs that were put last, and a sample of all.
    fn check(&self, store: &dyn ByteStore, changed: u64) -> Result<()> {
        let distinct = changed.min(self.order.pairs);
        let again: Vec<u64> = (distinct.saturating_sub(CHECKS_MAX)..distinct)
            .map(|put| self.number_of(put))
            .collect();
        let right = self.look_up(store, &again, Writer::Update)?;
        let count = again.len() as u64;
        ensure!(right == count, "{} of the {count} pairs put last are wrong", count - right);
        let others = self.order.pairs - distinct;
        let step = others.div_ceil(CHECKS_MAX).max(1) as usize;
        let places = (distinct..self.order.pairs).step_by(step);
        let sample: Vec<u64> = places.map(|put| self.number_of(put)).collect();
        let right = self.look_up(store, &sample, Writer::Insert)?;
        let count = sample.len() as u64;
        ensure!(right == count, "{} of {count} pairs looked up are wrong", count - right);
        Ok(())
    }

    fn put(
        &self,
        contender: &dyn Contender,
        pairs: u64,
        synced: bool,
    ) -> Result<(Report, Box<dyn ByteStore>)> {
        let mut report = Report::default();
        let changed = self.order.changed;
        let word_of = |put: u64| self.contents.word(self.number_of(put));
        // Made before the clock starts, as far as they are few.
        let first = self.contents.pairs_of(&[word_of(changed)], Writer::Update);
        let started = Instant::now();
        let store = self.open(contender)?;
        store.put(&first.pairs())?;
        report.put_s = Some(started.elapsed().as_secs_f64());
        let ends = changed + pairs;
        for from in (changed + 1..ends).step_by(LIST as usize) {
            let words: Vec<u64> = (from..ends.min(from + LIST)).map(word_of).collect();
            let list = self.contents.pairs_of(&words, Writer::Update);
            if synced {
                store.put(&list.pairs())?;
            } else {
                // Each by itself, as a program does that changes something now and then.
                list.pairs().iter().try_for_each(|pair| store.put(&[*pair]))?;
            }
        }
        if synced {
            store.sync().context("making puts durable")?;
        }
        Ok((report, store))
    }
}
