//! Calls of exhaustive and of random histories of the cache.

use crate::history::{Action, CacheAction, Key, Op, Value};
use crate::subject::Setup;
use workload::Random;

/// Values of exhaustive histories: their lengths and ends depend on the rest of this.
const VALUES_PER_POSITION: Value = 12;

pub(crate) const fn touch(ends: bool) -> Action {
    Action::OfCache(CacheAction::Touch { ends })
}

/// Every operation of an exhaustive history, at a position that decides what it puts.
pub(crate) fn alphabet(setup: &Setup, position: usize) -> Vec<Op> {
    // Short and for ever; longer, to end; large, and for ever.
    let puts = [4, 5, 7].map(|value| value + VALUES_PER_POSITION * position as Value);
    let actions =
        puts.map(Action::Upsert).into_iter().chain([Action::Remove, touch(true), touch(false)]);
    let first = actions.map(|action| Op::One(0, action));
    let other = [Action::Upsert(puts[0]), Action::Remove].map(|action| Op::One(1, action));
    let all = [Op::Clear, Op::Pass, Op::Help, Op::Settle];
    let is_there = setup.free_keys > 1;
    first.chain(other.into_iter().filter(|_| is_there)).chain(all).collect()
}

/// A random operation, half of them on the free keys.
pub(crate) fn random_op(setup: &Setup, value: Value, random: &mut Random) -> Op {
    let keys = if random.index(2) == 0 { setup.keys.len() } else { setup.free_keys };
    let key = random.index(keys) as Key;
    match random.index(20) {
        0..9 => Op::One(key, Action::Upsert(value)),
        9..13 => Op::One(key, Action::Get),
        13 | 14 => Op::One(key, Action::Remove),
        15 => Op::One(key, touch(random.index(2) == 0)),
        16 => Op::Clear,
        17 => Op::Pass,
        18 => random.of(&[Op::Help, Op::Settle]).clone(),
        _ => Op::Scan,
    }
}
