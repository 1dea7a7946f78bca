//! What the pool must hold, in a mapped file: what the kernel keeps when the process is killed.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use pmem::medium::{Mapped, Memory};
use pmem::{Medium, Offset};

/// Threads that write.
pub(super) const WRITERS_MAX: u64 = 16;
/// Counts of different threads are this far apart.
const LINE_BYTES: u64 = 64;
/// Where the words of the keys begin: behind the life's own line and those of the threads.
const KEYS_AT: u64 = LINE_BYTES * (1 + WRITERS_MAX);
/// Words of a key: its state, and the one that a call under way is to bring about.
const KEY_WORDS: u64 = 2;

/// Whether a key is present; its value follows from the version and the size. Every change has a version of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    /// Sizes of values in a life.
    pub(super) const SIZES_MAX: usize = 8;

    pub(super) fn present(version: u64, size: usize) -> State {
        State(version << 4 | (size as u64) << 1 | 1)
    }

    pub(super) fn absent(version: u64) -> State {
        State(version << 4)
    }

    pub(super) fn is_present(self) -> bool {
        self.0 & 1 == 1
    }

    pub(super) fn version(self) -> u64 {
        self.0 >> 4
    }

    /// Which one of the life's sizes the value has.
    pub(super) fn size(self) -> usize {
        (self.0 >> 1 & 7) as usize
    }
}

/// How far a process is in a session, so that it can be killed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Opening = 1,
    Living = 2,
    Closing = 3,
    Over = 4,
}

/// Words of the life's own line.
const SESSION: u64 = 0;
const STAGE: u64 = 1;
const OPENINGS: u64 = 2;
const IS_MADE: u64 = 3;

/// Words of a thread's line.
const CALLS: u64 = 0;
const REFUSED: u64 = 1;

/// The file, shared by the process of a life and the one that has started it.
pub(super) struct Model(Mapped);

impl Model {
    /// Opens it; makes it first if there is none.
    pub(super) fn open(path: &Path, keys: u64) -> Result<Model> {
        let map = || -> Result<Mapped> {
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
            let bytes = (KEYS_AT + keys * KEY_WORDS * 8).next_multiple_of(4096);
            let medium = Memory::mapped(file.try_clone()?, file.metadata()?.len(), bytes, true)?;
            medium.grow(bytes)?;
            Ok(medium)
        };
        map().map(Model).with_context(|| format!("mapping {}", path.display()))
    }

    /// The state of a key after the last call that has returned, and that of a call under way.
    pub(super) fn state(&self, key: u64) -> (State, Option<State>) {
        let [state, intent] = key_words(key).map(|at| self.0.load(at));
        (State(state), (intent != 0).then_some(State(intent)))
    }

    /// A call begins that may bring the key into this state.
    pub(super) fn begin(&self, key: u64, after: State) {
        self.0.store_release(key_words(key)[1], after.0);
    }

    /// The key has this state, and no call is under way.
    pub(super) fn settle(&self, key: u64, state: State) {
        let [at, intent] = key_words(key);
        self.0.store_release(at, state.0);
        self.0.store_release(intent, 0);
    }

    pub(super) fn session(&self) -> u64 {
        self.0.load(own(SESSION))
    }

    pub(super) fn set_session(&self, session: u64) {
        self.0.store_release(own(SESSION), session);
    }

    pub(super) fn is_at(&self, stage: Stage) -> bool {
        self.0.load(own(STAGE)) >= stage as u64
    }

    pub(super) fn set_stage(&self, stage: Option<Stage>) {
        self.0.store_release(own(STAGE), stage.map_or(0, |stage| stage as u64));
    }

    pub(super) fn openings(&self) -> u64 {
        self.0.load(own(OPENINGS))
    }

    pub(super) fn count_opening(&self) {
        self.0.store_release(own(OPENINGS), self.openings() + 1);
    }

    /// Whether the pool has been made.
    pub(super) fn is_made(&self) -> bool {
        self.0.load(own(IS_MADE)) != 0
    }

    pub(super) fn set_made(&self) {
        self.0.store_release(own(IS_MADE), 1);
    }

    /// Counts a call of this thread.
    pub(super) fn count_call(&self, writer: u64) {
        self.count(writer, CALLS);
    }

    /// Counts a change of this thread that was refused for want of space.
    pub(super) fn count_refused(&self, writer: u64) {
        self.count(writer, REFUSED);
    }

    fn count(&self, writer: u64, word: u64) {
        let at = of_writer(writer, word);
        self.0.store_release(at, self.0.load(at) + 1);
    }

    /// Calls of all threads.
    pub(super) fn calls(&self) -> u64 {
        (0..WRITERS_MAX).map(|writer| self.0.load(of_writer(writer, CALLS))).sum()
    }

    /// Changes that were refused.
    pub(super) fn refused(&self) -> u64 {
        (0..WRITERS_MAX).map(|writer| self.0.load(of_writer(writer, REFUSED))).sum()
    }
}

fn key_words(key: u64) -> [Offset; 2] {
    let at = Offset(KEYS_AT + key * KEY_WORDS * 8);
    [at, at.word(1)]
}

fn own(word: u64) -> Offset {
    Offset(0).word(word)
}

fn of_writer(writer: u64, word: u64) -> Offset {
    Offset(LINE_BYTES * (1 + writer)).word(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_what_they_were_made_of_and_survive_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        let states = [State::absent(1 << 40), State::present(9, 7), State::present(1 << 40, 0)];
        {
            let model = Model::open(&path, 3).unwrap();
            assert_eq!(model.state(2), (State::absent(0), None));
            for (key, state) in (0..).zip(states) {
                model.settle(key, state);
            }
            model.begin(1, states[0]);
            model.count_call(WRITERS_MAX - 1);
            model.count_call(0);
            model.set_stage(Some(Stage::Living));
        }
        let model = Model::open(&path, 3).unwrap();
        assert_eq!(model.state(0), (states[0], None));
        assert_eq!(model.state(1), (states[1], Some(states[0])));
        assert_eq!(model.state(2), (states[2], None));
        let [absent, seven, _] = states;
        assert_eq!((absent.is_present(), absent.version()), (false, 1 << 40));
        assert_eq!((seven.is_present(), seven.version(), seven.size()), (true, 9, 7));
        assert_eq!((model.calls(), model.refused()), (2, 0));
        assert!(model.is_at(Stage::Living) && !model.is_at(Stage::Closing));
    }
}
