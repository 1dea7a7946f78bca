//! Boundaries of the tables for several threads: where they grow, where the room ends, and keys that are marks.

use super::{FILLING, with_first_key};
use crate::history::{Action, Key, Op};
use crate::subject::{HASH_SEED, Setup, ThreadedSubject};
use baselines::threaded::{Kind, Shape};
use index::hash::Hasher;

/// A setup with two free keys, and fillers that were stored before. Only keys are used whose first hash output
/// `is_fit`.
fn with(name: &'static str, shape: Shape, fillers: usize, is_fit: impl Fn(u64) -> bool) -> Setup {
    let hasher = Hasher::new(HASH_SEED);
    let fit = (1..).filter(|&key| is_fit(hasher.first_u64(key)));
    over(name, shape, fit.take(2 + fillers).collect())
}

/// A setup with these keys. The first two are free, the others were stored before, in this order.
fn over(name: &'static str, shape: Shape, keys: Vec<u64>) -> Setup {
    let free_keys = 2;
    Setup {
        name,
        free_keys,
        before: (free_keys..keys.len())
            .map(|filler| Op::One(filler as Key, Action::Insert(FILLING)))
            .collect(),
        keys,
        engine_params: ThreadedSubject::params(&shape),
        ..Setup::default()
    }
}

/// Keys whose first hash outputs are as wanted, one after another, and all different.
fn different<F: Fn(u64) -> bool>(wanted: impl IntoIterator<Item = F>) -> Vec<u64> {
    let hasher = Hasher::new(HASH_SEED);
    wanted.into_iter().fold(Vec::new(), |mut keys, is_fit| {
        let mut fit = (1..).filter(|&key| is_fit(hasher.first_u64(key)));
        keys.extend(fit.find(|key| !keys.contains(key)));
        keys
    })
}

/// A setup with two free keys, and fillers that were stored before. Of each key's hash these are the low bits, so many.
fn with_low_bits(name: &'static str, shape: Shape, bits: u32, low: &[u64]) -> Setup {
    let is_fit = |&wanted: &u64| move |hash: u64| hash & ((1 << bits) - 1) == wanted;
    over(name, shape, different(low.iter().map(is_fit)))
}

fn small(kind: Kind, size_log2: u32, part_log2: u32) -> Shape {
    Shape { kind, size_log2, part_log2, seed: HASH_SEED }
}

/// All of them.
pub fn threaded() -> Vec<Setup> {
    let mut all: Vec<Setup> = clht().into_iter().chain(cceh()).chain(one_free_slot()).collect();
    all.extend(dash().into_iter().chain(displaced_pairs()).chain(cmap()));
    all
}

fn clht() -> Vec<Setup> {
    let buckets = |log2| small(Kind::Clht, log2, 0);
    let any = |_| true;
    // Of two buckets, all keys belong to the first.
    let even = |hash| hash % 2 == 0;
    let marks = Setup {
        keys: vec![0, u64::MAX],
        ..with("a key that marks free slots", buckets(1), 0, any)
    };
    vec![
        with("an empty table", buckets(1), 0, any),
        marks,
        with("a full bucket", buckets(2), 3, |hash| hash % 4 == 0),
        // Either key needs another bucket, and the table is copied for it. Another thread may do that meanwhile.
        with_low_bits("two full lists", buckets(1), 1, &[0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1]),
        with("a table that is copied for the next pair", buckets(0), 3, any),
        with("a table that is copied when the next bucket is full", buckets(1), 6, even),
        Setup {
            limit_bytes: 640,
            is_tight: true,
            ..with("a table without room for a larger one", buckets(1), 6, even)
        },
        Setup {
            limit_bytes: 768,
            is_tight: true,
            ..with("a table without room for a larger one's lists", buckets(1), 6, |hash| {
                hash % 4 == 0
            })
        },
        Setup {
            limit_bytes: 4 * 64,
            is_tight: true,
            ..with("a table without room for another bucket", buckets(0), 2, any)
        },
    ]
}

