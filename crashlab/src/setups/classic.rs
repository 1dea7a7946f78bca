//! Boundaries of the classic tables: where pairs move, arrays are reallocated, a stash is used, and keys are marks.

use super::FILLING;
use crate::execution::prepare;
use crate::history::{Action, Key, Op};
use crate::machine;
use crate::subject::{BaselineSubject, HASH_SEED, Setup, Subject};
use baselines::{Kind, Shape};

/// Pairs that are moved by one change, at most: the log must fit into a small pool.
const MOVES_MAX: u64 = 3;
/// Keys that are tried for what a setup is to show.
const CANDIDATES: u64 = 200;

fn shape(kind: Kind, slots: u64) -> Shape {
    Shape { stash: 2, moves_max: MOVES_MAX, ..Shape::new(kind, slots, HASH_SEED) }
}

/// A setup with these free keys, of which the first `stored` are there, and so many fillers, stored before them. Of the
/// fillers the first is removed again if there is to be a `gap`.
fn with(
    name: &'static str,
    shape: Shape,
    free: [u64; 2],
    stored: usize,
    fillers: u64,
    gap: bool,
) -> Setup {
    let others = (1..).filter(|key| !free.contains(key)).take(fillers as usize);
    let filler = |index: u64| (free.len() as u64 + index) as Key;
    let store = |key| Op::One(key, Action::Insert(FILLING));
    let before = (0..fillers).map(|index| store(filler(index)));
    let removal = gap.then(|| Op::One(filler(0), Action::Remove));
    let own = (0..stored as Key).map(store);
    Setup {
        name,
        keys: free.into_iter().chain(others).collect(),
        free_keys: free.len(),
        before: before.chain(removal).chain(own).collect(),
        engine_params: BaselineSubject::params(&shape),
        is_tight: true,
        ..Setup::default()
    }
}

/// The first setup by other free keys in which the action on the first of them writes at least so many cells; or the
/// last that was tried, which a test notices.
fn writing(make: impl Fn([u64; 2]) -> Setup, action: Action, cells_min: u64) -> Setup {
    let candidates = (1000..1000 + CANDIDATES).map(|key| make([key, key + CANDIDATES]));
    let mut last = Setup::default();
    for setup in candidates {
        if cells(&setup, action).is_some_and(|cells| cells >= cells_min) {
            return setup;
        }
        last = setup;
    }
    last
}

/// Cells that an action on the first free key writes.
pub fn cells(setup: &Setup, action: Action) -> Option<u64> {
    let table = prepare::<BaselineSubject>(setup, 1).ok()?;
    machine::alone(1, None, || {
        let sum = |(inserts, removes): (u64, u64)| inserts + removes;
        let before = sum(table.cells());
        table.call(setup, 0, action).ok()?;
        Some(sum(table.cells()) - before)
    })
}

/// All of them.
pub fn classic() -> Vec<Setup> {
    let insert = Action::Insert(FILLING);
    let probing = shape(Kind::Probing, 6);
    let shift = shape(Kind::ProbingShift, 6);
    let hopscotch = Shape { width: 3, ..shape(Kind::Hopscotch, 8) };
    let chained = Shape { width: 1, ..shape(Kind::Chained, 4) };
    let array = Shape { width: 1, ..shape(Kind::Array, 8) };
    let path = Shape { width: 2, ..shape(Kind::Path, 6) };
    let pfht = Shape { width: 2, ..shape(Kind::Pfht, 8) };
    let plain = [5, 6];
    let cuckoo = |name, kind, fillers| {
        let make = move |free| with(name, shape(kind, 16), free, 0, fillers, false);
        writing(make, insert, 2)
    };
    vec![
        with("keys that are marks", probing, [0, u64::MAX], 0, 2, false),
        with("a mark to be used again", probing, plain, 1, 5, true),
        writing(|free| with("pairs to shift", shift, free, 2, 2, false), Action::Remove, 2),
        writing(
            |free| {
                let short = Shape { moves_max: 1, ..shift };
                with("more pairs to shift than the log has room for", short, free, 2, 3, false)
            },
            Action::Remove,
            2,
        ),
        with("a freed node", chained, plain, 1, 3, true),
        with("an array to be doubled", array, plain, 0, 4, false),
        with("an array to be halved", array, plain, 2, 3, false),
        with("an array of one pair", array, plain, 1, 0, false),
        writing(|free| with("pairs that hop", hopscotch, free, 0, 5, false), insert, 4),
        with("a stash", Shape { width: 1, ..hopscotch }, plain, 1, 5, false),
        cuckoo("pairs to displace, two lines", Kind::Cuckoo24, 10),
        cuckoo("pairs to displace, buckets of two lines", Kind::Cuckoo28, 12),
        cuckoo("pairs to displace, three lines", Kind::Cuckoo34, 12),
        with("paths with a gap", path, plain, 1, 3, true),
        writing(|free| with("a pair that makes room", pfht, free, 0, 5, false), insert, 2),
        writing(|free| with("two full buckets, and a stash", pfht, free, 0, 5, false), insert, 4),
    ]
}
