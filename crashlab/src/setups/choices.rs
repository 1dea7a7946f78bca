//! Keys by the buckets that two hash functions choose for them, as the engines of the Level family do.

use crate::history::{Action, Key, Op};
use crate::setups::FILLING;
use crate::subject::{HASH_SEED, Setup};
use index::hash::{Hasher, h1, h2};

/// The low bits of the hashes that choose a key's buckets: h1, h2.
pub(crate) type Choices = (u64, u64);

/// Bits of each choice that a key is chosen by: as many as levels that a setup can grow to.
const CHOICE_MASK: u64 = 15;

/// The hash that chooses the buckets of what stands for a number.
pub(crate) type Hash = fn(u64) -> u64;

pub(crate) fn hash_of_word(key: u64) -> u64 {
    Hasher::new(HASH_SEED).second_u64(key)
}

/// So many keys, each with the choices asked for.
pub(crate) fn keys_with(hash: Hash, choices: &[Choices]) -> Vec<u64> {
    let mut candidates = (1..).filter_map(|key| {
        let hash = hash(key);
        let found = (h1(hash) & CHOICE_MASK, h2(hash) & CHOICE_MASK);
        choices.contains(&found).then_some((key, found))
    });
    let mut met: Vec<(u64, Choices)> = Vec::new();
    let mut next = |wanted: Choices| {
        if let Some(index) = met.iter().position(|&(_, found)| found == wanted) {
            return met.remove(index).0;
        }
        loop {
            match candidates.next() {
                Some((key, found)) if found == wanted => return key,
                Some(other) => met.push(other),
                None => return 0,
            }
        }
    };
    choices.iter().map(|&wanted| next(wanted)).collect()
}

/// A setup with two free keys; `fillers` are stored in this order, then those of the numbers in `removed` are
/// taken out again.
pub(crate) fn filled_with(
    hash: Hash,
    name: &'static str,
    free: [Choices; 2],
    fillers: &[Choices],
    removed: &[usize],
) -> Setup {
    let free_keys = free.len();
    let choices: Vec<Choices> = free.iter().chain(fillers).copied().collect();
    let filler = |index: usize| (free_keys + index) as Key;
    let stores = (0..fillers.len()).map(|index| Op::One(filler(index), Action::Insert(FILLING)));
    let removals = removed.iter().map(|&index| Op::One(filler(index), Action::Remove));
    Setup {
        name,
        keys: keys_with(hash, &choices),
        free_keys,
        before: stores.chain(removals).collect(),
        resize_at: 1.0,
        limit_bytes: 16 << 10,
        ..Setup::default()
    }
}
