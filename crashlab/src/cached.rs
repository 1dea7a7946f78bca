//! Histories of the cache. Its segments are so small that a few items fill one, and there are so few of them that puts
//! make room all the time.

use crate::arena::Effort;
use crate::boundaries::{interleaved, shared};
use crate::cache_calls::touch;
use crate::history::{Action, Key, Op, Value};
use crate::subject::{CacheSubject, HASH_SEED, Setup};
use crate::trial::{Directed, Look};
use index::hash::Hasher;

pub(crate) const EFFORT: Effort = Effort {
    histories: 300,
    directed_one_in: 4,
    // Each crash has all of a cache walked over: single calls take as long as all else.
    exhaustive_ops: 0,
    histories_in_tests: 150,
    breaks_sites: true,
};

/// log2 of a segment's bytes: three lines with slots, or four of the shorter items.
const SEGMENT_LOG2: u64 = 8;
/// What a cache has beside its segments.
const BESIDE_BYTES: u64 = 16 << 10;
/// Lengths of values: a value of the last length takes two segments.
const LENGTHS: &[usize] = &[24, 60, 24, 300];
/// Fillers are short and for ever.
const FILLING: Value = 900;

/// A cache of so many segments, after puts of so many short values.
fn cache(name: &'static str, segments: u64, fillers: Key) -> Setup {
    let mut engine_params = Setup::default().engine_params;
    engine_params[0] = SEGMENT_LOG2;
    Setup {
        name,
        keys: (1..=u64::from(fillers) + 2).collect(),
        free_keys: 2,
        before: (2..fillers + 2).map(|key| put(key, FILLING)).collect(),
        engine_params,
        value_bytes: LENGTHS,
        limit_bytes: BESIDE_BYTES + (segments << SEGMENT_LOG2),
        is_tight: true,
        is_cache: true,
        ..Setup::default()
    }
}

fn put(key: Key, value: Value) -> Op {
    Op::One(key, Action::Upsert(value))
}

fn get(key: Key) -> Op {
    Op::One(key, Action::Get)
}

fn remove(key: Key) -> Op {
    Op::One(key, Action::Remove)
}

fn touched(key: Key, ends: bool) -> Op {
    Op::One(key, touch(ends))
}

/// The next put makes room: of eight values, four are kept.
fn full() -> Setup {
    cache("a full cache", 12, 40)
}

/// The same, of which nothing is kept.
fn small() -> Setup {
    cache("a small full cache", 8, 20)
}

/// Lines of a segment of the index.
const LINES: u64 = 3;
/// As the engine makes the second line's number.
const SECOND: u64 = 0x9fb2_1c65_1e98_df25;

/// The lines of the index in which a key can be, as long as it has one segment.
fn lines_of(key: u64) -> [u64; 2] {
    let hash = Hasher::new(HASH_SEED).first_bytes(&key.to_le_bytes());
    [hash & u64::from(u32::MAX), hash.wrapping_mul(SECOND) >> 32].map(|part| (part * LINES) >> 32)
}

/// A cache of so many segments, in which all keys are in two lines of the index, which are full. So the next put of a
/// new key splits it.
fn crowded(name: &'static str, segments: u64) -> Setup {
    let mut setup = cache(name, segments, 16);
    let is_there = |key: &u64| matches!(lines_of(*key), [0, 1] | [1, 0]);
    setup.keys = (1..).filter(is_there).take(setup.keys.len()).collect();
    setup
}

/// With room for that.
fn index_full() -> Setup {
    crowded("a cache whose index is full", 16)
}

/// Whoever comes next makes room while that happens.
fn both_full() -> Setup {
    crowded("a cache whose index is full, with little room", 8)
}

/// Values of all lengths, half of which end.
fn ending() -> Setup {
    let mut setup = cache("a cache of values that end", 10, 0);
    setup.before.extend([put(0, 4), put(1, 5), put(2, 11), put(3, 8)]);
    setup.keys = (1..=4).collect();
    setup
}

/// Segments of which most is dead, and a large value that is popular.
fn sparse() -> Setup {
    let mut setup = cache("a cache with a large value, of which most is dead", 10, 12);
    setup.before.push(put(1, 7));
    setup.before.extend([2, 3, 4, 6, 7, 8].map(remove));
    setup
}

/// Nothing has to go.
fn roomy() -> Setup {
    Setup { has_room: true, ..cache("a cache with room for all", 24, 0) }
}

/// Where random histories begin.
pub(crate) fn setups() -> Vec<Setup> {
    let killed = Setup { name: "a full cache, killed", is_reopened: true, ..small() };
    let closed = Setup { is_reopened: true, is_closed: true, ..ending() };
    let closed = Setup { name: "a closed cache of values that end", ..closed };
    let cut = Setup { cut_bytes: 8 << SEGMENT_LOG2, ..cache("a cache that gets smaller", 16, 40) };
    vec![
        cache("an empty cache", 8, 0),
        full(),
        small(),
        index_full(),
        both_full(),
        ending(),
        sparse(),
        killed,
        closed,
        Setup { is_reopened: true, ..cut },
    ]
}

