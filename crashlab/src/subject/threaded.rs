//! A table for several threads with which papers compare, on memory of its own.

use super::{Failed, HASH_SEED, Refusal, Setup, Subject};
use crate::history::{Action, Key, Value};
use baselines::OpenError;
use baselines::threaded::{Kind, Shape, Threaded, create, open};
use pmem::medium::sim::Sim;
use std::sync::Arc;

/// A table of the module `threaded` of the crate `baselines`. A setup's engine parameters say which:
/// [`ThreadedSubject::params`].
pub struct ThreadedSubject {
    medium: Arc<Sim>,
    table: Box<dyn Threaded>,
}

impl ThreadedSubject {
    /// Their name on the command line.
    pub const NAME: &'static str = "threaded";

    /// A shape as a setup's engine parameters.
    pub fn params(shape: &Shape) -> [u64; 16] {
        let mut params = [0; 16];
        let Shape { kind, size_log2, part_log2, seed: _ } = *shape;
        params[..3].copy_from_slice(&[kind as u64, size_log2.into(), part_log2.into()]);
        params
    }

    fn shape(setup: &Setup) -> Shape {
        let [kind, size_log2, part_log2, ..] = setup.engine_params;
        let [size_log2, part_log2] = [size_log2, part_log2].map(|log2| log2 as u32);
        Shape { kind: Kind::ALL[kind as usize], size_log2, part_log2, seed: HASH_SEED }
    }

    fn on(medium: Arc<Sim>, table: Result<Box<dyn Threaded>, OpenError>) -> Result<Self, Refusal> {
        match table {
            Ok(table) => Ok(ThreadedSubject { medium, table }),
            Err(OpenError::NoTable) => Err(Refusal::NoPool),
            Err(error) => Err(Refusal::Wrong(error.to_string())),
        }
    }
}

impl Subject for ThreadedSubject {
    fn name(setup: &Setup) -> String {
        ThreadedSubject::shape(setup).kind.name().into()
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let medium = Arc::new(medium);
        let table = create(Arc::clone(&medium), &ThreadedSubject::shape(setup));
        ThreadedSubject::on(medium, table)
    }

    fn open(medium: Sim, setup: &Setup, _boot: u64) -> Result<Self, Refusal> {
        let medium = Arc::new(medium);
        let table = open(Arc::clone(&medium));
        // An empty table of another shape would look right.
        match Shape::on(&*medium) {
            Ok(found) if found != ThreadedSubject::shape(setup) => {
                return Err(Refusal::Wrong(format!("it has become a {found:?}")));
            }
            _ => {}
        }
        ThreadedSubject::on(medium, table)
    }

    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let key = setup.keys[usize::from(key)];
        let word = |value: Option<Value>| value.map(Setup::word);
        let found = match action {
            Action::Get => self.table.get(key),
            Action::Insert(value) => self.table.insert(key, Setup::word(value))?,
            Action::Update(value) => self.table.update(key, Setup::word(value)),
            Action::Upsert(value) => self.table.upsert(key, Setup::word(value))?,
            Action::Remove => self.table.remove(key),
            Action::OfCache(_) => return Err(Failed::of_cache(action)),
            Action::Exchange(expected, new) => {
                self.table.exchange(key, word(expected), word(new))?
            }
        };
        let value_of = |word| {
            Setup::value_of(word).ok_or_else(|| Failed::Wrong(format!("{word:#x} is no value")))
        };
        found.map(value_of).transpose()
    }

    fn resizes(&self) -> u64 {
        self.table.resizes()
    }

    fn medium(&self) -> &Sim {
        &self.medium
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        self.table.for_each(&mut |key, value| {
            let pair = setup.key_of(key).zip(Setup::value_of(value));
            pairs.push(
                pair.ok_or_else(|| format!("a pair {key:#x}, {value:#x} that nobody stored")),
            );
        });
        pairs.into_iter().collect()
    }

    fn check(&self) -> Result<(), String> {
        self.table.check()
    }
}
