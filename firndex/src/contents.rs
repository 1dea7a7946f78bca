//! What a pool holds, and which engine takes it.

use crate::{Engine, Error, Kind, Result};
use index::Fixed;
use pmem::heap::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use pmem::superblock::Superblock;

/// What a pool is asked to hold. Sizes are 0 in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) kind: Kind,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
}

/// Bytes of the pairs that a store keeps in its engine: a hash and where the item is.
const STORE_PAIR: (u32, u32) = (8, 8);

/// Most bytes of a key and its value on Level hashing: four pairs and 4 bytes of state fill the
/// largest bucket, of 512 bytes.
const LEVEL_PAIR_BYTES_MAX: u32 = 127;

impl Contents {
    pub(crate) const STORE: Contents = Contents { kind: Kind::Store, key_bytes: 0, value_bytes: 0 };

    pub(crate) fn table<K: Fixed, V: Fixed>() -> Contents {
        // No engine takes as many as do not fit.
        let bytes = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        Contents { kind: Kind::Table, key_bytes: bytes(K::BYTES), value_bytes: bytes(V::BYTES) }
    }

    /// What the pool says that it holds.
    pub(crate) fn of(superblock: &Superblock) -> Contents {
        Contents {
            kind: Kind::of(superblock.kind),
            key_bytes: superblock.key_bytes,
            value_bytes: superblock.value_bytes,
        }
    }

    /// Key and value sizes of the pairs that the engine keeps.
    fn sizes(self) -> (u32, u32) {
        match self.kind {
            Kind::Table => (self.key_bytes, self.value_bytes),
            Kind::Store => STORE_PAIR,
        }
    }

    /// Bytes of a pair that the engine keeps.
    pub(crate) fn pair_bytes(self) -> u64 {
        let (key_bytes, value_bytes) = self.sizes();
        u64::from(key_bytes) + u64::from(value_bytes)
    }

    /// The engine of a new pool: the one asked for, or else the first that takes it.
    pub(crate) fn engine(self, asked: Option<Engine>) -> Result<Engine> {
        let of_its_own = || Engine::ALL.iter().copied().find(|engine| engine.takes(self));
        // Where none does, the error tells what the most capable takes.
        let engine = asked.or_else(of_its_own).unwrap_or(Engine::Clevel);
        if engine.takes(self) {
            return Ok(engine);
        }
        Err(Error::PairSizes {
            engine: engine.name(),
            takes: engine.pair_sizes(),
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            advice: match of_its_own() {
                Some(other) => {
                    format!("use the engine {other}, which takes {}", other.pair_sizes())
                }
                None => "keep them in a `Store`".into(),
            },
        })
    }
}

impl Engine {
    /// Whether pairs of these sizes fit the engine.
    pub(crate) fn takes(self, contents: Contents) -> bool {
        let (key_bytes, value_bytes) = contents.sizes();
        match self {
            Engine::Iceberg => (key_bytes, value_bytes) == (8, 8),
            Engine::Level => {
                key_bytes > 0 && key_bytes.saturating_add(value_bytes) <= LEVEL_PAIR_BYTES_MAX
            }
            Engine::Clevel => {
                (1..=KEY_BYTES_MAX).contains(&(key_bytes as usize))
                    && value_bytes as usize <= VALUE_BYTES_MAX
            }
        }
    }

    /// Which sizes it takes, in words.
    pub(crate) fn pair_sizes(self) -> &'static str {
        match self {
            Engine::Iceberg => "keys and values of 8 bytes each",
            Engine::Level => "keys of at least 1 byte that with their value have at most 127",
            Engine::Clevel => "keys of 1 byte to 64 KiB and values of at most 256 MiB",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(key_bytes: u32, value_bytes: u32) -> Contents {
        Contents { kind: Kind::Table, key_bytes, value_bytes }
    }

    #[test]
    fn engines_take_what_fits_their_buckets() {
        const ALL: &[Engine] = &[Engine::Iceberg, Engine::Level, Engine::Clevel];
        const ANY: &[Engine] = &[Engine::Level, Engine::Clevel];
        const LARGE: &[Engine] = &[Engine::Clevel];
        const NONE: &[Engine] = &[];
        for (key_bytes, value_bytes, taken_by) in [
            (8, 8, ALL),
            (8, 4, ANY),
            (4, 8, ANY),
            (16, 0, ANY),
            (1, 126, ANY),
            (127, 0, ANY),
            (120, 8, LARGE),
            (1, 127, LARGE),
            (64 << 10, 256 << 20, LARGE),
            ((64 << 10) + 1, 0, NONE),
            (1, (256 << 20) + 1, NONE),
            (0, 8, NONE),
            (0, 0, NONE),
            (u32::MAX, u32::MAX, NONE),
        ] {
            let contents = table(key_bytes, value_bytes);
            let takes = Engine::ALL.iter().copied().filter(|engine| engine.takes(contents));
            assert_eq!(takes.collect::<Vec<_>>(), taken_by, "{key_bytes} and {value_bytes} bytes");
        }
    }

    #[test]
    fn the_engine_asked_for_counts_and_else_the_first_that_takes_it() {
        for (contents, asked, chosen) in [
            (Contents::STORE, None, Engine::Iceberg),
            (Contents::STORE, Some(Engine::Level), Engine::Level),
            (table(8, 8), None, Engine::Iceberg),
            (table(8, 8), Some(Engine::Level), Engine::Level),
            (table(8, 16), None, Engine::Level),
            (table(100, 100), None, Engine::Clevel),
            (table(8, 16), Some(Engine::Clevel), Engine::Clevel),
            (Contents::STORE, Some(Engine::Clevel), Engine::Clevel),
        ] {
            assert_eq!(contents.engine(asked).unwrap(), chosen);
        }
        for (contents, asked, engine, advice) in [
            (table(4, 4), Some(Engine::Iceberg), "iceberg", "engine level"),
            (table(100, 100), Some(Engine::Iceberg), "iceberg", "engine clevel"),
            (table(100, 100), Some(Engine::Level), "level", "engine clevel"),
            (table(100_000, 1), Some(Engine::Level), "level", "`Store`"),
            (table(100_000, 1), Some(Engine::Clevel), "clevel", "`Store`"),
            (table(100_000, 1), None, "clevel", "`Store`"),
        ] {
            let message = contents.engine(asked).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{engine} takes")), "{message}");
            assert!(message.contains(advice), "{message}");
        }
    }
}
