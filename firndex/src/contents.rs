//! What a pool holds, and which engine takes it.

use crate::{Engine, Error, Kind, Result};
use engines::level::{SLOTS_MAX, Shape};
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

/// Slots of a bucket of Level hashing where none were asked for, as far as it matters which pairs fit.
const LEVEL_SLOTS: u32 = 4;

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

    /// Whether the engine keeps pairs of words: in a table of such, and under every store.
    pub(crate) fn are_words(self) -> bool {
        self.sizes() == STORE_PAIR
    }

    /// Bytes of a pair that the engine keeps.
    pub(crate) fn pair_bytes(self) -> u64 {
        let (key_bytes, value_bytes) = self.sizes();
        u64::from(key_bytes) + u64::from(value_bytes)
    }

    /// Whether buckets of Level hashing with so many slots hold such pairs.
    fn fits_level(self, slots: u32) -> bool {
        (1..=SLOTS_MAX).contains(&slots)
            && self.sizes().0 > 0
            && self.pair_bytes() <= Shape::pair_bytes_max(slots)
    }

    /// The engine of a new pool: the one asked for, or else the first that takes it, with so many
    /// slots in a bucket if any number was asked for.
    pub(crate) fn engine(self, asked: Option<Engine>, slots: Option<u32>) -> Result<Engine> {
        let of_its_own = || Engine::ALL.iter().copied().find(|engine| engine.takes(self, slots));
        // Where none does, the error tells what the most capable takes.
        let most_capable = if slots.is_some() { Engine::Level } else { Engine::Clevel };
        let engine = asked.or_else(of_its_own).unwrap_or(most_capable);
        if engine.takes(self, slots) {
            return Ok(engine);
        }
        if let Some(slots) = slots
            && engine.takes(self, None)
        {
            return Err(Error::Slots {
                engine: engine.name(),
                slots,
                advice: match engine {
                    Engine::Level => {
                        let most = (1..=SLOTS_MAX).rev().find(|&slots| self.fits_level(slots));
                        format!(
                            "with pairs of {} bytes they have 1 to {}",
                            self.pair_bytes(),
                            most.unwrap_or(1)
                        )
                    }
                    _ => "leave the number out, or use the engine level".into(),
                },
            });
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
    /// Whether pairs of these sizes fit the engine, with so many slots in a bucket if any number was
    /// asked for.
    pub(crate) fn takes(self, contents: Contents, slots: Option<u32>) -> bool {
        let (key_bytes, value_bytes) = contents.sizes();
        match self {
            Engine::Iceberg => slots.is_none() && (key_bytes, value_bytes) == (8, 8),
            Engine::Level => contents.fits_level(slots.unwrap_or(LEVEL_SLOTS)),
            Engine::Clevel => {
                slots.is_none()
                    && (1..=KEY_BYTES_MAX).contains(&(key_bytes as usize))
                    && value_bytes as usize <= VALUE_BYTES_MAX
            }
        }
    }

    /// Whether a pool on the engine may hold this, whatever its buckets are.
    pub(crate) fn may_have(self, contents: Contents) -> bool {
        self.takes(contents, None) || (1..=SLOTS_MAX).any(|slots| self.takes(contents, Some(slots)))
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
            let takes = Engine::ALL.iter().copied().filter(|engine| engine.takes(contents, None));
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
            assert_eq!(contents.engine(asked, None).unwrap(), chosen);
        }
        assert_eq!(table(8, 8).engine(None, Some(5)).unwrap(), Engine::Level);
        assert_eq!(table(200, 54).engine(None, Some(2)).unwrap(), Engine::Level);
        for (contents, asked, slots, advice) in [
            (
                table(8, 8),
                None,
                0,
                "level has no buckets of 0 slots here: with pairs of 16 bytes they have 1 to 8",
            ),
            (table(8, 8), Some(Engine::Level), 9, "they have 1 to 8"),
            (table(100, 27), None, 5, "they have 1 to 4"),
            (
                table(8, 8),
                Some(Engine::Iceberg),
                4,
                "iceberg has no buckets of 4 slots here: leave",
            ),
            (Contents::STORE, Some(Engine::Clevel), 4, "or use the engine level"),
        ] {
            let message = contents.engine(asked, Some(slots)).unwrap_err().to_string();
            assert!(message.contains(advice), "{message}");
        }
        for (contents, asked, engine, advice) in [
            (table(4, 4), Some(Engine::Iceberg), "iceberg", "engine level"),
            (table(100, 100), Some(Engine::Iceberg), "iceberg", "engine clevel"),
            (table(100, 100), Some(Engine::Level), "level", "engine clevel"),
            (table(100_000, 1), Some(Engine::Level), "level", "`Store`"),
            (table(100_000, 1), Some(Engine::Clevel), "clevel", "`Store`"),
            (table(100_000, 1), None, "clevel", "`Store`"),
        ] {
            let message = contents.engine(asked, None).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{engine} takes")), "{message}");
            assert!(message.contains(advice), "{message}");
        }
    }
}
