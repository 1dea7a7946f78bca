//! Tables with a helper, which leaves less to their writers, tables that several threads recover, and tables where
//! nothing is flushed.

use crate::history::Op;
use crate::subject::Setup;

/// Of these setups those of the first names, under the second ones, with a helper.
pub fn with_helper(setups: Vec<Setup>, names: &[[&'static str; 2]]) -> Vec<Setup> {
    renamed(setups, names, |setup| Setup { has_helper: true, ..setup })
}

pub(crate) fn renamed(
    setups: Vec<Setup>,
    names: &[[&'static str; 2]],
    change: impl Fn(Setup) -> Setup,
) -> Vec<Setup> {
    let found = |[of, name]: &[&'static str; 2]| {
        let Some(setup) = setups.iter().find(|setup| setup.name == *of) else {
            panic!("no setup is called {of:?}");
        };
        change(Setup { name, ..setup.clone() })
    };
    names.iter().map(found).collect()
}

/// Also the first setup, synced in a file: its helper must leave it alone.
pub fn with_synced(mut setups: Vec<Setup>, name: &'static str) -> Vec<Setup> {
    if let Some(first) = setups.first() {
        let before: Vec<Op> = first.before.iter().cloned().chain([Op::Sync]).collect();
        let synced = Setup { name, before, syncs: true, is_mapped: true, ..first.clone() };
        setups.push(synced);
    }
    setups
}

/// Of these setups those of the first names, under the second ones, where nothing is flushed and all is kept: engines
/// have a shorter way through a change there.
pub fn unflushed(setups: Vec<Setup>, names: &[[&'static str; 2]]) -> Vec<Setup> {
    renamed(setups, names, |setup| Setup { keeps_all: true, ..setup })
}

/// Of these setups those of the first names, under the second ones, recovered by two threads.
pub fn recovered(setups: Vec<Setup>, names: &[[&'static str; 2]]) -> Vec<Setup> {
    renamed(setups, names, |setup| Setup { recovery_threads: 2, ..setup })
}
