//! Whether a pool's pairs are of the sizes that it is opened with.

use index::{Fixed, are_words};
use pmem::superblock::{PoolKind, Superblock};
use pmem::{OpenError, WORD};

/// Whether the pool's pairs are a `K` and a `V`; the index of a store keeps words.
pub(crate) fn check_sizes<K: Fixed, V: Fixed>(superblock: &Superblock) -> Result<(), OpenError> {
    let recorded = match superblock.kind {
        PoolKind::Table => [superblock.key_bytes, superblock.value_bytes],
        PoolKind::Store | PoolKind::Cache => [WORD as u32; 2],
    };
    for (field, found, expected) in [
        ("key size", recorded[0], K::layout_bytes()),
        ("value size", recorded[1], V::layout_bytes()),
    ] {
        if found as usize != expected {
            return Err(OpenError::Mismatch {
                field,
                found: format!("{found} bytes"),
                expected: format!("{expected} bytes"),
                advice: "open it with the types it was made with",
            });
        }
    }
    if recorded == [WORD as u32; 2] && !are_words::<K, V>() {
        // The code for words would have to be chosen at compile time.
        return Err(OpenError::Mismatch {
            field: "pair of key and value size",
            found: "8 and 8 bytes".into(),
            expected: "other sizes, by types that learn theirs at run time".into(),
            advice: "open it with u64 and u64",
        });
    }
    Ok(())
}

/// The refusal of an engine that keeps no such pairs.
pub(crate) fn not_kept<K: Fixed, V: Fixed>(pair_sizes: &str) -> OpenError {
    OpenError::Mismatch {
        field: "pair of key and value size",
        found: format!("{} and {} bytes", K::layout_bytes(), V::layout_bytes()),
        expected: pair_sizes.into(),
        advice: "open it with the firndex version that made it",
    }
}

#[cfg(test)]
mod tests {
    use crate::Engine;
    use crate::Settings;
    use crate::engine::{PairSizes, Parameters, Wanted};
    use pmem::medium::{Dram, Memory};
    use pmem::pool::Spec;
    use pmem::superblock::{Place, PoolKind};
    use pmem::{OpenError, Pool};
    use std::sync::Arc;

    fn pool(sizes: [u32; 2], engine: Engine) -> Arc<Pool<Dram>> {
        let wanted = Wanted {
            sizes: PairSizes::WORDS,
            pairs: 0,
            resize_at: 0.85,
            parameters: &Parameters::default(),
        };
        let spec = Spec {
            kind: PoolKind::Table,
            engine: engine.description().id,
            key_bytes: sizes[0],
            value_bytes: sizes[1],
            hash_id: index::hash::HASH_ID,
            hash_seed: 1,
            uuid: 2,
            segment_log2: pmem::heap::SEGMENT_LOG2_DEFAULT,
            engine_params: engine.engine_params(&wanted),
        };
        let place = Place { boot_id: [1, 2], inode: 3, file_system: 4 };
        Arc::new(Pool::create(Memory::dram(1 << 26).unwrap(), &spec, place).unwrap())
    }

    /// The sizes that words are opened with, and others.
    #[test]
    fn no_engine_opens_pairs_of_other_sizes() {
        let settings = Settings { helpers: 0, ..Settings::default() };
        for &engine in Engine::ALL {
            for sizes in [[8, 8], [16, 8], [8, 24], [4, 8], [0, 0]] {
                let words = engine.open_words(pool(sizes, engine), settings).err();
                let pairs = engine.open_pairs::<_, u64, u64>(pool(sizes, engine), settings).err();
                for refused in [words, pairs] {
                    let is_mismatch = matches!(refused, Some(OpenError::Mismatch { .. }));
                    assert_eq!(is_mismatch, sizes != [8, 8], "{engine}, {sizes:?}: {refused:?}");
                }
            }
        }
    }
}
