//! What a line log has to keep in order, and nothing else: a pair of lines per key, and stores that rest on each
//! other.
//!
//! A key has a line that says which version counts, and a line for the content of each second version:
//!
//! | line | words |
//! |---|---|
//! | 0 | mark of the even version, mark of the odd one, …, number of the version that counts (the last word) |
//! | 1, 2 | content of the even version, of the odd one |
//!
//! A writer stores the content; flush; fence; the mark; the number, ordered behind the mark in its line; flush; fence.
//! A reader makes line 0 durable, all of it, before it answers. No engine has a word that counts behind the words that
//! it vouches for, or readers that write back so much. So this finds what a log may be spared by engines.

use super::{Failed, Refusal, Setup, Subject, place, spec};
use crate::history::{Action, Key, Value};
use pmem::medium::sim::Sim;
use pmem::superblock::PoolKind;
use pmem::sync::Mutex;
use pmem::{LINE, Medium, Offset, Pool};

const OWNER: u8 = 9;
const LINES_PER_KEY: u64 = 3;
/// The word of a key's first line that says which version counts.
const NUMBER_WORD: u64 = 7;

/// A value, or none, as a word that is not 0.
fn word_of(state: Option<Value>) -> u64 {
    1 + state.map_or(0, |value| u64::from(value) + 1)
}

fn state_of(word: u64) -> Option<Value> {
    word.checked_sub(2).map(|value| value as Value)
}

/// A register per key.
pub struct LinesSubject {
    pool: Pool<Sim>,
    first: Offset,
    /// Held by writers.
    writing: Mutex<()>,
}

impl LinesSubject {
    fn on(pool: Pool<Sim>, setup: &Setup) -> Result<Self, Refusal> {
        if pool.extents_of(OWNER).is_empty() {
            let bytes = setup.keys.len() as u64 * LINES_PER_KEY * LINE;
            let taken = pool.extend(|draft| draft.take_extent(OWNER, 0, bytes));
            taken.map_err(|error| Refusal::Wrong(error.to_string()))?;
        }
        let first = pool.extents_of(OWNER)[0].start;
        Ok(LinesSubject { pool, first, writing: Mutex::new(()) })
    }

    fn line(&self, key: Key, line: u64) -> Offset {
        self.first.add((u64::from(key) * LINES_PER_KEY + line) * LINE)
    }

    /// The version that counts, and its state.
    fn read(&self, key: Key) -> Result<(u64, Option<Value>), Failed> {
        let (medium, head) = (self.medium(), self.line(key, 0));
        loop {
            let number = medium.load(head.word(NUMBER_WORD));
            let mark = medium.load(head.word(number % 2));
            let content = medium.load(self.line(key, 1 + number % 2));
            if medium.load(head.word(NUMBER_WORD)) != number {
                continue;
            }
            if mark != content {
                let what = format!("version {number} has mark {mark} and content {content}");
                return Err(Failed::Wrong(what));
            }
            return Ok((number, state_of(content)));
        }
    }
}

impl Subject for LinesSubject {
    fn name(_setup: &Setup) -> String {
        "lines".into()
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let spec = spec(setup, PoolKind::Table, 1, [0; 16]);
        LinesSubject::on(Pool::create(medium, &spec, place(0))?, setup)
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        LinesSubject::on(Pool::open(medium, place(boot))?, setup)
    }

    fn call(&self, _setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let (medium, head) = (self.medium(), self.line(key, 0));
        if action == Action::Get {
            let (_, found) = self.read(key)?;
            medium.persist(head);
            return Ok(found);
        }
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let _writing = self.writing.lock();
        let (number, found) = self.read(key)?;
        let next = action.apply(found);
        if next != found {
            let (number, word) = (number + 1, word_of(next));
            let content = self.line(key, 1 + number % 2);
            medium.store(content, word);
            medium.persist(content);
            medium.store(head.word(number % 2), word);
            medium.store_release(head.word(NUMBER_WORD), number);
            medium.persist(head);
        }
        Ok(found)
    }

    fn wait_for_writers(&self) {
        self.pool.wait_for_writers();
    }

    fn medium(&self) -> &Sim {
        self.pool.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        for key in 0..setup.keys.len() as Key {
            let (_, found) = self.read(key).map_err(|failed| format!("{failed:?}"))?;
            pairs.extend(found.map(|value| (key, value)));
        }
        Ok(pairs)
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