fn cceh() -> Vec<Setup> {
    // A segment of one bucket is split for the fifth key.
    let one = |size_log2| small(Kind::Cceh, size_log2, 0);
    let any = |_| true;
    // Of two segments, all keys belong to the first.
    let low = |hash: u64| hash >> 63 == 0;
    // Keys of hashes that begin with these four bits.
    let begin = |bits: &[u64]| different(bits.iter().map(|&bits| move |hash| hash >> 60 == bits));
    // Of eight buckets, keys whose home is the last one lie in the first ones, since others were before them.
    let wrapped = [(0, 7); 2].into_iter().chain([(1, 4); 16]).chain([(1, 7); 12]);
    let is_at = |(half, home)| move |hash: u64| (hash >> 63, hash % 8) == (half, home);
    let marks =
        Setup { keys: vec![0, u64::MAX], ..with("a key that marks free slots", one(0), 0, any) };
    let full = |name| with(name, one(0), 4, any);
    vec![
        with("an empty table", small(Kind::Cceh, 1, 1), 0, any),
        marks,
        // The first key moves in the split, and the second one gets its slot.
        over("a full segment that lets a key go", one(0), begin(&[8, 0, 1, 2, 5])),
        with("two full buckets of eight", small(Kind::Cceh, 1, 3), 8, |hash| {
            low(hash) && hash % 8 == 2
        }),
        full("a full segment with one entry"),
        over(
            "two full segments with one entry each",
            one(1),
            begin(&[0, 8, 1, 2, 5, 6, 9, 10, 13, 14]),
        ),
        // One thread changes entries while another doubles the directory.
        over(
            "two full segments of which one has two entries",
            one(1),
            begin(&[0, 8, 1, 2, 5, 6, 8, 9, 10, 11, 12]),
        ),
        over(
            "a full segment with two entries",
            one(1),
            begin(&[0, 4, 1, 2, 5, 6, 8, 9, 12, 13, 14]),
        ),
        over(
            "a full segment with four entries",
            one(1),
            begin(&[0, 4, 1, 2, 5, 6, 8, 8, 9, 9, 12, 10]),
        ),
        over("a segment that is split several times", one(1), begin(&[0, 1, 0, 0, 1, 1])),
        over("a segment of which three slots are stale", one(0), begin(&[0, 4, 1, 8, 9, 12, 10])),
        over(
            "full buckets at both ends of a segment",
            small(Kind::Cceh, 0, 3),
            different(wrapped.map(is_at)),
        ),
        Setup {
            limit_bytes: 6 * 64,
            is_tight: true,
            ..full("a table without room for a larger directory")
        },
        Setup {
            limit_bytes: 8 * 64,
            is_tight: true,
            ..full("a table without room for another segment")
        },
    ]
}

fn cmap() -> Vec<Setup> {
    // Chunks of one node.
    let buckets = |log2| small(Kind::Cmap, log2, 0);
    let any = |_| true;
    let low = with_low_bits;
    let ends =
        Setup { keys: vec![0, u64::MAX], ..with("keys of zeros and of ones", buckets(3), 0, any) };
    vec![
        with("an empty table that grows for each of its first pairs", buckets(0), 0, any),
        ends,
        with("one list", buckets(3), 3, |hash| hash % 8 == 0),
        // The next pair needs a new chunk, and another thread may use that one's other nodes.
        with("chunks of several nodes, all in use", small(Kind::Cmap, 3, 1), 3, any),
        // What the next pair's key is looked for in is another bucket then.
        low("a table that grows for the next pair", buckets(2), 3, &[4, 0, 0, 4]),
        // The last filler made the table grow. A list begins with the last pair.
        low("a new bucket that takes over a node in the middle", buckets(2), 3, &[4, 0, 0, 4, 0]),
        low("a new bucket that takes over both ends", buckets(2), 3, &[4, 0, 4, 0, 4]),
        low("a new bucket that takes over all", buckets(2), 3, &[4, 0, 4, 4, 4]),
        low(
            "a new bucket that takes over every second node",
            buckets(3),
            4,
            &[8, 0, 0, 8, 0, 8, 0, 8, 1],
        ),
        low("a new bucket whose parent is new, too", buckets(1), 3, &[6, 2, 6, 0, 0]),
        low(
            "new buckets of three sizes, one out of the other",
            buckets(1),
            4,
            &[14, 6, 14, 0, 2, 0, 4, 0, 0],
        ),
        Setup {
            limit_bytes: 768,
            is_tight: true,
            ..with("a table without room for more buckets", buckets(2), 2, any)
        },
        Setup {
            limit_bytes: 704,
            is_tight: true,
            ..with("a table without room for another node", buckets(1), 1, any)
        },
    ]
}

