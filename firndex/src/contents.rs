//! What a pool holds, and which engine can hold it.

use crate::{Engine, Error, Kind, Result};
use engines::engine::{PairSizes, Parameters};
use index::Fixed;
use index::hash::HASH_ID;
use pmem::OpenError;
use pmem::superblock::{PoolKind, Superblock};
use std::ops::RangeInclusive;

impl Kind {
    pub(crate) fn of(kind: PoolKind) -> Kind {
        match kind {
            PoolKind::Table => Kind::Table,
            PoolKind::Store => Kind::Store,
            PoolKind::Cache => Kind::Cache,
        }
    }

    pub(crate) fn pool_kind(self) -> PoolKind {
        match self {
            Kind::Table => PoolKind::Table,
            Kind::Store => PoolKind::Store,
            Kind::Cache => PoolKind::Cache,
        }
    }
}

/// What a pool should hold. Sizes are 0 in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) kind: Kind,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
}

impl Contents {
    pub(crate) const STORE: Contents = Contents { kind: Kind::Store, key_bytes: 0, value_bytes: 0 };

    pub(crate) const CACHE: Contents = Contents { kind: Kind::Cache, ..Contents::STORE };

    pub(crate) fn table<K: Fixed, V: Fixed>() -> Contents {
        // No engine takes sizes that do not fit.
        let bytes = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        Contents {
            kind: Kind::Table,
            key_bytes: bytes(K::layout_bytes()),
            value_bytes: bytes(V::layout_bytes()),
        }
    }

    /// What a pool holds, by its superblock.
    pub(crate) fn of(superblock: &Superblock) -> Contents {
        Contents {
            kind: Kind::of(superblock.kind),
            key_bytes: superblock.key_bytes,
            value_bytes: superblock.value_bytes,
        }
    }

    /// Sizes of the engine's pairs. In a store these are a hash and the place of an item.
    pub(crate) fn sizes(self) -> PairSizes {
        match self.kind {
            Kind::Table => PairSizes { key_bytes: self.key_bytes, value_bytes: self.value_bytes },
            Kind::Store | Kind::Cache => PairSizes::WORDS,
        }
    }

    /// The engine of a new pool: the chosen one, or the first that takes the contents with these parameters.
    pub(crate) fn engine(self, asked: Option<Engine>, parameters: &Parameters) -> Result<Engine> {
        let sizes = self.sizes();
        let first = |parameters: &Parameters| {
            Engine::ALL.iter().copied().find(|engine| engine.takes(sizes, parameters))
        };
        let engine = asked.or_else(|| first(parameters)).unwrap_or_else(|| {
            // The error says what the most capable engine takes.
            most_capable(|engine| parameters.iter().all(|(name, _)| has(engine, name)))
        });
        if engine.takes(sizes, parameters) {
            return Ok(engine);
        }
        if engine.takes(sizes, &Parameters::default())
            && let Some((name, value)) = parameters.iter().find(|&(name, value)| {
                bounds(engine, name, sizes).is_none_or(|bounds| !bounds.contains(&value))
            })
        {
            return Err(Error::Parameter {
                engine: engine.name(),
                name: name.to_owned(),
                value,
                exists: bounds(engine, name, sizes).is_some(),
                advice: self.advice_on(engine, name),
            });
        }
        Err(Error::PairSizes {
            engine: engine.name(),
            takes: engine.description().pair_sizes,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            advice: match first(&Parameters::default()) {
                Some(other) => {
                    format!(
                        "use the engine {other}, which takes {}",
                        other.description().pair_sizes
                    )
                }
                None => "keep them in a `Store`".into(),
            },
        })
    }

    /// What to do about a parameter that the engine does not have, or not with this value.
    fn advice_on(self, engine: Engine, name: &str) -> String {
        if let Some(bounds) = bounds(engine, name, self.sizes()) {
            let (least, most) = bounds.into_inner();
            let of = match self.kind {
                Kind::Table => format!(" with pairs of {} bytes", self.sizes().pair_bytes()),
                Kind::Store | Kind::Cache => String::new(),
            };
            return format!(
                "it must be {least} to {most}{of}; choose one of these, or leave it out"
            );
        }
        let others = Engine::names(|one| one.parameters.iter().any(|of| of.name == name));
        if others.is_empty() {
            return "leave it out; no engine has such a parameter".into();
        }
        format!("leave it out, or use {}", others.replace(" and ", " or "))
    }
}

/// The engine with the largest pairs among those for which `is_one` holds; if there is none, among all.
fn most_capable(is_one: impl Fn(Engine) -> bool) -> Engine {
    let key = |engine: &Engine| (is_one(*engine), engine.description().pair_bytes_max);
    Engine::ALL.iter().copied().max_by_key(key).unwrap_or(Engine::ALL[0])
}

/// Whether an engine has a parameter of this name.
fn has(engine: Engine, name: &str) -> bool {
    engine.description().parameters.iter().any(|parameter| parameter.name == name)
}

/// The range of a parameter in a pool with such pairs, if the engine has the parameter and takes the pairs.
fn bounds(engine: Engine, name: &str, sizes: PairSizes) -> Option<RangeInclusive<u64>> {
    let parameters = engine.description().parameters;
    let parameter = parameters.iter().find(|parameter| parameter.name == name)?;
    (parameter.bounds)(sizes)
}

