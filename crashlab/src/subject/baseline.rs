//! A classic table on memory of its own, used by one thread after another.

use super::{Failed, HASH_SEED, Refusal, Setup, Subject};
use crate::history::{Action, Key, Value};
use baselines::{Full, Kind, OpenError, Shape, Table};
use pmem::medium::sim::Sim;
use pmem::sync::Mutex;
use std::sync::Arc;

/// A table of the crate `baselines`. A setup's engine parameters say which: [`BaselineSubject::params`].
pub struct BaselineSubject {
    medium: Arc<Sim>,
    /// Held by whoever uses it.
    table: Mutex<Box<dyn Table>>,
}

impl BaselineSubject {
    /// Their name on the command line.
    pub const NAME: &'static str = "baselines";

    /// A shape as a setup's engine parameters.
    pub fn params(shape: &Shape) -> [u64; 16] {
        let mut params = [0; 16];
        let Shape { kind, slots, stash, width, moves_max, seed: _ } = *shape;
        params[..5].copy_from_slice(&[kind as u64, slots, stash, width, moves_max]);
        params
    }

    fn shape(setup: &Setup) -> Shape {
        let [kind, slots, stash, width, moves_max, ..] = setup.engine_params;
        Shape { kind: Kind::ALL[kind as usize], slots, stash, width, moves_max, seed: HASH_SEED }
    }

    fn on(medium: Arc<Sim>, table: Result<Box<dyn Table>, OpenError>) -> Result<Self, Refusal> {
        match table {
            Ok(table) => Ok(BaselineSubject { medium, table: Mutex::new(table) }),
            Err(OpenError::NoTable) => Err(Refusal::NoPool),
            Err(error) => Err(Refusal::Wrong(error.to_string())),
        }
    }

    /// Cells that insertions and removals have written since the table was opened.
    pub fn cells(&self) -> (u64, u64) {
        let changes = self.table.lock().changes();
        (changes.inserts.cells, changes.removes.cells)
    }

    /// Pairs in the table's stash.
    pub fn stashed(&self) -> u64 {
        self.table.lock().stashed()
    }
}

impl Subject for BaselineSubject {
    fn name(setup: &Setup) -> String {
        BaselineSubject::shape(setup).kind.name().into()
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let medium = Arc::new(medium);
        let table = baselines::create(Arc::clone(&medium), &BaselineSubject::shape(setup));
        BaselineSubject::on(medium, table)
    }

    fn open(medium: Sim, setup: &Setup, _boot: u64) -> Result<Self, Refusal> {
        let medium = Arc::new(medium);
        let table = baselines::open(Arc::clone(&medium));
        // An empty table of another shape would look right.
        match Shape::on(&*medium) {
            Ok(found) if found != BaselineSubject::shape(setup) => {
                return Err(Refusal::Wrong(format!("it has become a {found:?}")));
            }
            _ => {}
        }
        BaselineSubject::on(medium, table)
    }

    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let key = setup.keys[usize::from(key)];
        let mut table = self.table.lock();
        let full = |Full| Failed::Full;
        let value_of = |word| {
            Setup::value_of(word).ok_or_else(|| Failed::Wrong(format!("{word:#x} is no value")))
        };
        let found = match action {
            Action::Get => table.get(key),
            Action::Insert(value) => table.insert(key, Setup::word(value)).map_err(full)?,
            Action::Update(value) => table.update(key, Setup::word(value)),
            Action::Upsert(value) => match table.update(key, Setup::word(value)) {
                None => table.insert(key, Setup::word(value)).map_err(full)?,
                found => found,
            },
            Action::Remove => table.remove(key),
            Action::OfCache(_) => return Err(Failed::of_cache(action)),
            Action::Exchange(expected, new) => {
                let found = table.get(key);
                match (found.map(value_of).transpose()? == expected, found, new) {
                    (false, ..) | (_, None, None) => {}
                    (_, Some(_), None) => _ = table.remove(key),
                    (_, Some(_), Some(new)) => _ = table.update(key, Setup::word(new)),
                    (_, None, Some(new)) => {
                        table.insert(key, Setup::word(new)).map_err(full)?;
                    }
                }
                found
            }
        };
        found.map(value_of).transpose()
    }

    fn medium(&self) -> &Sim {
        &self.medium
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        self.table.lock().for_each(&mut |key, value| {
            let pair = setup.key_of(key).zip(Setup::value_of(value));
            pairs.push(
                pair.ok_or_else(|| format!("a pair {key:#x}, {value:#x} that nobody stored")),
            );
        });
        pairs.into_iter().collect()
    }

    fn check(&self) -> Result<(), String> {
        self.table.lock().check()
    }
}