/// A segment of two buckets, and two of the stash.
const SMALL_SEGMENT: u64 = 1280;
/// Pairs of one home for which such a segment has room: in the buckets, and in all.
const IN_BUCKETS: usize = 28;
const IN_SEGMENT: usize = 56;

fn is_of_first_home(hash: u64) -> bool {
    hash >> 8 & 1 == 0
}

fn dash() -> Vec<Setup> {
    let one = small(Kind::Dash, 0, 1);
    let any = |_| true;
    let two_opened = with("two segments that were opened", small(Kind::Dash, 1, 1), 3, any);
    vec![
        with("an empty table", one, 0, any),
        with("buckets in which the first line is full", one, 5, is_of_first_home),
        with("full buckets", one, IN_BUCKETS, is_of_first_home),
        moved_beside(),
        with("a stash with more pairs than are noted", one, IN_BUCKETS + 8, is_of_first_home),
        with("a segment that is split for the next pair", one, IN_SEGMENT, is_of_first_home),
        Setup { is_reopened: true, ..two_opened },
        Setup {
            is_reopened: true,
            ..with_first_key(
                "a pair in a stash that was opened",
                &with("full buckets", one, IN_BUCKETS + 1, is_of_first_home),
            )
        },
        Setup {
            limit_bytes: 192 + 256 + SMALL_SEGMENT,
            is_tight: true,
            ..with("a table without room for a larger directory", one, IN_SEGMENT, is_of_first_home)
        },
    ]
}

/// Segments of four buckets, in which pairs are moved.
pub fn displaced_pairs() -> [Setup; 2] {
    [displaced("a pair that moves on", 0, 1), displaced("a pair that moves back", 0, 3)]
}

/// A slot is free, which either key may get.
pub fn one_free_slot() -> [Setup; 2] {
    let even = |hash| hash % 2 == 0;
    [
        with("a bucket with one free slot", small(Kind::Clht, 1, 0), 2, even),
        with("a segment with one free slot", small(Kind::Cceh, 0, 0), 3, |_| true),
    ]
}

/// Those in which a history takes long, and threads meet nothing new.
pub fn threaded_alone() -> Vec<Setup> {
    let one = small(Kind::Dash, 0, 1);
    let of_one_side = |hash| is_of_first_home(hash) && hash >> 63 == 1;
    let full = || with("a full segment that was opened", one, IN_SEGMENT, is_of_first_home);
    vec![
        with("a segment that is split twice for the next pair", one, IN_SEGMENT, of_one_side),
        several_entries(),
        Setup { is_reopened: true, ..full() },
        Setup {
            name: "a table without room for another segment",
            limit_bytes: 192 + 2 * 256 + SMALL_SEGMENT,
            is_tight: true,
            ..full()
        },
    ]
}

/// Keys of this home, of four.
fn of_home(home: u64) -> impl Iterator<Item = u64> {
    let hasher = Hasher::new(HASH_SEED);
    (1..).filter(move |&key| hasher.first_u64(key) >> 8 & 3 == home)
}

/// Pairs that fill half of two buckets, as long as they are the only ones.
const HALVES: usize = 14;
/// Pairs of one home that fill what is left of its buckets if one of them is half full.
const REST: usize = 21;