pub(crate) fn mismatch(
    field: &'static str,
    found: impl ToString,
    expected: impl ToString,
    advice: &'static str,
) -> Error {
    let (found, expected) = (found.to_string(), expected.to_string());
    Error::Open(OpenError::Mismatch { field, found, expected, advice })
}

/// Whether the pool is one of `asked` and of what `contents` says; its engine.
pub(crate) fn check_superblock(
    superblock: &Superblock,
    asked: Option<Engine>,
    contents: Contents,
) -> Result<Engine> {
    const OTHER_BUILD: &str = "open it with the firndex version that made it";
    let found = Contents::of(superblock);
    if found.kind != contents.kind {
        let advice = match found.kind {
            Kind::Table => "open it as a `Table`",
            Kind::Store => "open it as a `Store`",
            Kind::Cache => "open it as a `Cache`",
        };
        return Err(mismatch("kind", found.kind, contents.kind, advice));
    }
    let Some(engine) = Engine::from_id(superblock.engine) else {
        let found = format!("number {}", superblock.engine);
        return Err(mismatch("engine", found, Engine::names(|_| true), OTHER_BUILD));
    };
    if let Some(asked) = asked
        && asked != engine
    {
        return Err(mismatch("engine", engine, asked, "ask for the engine it was made with"));
    }
    if superblock.hash_id != HASH_ID {
        return Err(mismatch("hash function", superblock.hash_id, HASH_ID, OTHER_BUILD));
    }
    for (field, found, expected) in [
        ("key size", found.key_bytes, contents.key_bytes),
        ("value size", found.value_bytes, contents.value_bytes),
    ] {
        if found != expected {
            let (found, expected) = (format!("{found} bytes"), format!("{expected} bytes"));
            let advice = "open it with types of the sizes it was made with";
            return Err(mismatch(field, found, expected, advice));
        }
    }
    if !engine.may_hold(found.sizes()) {
        let sizes = format!("{} and {} bytes", found.key_bytes, found.value_bytes);
        let expected = format!("{}, which is what {engine} takes", engine.description().pair_sizes);
        return Err(mismatch("pair of key and value size", sizes, expected, OTHER_BUILD));
    }
    Ok(engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(key_bytes: u32, value_bytes: u32) -> Contents {
        Contents { kind: Kind::Table, key_bytes, value_bytes }
    }

    /// Of sizes that all engines take, only some, and none.
    const TABLES: [(u32, u32); 9] = [
        (8, 8),
        (4, 8),
        (16, 0),
        (100, 27),
        (100, 100),
        (64 << 10, 256 << 20),
        ((64 << 10) + 1, 0),
        (0, 8),
        (u32::MAX, u32::MAX),
    ];

    fn parameters(chosen: &[(&str, u64)]) -> Parameters {
        let mut parameters = Parameters::default();
        chosen.iter().for_each(|(name, value)| parameters.set(name, *value));
        parameters
    }

    #[test]
    fn the_engine_asked_for_counts_and_else_the_first_that_takes_it() {
        let none = Parameters::default();
        let contents = TABLES.map(|(keys, values)| table(keys, values));
        for contents in contents.into_iter().chain([Contents::STORE]) {
            let takes = |engine: &Engine| engine.takes(contents.sizes(), &none);
            let first = Engine::ALL.iter().copied().find(takes);
            assert_eq!(contents.engine(None, &none).ok(), first, "{contents:?}");
            for &asked in Engine::ALL {
                let chosen = contents.engine(Some(asked), &none);
                if takes(&asked) {
                    assert_eq!(chosen.unwrap(), asked);
                    continue;
                }
                let message = chosen.unwrap_err().to_string();
                let says = match first {
                    Some(first) => format!("use the engine {first}"),
                    None => "`Store`".into(),
                };
                assert!(message.starts_with(&format!("{asked} takes")), "{message}");
                assert!(message.contains(&says), "{message}");
            }
        }
    }

    #[test]
    fn parameters_choose_an_engine_or_are_refused_by_name() {
        for &engine in Engine::ALL {
            for parameter in engine.description().parameters {
                let bounds = (parameter.bounds)(PairSizes::WORDS).unwrap();
                let most = parameters(&[(parameter.name, *bounds.end())]);
                let chosen = table(8, 8).engine(None, &most).unwrap();
                assert!(has(chosen, parameter.name), "{chosen}");
                let beyond = parameters(&[(parameter.name, bounds.end() + 1)]);
                let message = table(8, 8).engine(Some(engine), &beyond).unwrap_err().to_string();
                let says = format!("{} to {}", bounds.start(), bounds.end());
                assert!(message.contains(parameter.name), "{message}");
                assert!(message.contains(&says), "{message}");
                assert!(!message.contains("has no parameter"), "{message}");
                for &other in Engine::ALL.iter().filter(|other| !has(**other, parameter.name)) {
                    let message = table(8, 8).engine(Some(other), &most).unwrap_err().to_string();
                    let says = format!("{other} has no parameter `{}`: ", parameter.name);
                    assert!(message.starts_with(&says), "{message}");
                    assert!(message.contains("leave it out, or use "), "{message}");
                    assert!(message.contains(engine.name()), "{message}");
                    assert!(!message.contains(" and "), "{message}");
                }
            }
            let unknown = parameters(&[("shelves", 3)]);
            for asked in [None, Some(engine)] {
                let message = table(8, 8).engine(asked, &unknown).unwrap_err().to_string();
                assert!(message.contains("no parameter `shelves`"), "{message}");
                assert!(message.contains("no engine has such a parameter"), "{message}");
            }
        }
    }
}