/// The directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    let alone = |setup: Setup| {
        let length = if setup.keys.len() < 8 { 2 } else { 1 };
        Directed::new::<CacheSubject>(setup, Look::Exhaustive(length))
    };
    let mut all: Vec<Directed> = setups().into_iter().map(alone).collect();
    all.push(alone(roomy()));
    let beside = |setup: &Setup, programs: Vec<Vec<Vec<Op>>>| {
        let shared = |program| shared::<CacheSubject>(setup, program, 1);
        programs.into_iter().map(shared).collect::<Vec<_>>()
    };
    // Two that put the same key, and what may not be seen of it any more.
    let replaced = [
        vec![vec![put(0, 4), put(0, 6)], vec![get(0), get(0)]],
        vec![vec![put(0, 4), remove(0)], vec![get(0), put(0, 6)]],
        vec![vec![put(0, 4), Op::Clear, get(0)], vec![put(0, 6), get(0)]],
        // What one begins behind the other's item is done first.
        vec![vec![put(0, 4)], vec![put(1, 6)]],
    ];
    all.extend(replaced.map(|program| interleaved::<CacheSubject>(&roomy(), program, 0)));
    // Who touches may have looked at the clock before others do.
    let passing = vec![vec![put(0, 5), Op::Pass], vec![touched(0, false), get(0), get(0)]];
    let empty = cache("an empty cache", 8, 0);
    all.push(interleaved::<CacheSubject>(&empty, passing, 0));
    // The fillers that the next emptying meets, and others.
    let some: [Key; 2] = [17, 21];
    let others = |setup: &Setup| {
        let last = setup.keys.len() as Key - 1;
        let on = move |key: Key| {
            let key = key.min(last);
            [vec![get(key), get(key)], vec![put(key, 6), get(key)], vec![remove(key), get(key)]]
        };
        some.into_iter()
            .flat_map(on)
            .chain([vec![touched(17, true), Op::Pass, get(17)], vec![Op::Scan]])
    };
    let maker = || vec![put(0, 4)];
    let changes = [vec![put(1, 6)], vec![Op::Clear, put(1, 6)], vec![put(1, 7)]];
    let programs = others(&small()).chain(changes).map(|other| vec![maker(), other]).collect();
    all.extend(beside(&small(), programs));
    let kept = [
        vec![get(2), get(2)],
        vec![remove(15), get(15)],
        vec![touched(30, true), Op::Pass, get(30)],
    ];
    all.extend(beside(&full(), kept.map(|other| vec![maker(), other]).to_vec()));
    let splitter = vec![put(0, 4)];
    let programs = others(&index_full()).chain([vec![put(1, 6)], vec![Op::Clear, get(0)]]);
    let programs = programs.map(|other| vec![splitter.clone(), other]).collect();
    all.extend(beside(&index_full(), programs));
    let few = [vec![get(17), get(17)], vec![remove(17), get(17)]];
    let programs = few.map(|other| vec![splitter.clone(), other]).to_vec();
    all.extend(beside(&both_full(), programs));
    // One begins its item, the other one makes room meanwhile, and is interrupted by the split.
    let both = vec![vec![put(0, 4)], vec![put(1, 6)]];
    all.push(shared::<CacheSubject>(&both_full(), both, 2).by_chance());
    // A reader of an item stands still while its segment is emptied, and others are filled.
    let refill =
        (0..8).map(|round| put(round % 2, 12 + 12 * Value::from(round))).collect::<Vec<_>>();
    all.extend(beside(
        &small(),
        vec![vec![refill.clone(), vec![get(17)]], vec![refill, vec![get(21)]]],
    ));
    let large = vec![
        vec![vec![put(0, 7)], vec![get(1), put(2, 6)]],
        vec![vec![put(0, 7)], vec![put(1, 19), get(1)]],
        vec![vec![put(1, 4), put(0, 7)], vec![get(1), get(1)]],
        vec![vec![put(0, 7)], vec![Op::Clear, get(0)]],
    ];
    all.extend(beside(&sparse(), large));
    let sweeps = vec![
        vec![vec![Op::Pass, Op::Help], vec![put(0, 4), get(0)]],
        vec![vec![Op::Pass, Op::Help], vec![touched(0, false), get(0)]],
        vec![vec![Op::Pass, Op::Help], vec![get(2), put(2, 17)]],
        vec![vec![Op::Pass, Op::Help], vec![Op::Pass, Op::Help]],
    ];
    all.extend(beside(&ending(), sweeps));
    let killed = Setup { name: "a full cache, killed", is_reopened: true, ..small() };
    let counting = vec![
        vec![vec![Op::Settle], vec![remove(17), put(17, 6)]],
        vec![vec![Op::Settle], vec![put(0, 4), put(1, 4)]],
        vec![vec![Op::Settle], vec![put(0, 7)]],
    ];
    all.extend(beside(&killed, counting));
    let three = vec![vec![put(0, 4)], vec![put(0, 6), remove(17)], vec![get(0), get(17)]];
    all.push(shared::<CacheSubject>(&full(), three, 1).by_chance());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::prepare;
    use crate::machine::alone;
    use engines::cache::CacheStats;

    fn stats(setup: &Setup) -> CacheStats {
        let subject = prepare::<CacheSubject>(setup, 1).unwrap();
        alone(1, None, || subject.stats())
    }

    /// What the next put of the first key does.
    fn next(setup: &Setup) -> (CacheStats, CacheStats) {
        let mut after = setup.clone();
        after.before.push(put(0, 4));
        (stats(setup), stats(&after))
    }

    #[test]
    fn setups_are_where_their_names_say() {
        let (before, after) = next(&full());
        assert!(after.evictions > before.evictions && after.kept > before.kept, "{after:?}");
        let (before, after) = next(&small());
        assert!(after.evictions > before.evictions && after.kept == before.kept, "{after:?}");
        for setup in [index_full(), both_full()] {
            let (before, after) = next(&setup);
            assert!(after.index_bytes > before.index_bytes, "{after:?}");
        }
    }
}
