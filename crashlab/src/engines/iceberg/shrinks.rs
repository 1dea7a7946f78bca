//! Tables on IcebergHT that get half as many blocks.

use super::{SHAPE, colliding, fillers, of_shape};
use crate::boundaries::{alone_in, interleaved, shared};
use crate::bucketwise::{resizing, several_that_resize};
use crate::history::{Action, Key, Op};
use crate::setups::{FILLING, recovered, with_helper, with_items};
use crate::subject::{HASH_SEED, Setup, StoreSubject, TableSubject};
use crate::trial::Directed;
use engines::iceberg::Shape;
use engines::iceberg::hash::h0;
use index::hash::{Hasher, h1, h2};

/// The hashes of a key that choose its blocks.
fn hashes(key: u64) -> [u64; 3] {
    let hasher = Hasher::new(HASH_SEED);
    let second = hasher.second_u64(key);
    [h0(hasher.first_u64(key)), h1(second), h2(second)]
}

/// Keys from `first` on whose hashes fit.
fn keys_that(first: u64, count: usize, fits: impl Fn([u64; 3]) -> bool) -> Vec<u64> {
    (first..).filter(|&key| fits(hashes(key))).take(count).collect()
}

/// A table of `1 << log2` blocks that has doubled with these keys, and has lost those that are not kept.
fn shrunk_to_be(
    name: &'static str,
    log2: u32,
    resize_at: f64,
    free: Vec<u64>,
    stored: &[u64],
    is_kept: impl Fn(usize) -> bool,
) -> Setup {
    let free_keys = free.len();
    let number = |index: usize| (free_keys + index) as Key;
    let one = |index, action| Op::One(number(index), action);
    let mut before: Vec<Op> =
        (0..stored.len()).map(|index| one(index, Action::Insert(FILLING))).collect();
    before.push(Op::Settle);
    let removed = (0..stored.len()).filter(|&index| !is_kept(index));
    before.extend(removed.map(|index| one(index, Action::Remove)));
    Setup {
        name,
        free_keys,
        before,
        keys: free.into_iter().chain(stored.iter().copied()).collect(),
        resize_at,
        shrinks: true,
        limit_bytes: 20 << 10,
        ..of_shape(&Shape { initial_log2: log2, ..SHAPE }, Setup::default())
    }
}

/// Of one block that became two, a pair is left in the lower one and two in the upper one.
fn can_shrink() -> Setup {
    let stored = fillers(31, 0);
    let is_kept = |index| index == 0 || index >= 29;
    shrunk_to_be("a table on iceberg that can shrink", 0, 0.85, colliding(2), &stored, is_kept)
}

/// The same with pairs in the upper block of level 2.
fn can_shrink_level_2() -> Setup {
    let stored = fillers(34, 0);
    let is_kept = |index| index == 0 || index >= 32;
    shrunk_to_be("a table that shrinks in level 2", 0, 0.94, colliding(2), &stored, is_kept)
}

/// A family of level 1 that has more pairs than a block has slots.
fn shrinks_into_level_3() -> Setup {
    let free = keys_that(1, 2, |[home, first, second]| home & 3 == 2 && first & second & 3 == 3);
    // So many that the table has doubled before either block is full.
    let others = keys_that(1 << 20, 40, |[home, ..]| home & 1 == 1);
    let crowd = |block, count| keys_that(1 << 20, count, move |[home, ..]| home & 3 == block);
    let stored = [others, crowd(0, 17), crowd(2, 17)].concat();
    shrunk_to_be("a table that shrinks into level 3", 1, 0.7, free, &stored, |index| index >= 40)
}

/// A family of level 2 that has more pairs than a block has slots.
fn level_2_shrinks_into_level_3() -> Setup {
    let free =
        keys_that(1, 2, |[home, first, second]| home & 7 == 5 && first & 7 == 6 && second & 7 == 6);
    // One block of level 1 is full. Of its keys three each are in both blocks of a family of level 2: the last one
    // finds no room in the lower block.
    let crowd = |block, count| {
        keys_that(1 << 20, count, move |[home, first, second]| {
            home & 7 == 5 && first & 7 == block && second & 7 == block
        })
    };
    // As above.
    let others = keys_that(1 << 20, 40, |[home, ..]| home & 1 == 0);
    let stored = [others, crowd(2, 35), crowd(6, 3)].concat();
    let name = "a table that shrinks from level 2 into level 3";
    shrunk_to_be(name, 2, 0.45, free, &stored, |index| index >= 40)
}

fn tables() -> Vec<Setup> {
    vec![can_shrink(), can_shrink_level_2(), shrinks_into_level_3(), level_2_shrinks_into_level_3()]
}

fn stores() -> Vec<Setup> {
    let store = Setup { name: "a store on iceberg that can shrink", ..can_shrink() };
    vec![with_items(store, &[8, 40, 8, 100])]
}

/// Where random histories of it begin.
pub(super) fn table_setups() -> Vec<Setup> {
    let names = [
        ["a table on iceberg that can shrink", "a helped table on iceberg that can shrink"],
        ["a table that shrinks into level 3", "a helped table that shrinks into level 3"],
    ];
    let twice = [
        ["a table that shrinks in level 2", "two threads recover a shrink of level 2"],
        ["a table that shrinks into level 3", "two threads recover a shrink into level 3"],
    ];
    let mut all = tables();
    all.extend(with_helper(tables(), &names));
    all.extend(recovered(tables(), &twice));
    all
}

pub(super) fn store_setups() -> Vec<Setup> {
    stores()
}

/// Its directed histories.
pub(super) fn histories() -> Vec<Directed> {
    let mut all = alone_in::<TableSubject>(tables()[..2].to_vec());
    all.push(changed_in_level_3());
    all.extend(resizing::<TableSubject>(&tables()[..2]));
    all.extend(several_that_resize::<TableSubject>(&tables()));
    all.extend(tables().iter().flat_map(beside_shrinks));
    all.extend(stores().iter().map(|setup| {
        interleaved::<StoreSubject>(setup, vec![vec![Op::Shrink], vec![Op::Scan]], 0)
    }));
    all
}

/// A pair that is changed where a shrink has moved it to: what is left of it elsewhere is older.
fn changed_in_level_3() -> Directed {
    let setup = level_2_shrinks_into_level_3();
    let one = |action| Op::One(last(&setup), action);
    let program = vec![vec![Op::Shrink, one(Action::Upsert(4)), one(Action::Get)]];
    interleaved::<TableSubject>(&setup, program, 0).always()
}

/// The last key stored, which is in an upper block.
fn last(setup: &Setup) -> Key {
    (setup.keys.len() - 1) as Key
}

/// A shrink beside whoever looks for pairs that it moves, or changes them.
fn beside_shrinks(setup: &Setup) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let last = last(setup);
    let others = [
        vec![one(last, Action::Get), one(last, Action::Get)],
        vec![one(last, Action::Remove), one(last, Action::Insert(5))],
        vec![one(0, Action::Insert(3)), one(0, Action::Get)],
    ];
    let beside = |other| shared::<TableSubject>(setup, vec![vec![Op::Shrink], other], 2);
    let changed = beside(vec![one(last, Action::Upsert(4)), one(last, Action::Get)]);
    let scanned = beside(vec![Op::Scan]);
    // Only there pairs leave level 2. Of hundreds, these notice if the former place of such a pair is not flushed, or
    // if a scan may begin meanwhile.
    let is_always = setup.name == level_2_shrinks_into_level_3().name;
    let kept = [changed, scanned].map(|one| if is_always { one.always() } else { one });
    others.into_iter().map(beside).chain(kept).collect()
}
