//! Link-and-persist, for engines that publish by one word: no production code yet.
//!
//! A word carries a bit DIRTY until it is known to be durable. A thread that meets the bit flushes, fences and clears
//! it by compare-and-swap, and only then answers.
//!
//! Property: once a reader has answered a value, the durable copy has that value or a newer one. The durable copy is
//! another atomic, which a flush with its fence brings up to the word. It is read relaxed, so a reader must know of the
//! flush, not only come after it.

use crate::explore::{breaks, holds};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    reader_persists: bool,
    reader_persists_before_clearing: bool,
    writer_persists_before_clearing: bool,
    load: Ordering,
    clear: Ordering,
}

const PROPOSED: Protocol = Protocol {
    reader_persists: true,
    reader_persists_before_clearing: true,
    writer_persists_before_clearing: true,
    load: Ordering::Acquire,
    clear: Ordering::Release,
};

const DIRTY: u64 = 1 << 63;
const NOT_DURABLE: &str = "answered what is not durable";

struct Word {
    protocol: Protocol,
    word: AtomicU64,
    durable: AtomicU64,
}

impl Word {
    fn persist(&self) {
        let value = self.word.load(Ordering::Relaxed) & !DIRTY;
        self.durable.fetch_max(value, Ordering::Relaxed);
    }

    fn clear(&self, value: u64) {
        let clear = self.protocol.clear;
        let _ = self.word.compare_exchange(value | DIRTY, value, clear, Ordering::Relaxed);
    }

    fn persist_and_clear(&self, value: u64, persists_before_clearing: bool) {
        if persists_before_clearing {
            self.persist();
            self.clear(value);
        } else {
            self.clear(value);
            self.persist();
        }
    }

    fn write(&self, value: u64) {
        self.word.store(value | DIRTY, Ordering::Release);
        self.persist_and_clear(value, self.protocol.writer_persists_before_clearing);
    }

    fn read(&self) {
        let found = self.word.load(self.protocol.load);
        let value = found & !DIRTY;
        if found & DIRTY != 0 && self.protocol.reader_persists {
            self.persist_and_clear(value, self.protocol.reader_persists_before_clearing);
        }
        assert!(self.durable.load(Ordering::Relaxed) >= value, "{NOT_DURABLE}");
    }
}

/// A writer of `values` values, and `readers` readers.
fn model(protocol: Protocol, values: u64, readers: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let word = Arc::new(Word { protocol, word: AtomicU64::new(0), durable: AtomicU64::new(0) });
        let shared = Arc::clone(&word);
        let writer = thread::spawn(move || (1..=values).for_each(|value| shared.write(value)));
        let readers = (0..readers).map(|_| {
            let shared = Arc::clone(&word);
            thread::spawn(move || shared.read())
        });
        let readers: Vec<_> = readers.collect();
        writer.join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    }
}

fn spoilt(protocol: Protocol) {
    breaks(NOT_DURABLE, Some(2), model(protocol, 1, 2));
}

#[test]
fn what_is_answered_is_durable() {
    holds(Some(2), model(PROPOSED, 1, 2));
    holds(None, model(PROPOSED, 2, 1));
}

#[test]
fn spoilt_reader_that_does_not_persist() {
    spoilt(Protocol { reader_persists: false, ..PROPOSED });
}

#[test]
fn spoilt_reader_that_clears_first() {
    spoilt(Protocol { reader_persists_before_clearing: false, ..PROPOSED });
}

#[test]
fn spoilt_writer_that_clears_first() {
    spoilt(Protocol { writer_persists_before_clearing: false, ..PROPOSED });
}

#[test]
fn spoilt_clear_relaxed() {
    spoilt(Protocol { clear: Ordering::Relaxed, ..PROPOSED });
}

#[test]
fn spoilt_load_relaxed() {
    spoilt(Protocol { load: Ordering::Relaxed, ..PROPOSED });
}