/// A segment of four buckets in which the first key finds room in its buckets if the second one's pair, whose home is
/// another bucket, moves.
fn displaced(name: &'static str, first: u64, second: u64) -> Setup {
    // Those of the second home fill one half of its buckets, then those of the first one fill all of theirs.
    let mut keys: Vec<u64> = of_home(first).take(1 + REST).collect();
    keys.splice(1..1, of_home(second).take(HALVES));
    let mut stored: Vec<Key> = (1..keys.len() as Key).collect();
    // Of two pairs one comes to the home and the next one behind it. The pair of the lowest slot moves.
    let is_behind = second > first + 1;
    if is_behind {
        stored.swap(0, 1);
    }
    Setup { before: stored_in(stored), ..displacing(name, keys) }
}

/// A segment in which the first key finds room if another pair moves to the bucket where the second one is put.
fn moved_beside() -> Setup {
    let keys = of_home(0).take(1).chain(of_home(2).take(1));
    let keys = keys.chain(of_home(1).take(HALVES));
    // The second key's buckets are equally full then, so its home is chosen.
    let keys = keys.chain(of_home(2).skip(1).take(HALVES / 2));
    let keys: Vec<u64> = keys.chain(of_home(0).skip(1).take(REST)).collect();
    let fillers = 2..keys.len() as Key;
    let name = "a pair that moves to the bucket of another key";
    Setup { before: stored_in(fillers), ..displacing(name, keys) }
}

fn stored_in(keys: impl IntoIterator<Item = Key>) -> Vec<Op> {
    keys.into_iter().map(|key| Op::One(key, Action::Insert(FILLING))).collect()
}

fn displacing(name: &'static str, keys: Vec<u64>) -> Setup {
    Setup {
        name,
        free_keys: 2,
        engine_params: ThreadedSubject::params(&small(Kind::Dash, 0, 2)),
        keys,
        ..Setup::default()
    }
}

/// Keys of the first home whose hashes have this side in their highest bits.
fn of_side(bits: u32, side: u64) -> impl Iterator<Item = u64> {
    let hasher = Hasher::new(HASH_SEED);
    let is_fit = move |hash| is_of_first_home(hash) && hash >> (64 - bits) == side;
    (1..).filter(move |&key| is_fit(hasher.first_u64(key)))
}

/// A segment to which four entries of the directory lead, since its sibling was split twice, and that is split for the
/// next pair.
fn several_entries() -> Setup {
    // Three bits tell those of the upper half apart.
    let (lower, upper) = (of_side(1, 0).take(2 + IN_SEGMENT), of_side(2, 3).take(IN_SEGMENT + 1));
    let keys: Vec<u64> = lower.chain(upper).collect();
    let first_upper = 2 + IN_SEGMENT as Key;
    let stored = (first_upper..keys.len() as Key).chain(2..first_upper);
    Setup {
        name: "a segment of several entries that is split for the next pair",
        free_keys: 2,
        before: stored.map(|key| Op::One(key, Action::Insert(FILLING))).collect(),
        engine_params: ThreadedSubject::params(&small(Kind::Dash, 0, 1)),
        keys,
        ..Setup::default()
    }
}

/// Two segments, either of which is split for the next pair. One of the free keys is of the one, one of the other.
pub fn two_full_segments() -> Setup {
    let [mut lower, mut upper] = [0, 1].map(|side| of_side(1, side));
    let free: Vec<u64> = lower.by_ref().take(1).chain(upper.by_ref().take(1)).collect();
    let fillers = lower.take(IN_SEGMENT).chain(upper.take(IN_SEGMENT));
    Setup {
        name: "two segments that are split for the next pair",
        free_keys: free.len(),
        before: (2..2 + 2 * IN_SEGMENT as Key)
            .map(|key| Op::One(key, Action::Insert(FILLING)))
            .collect(),
        engine_params: ThreadedSubject::params(&small(Kind::Dash, 1, 1)),
        keys: free.into_iter().chain(fillers).collect(),
        ..Setup::default()
    }
}
