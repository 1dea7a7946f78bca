//! What the tests know of single engines, a file for each that they know anything of.

mod clevel;
mod iceberg;
mod level;
mod pfht;
mod rewo;

use firndex::{Engine, Options};
use pmem::superblock::{Extent, HEAP, HEAP_WORDS, Superblock};
use std::ops::Range;

/// Where the things of a pool are that blows fall on, as positions in its bytes.
#[derive(Default)]
pub(crate) struct Anatomy {
    /// Keys of pairs; the value is the next word.
    pub(crate) keys: Vec<usize>,
    /// Keys without a value beside them.
    pub(crate) lone_keys: Vec<usize>,
    pub(crate) taken_values: Vec<usize>,
    pub(crate) states: Vec<usize>,
    pub(crate) items: Vec<usize>,
    pub(crate) descriptors: Vec<usize>,
}

pub(crate) fn load(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn range(extent: &Extent) -> Range<usize> {
    extent.start.0 as usize..extent.end() as usize
}

impl Anatomy {
    pub(crate) fn of(superblock: &Superblock, bytes: &[u8]) -> Anatomy {
        let mut anatomy = Anatomy::default();
        let dissect = match Engine::from_id(superblock.engine) {
            Some(Engine::Iceberg) => iceberg::dissect,
            Some(Engine::Level) => level::dissect,
            Some(Engine::Clevel) => clevel::dissect,
            Some(Engine::Rewo) => rewo::dissect,
            Some(Engine::Pfht) => pfht::dissect,
            // Words that may be anything.
            _ => |_: &[u8], extent: &Extent, anatomy: &mut Anatomy| {
                anatomy.states.extend(range(extent).step_by(8));
            },
        };
        for extent in &superblock.extents {
            match extent.owner {
                HEAP => {}
                HEAP_WORDS => anatomy.descriptors.extend(range(extent).step_by(8)),
                _ => dissect(bytes, extent, &mut anatomy),
            }
        }
        for &key in &anatomy.keys {
            let (value_at, value) = (key + 8, load(bytes, key + 8));
            if load(bytes, key) != 0 || value != 0 {
                anatomy.taken_values.push(value_at);
                let item = (value & !1) as usize;
                if !anatomy.descriptors.is_empty() && item + 32 <= bytes.len() {
                    anatomy.items.push(item);
                }
            }
        }
        anatomy.keys.append(&mut anatomy.lone_keys);
        anatomy
    }
}

/// Whether entries of a batch may take effect behind one that fails for want of space, in a table and in a store.
pub(crate) fn goes_on_behind(engine: Engine) -> (bool, bool) {
    match engine {
        // First come the entries that need not wait, and then the others one after the other.
        Engine::Iceberg => (true, true),
        // One after the other.
        Engine::Clevel => (false, false),
        // Items first take what space there is.
        _ => (false, true),
    }
}

/// Options with which a table of some 1,500 pairs has some in each of the levels that hold pairs when
/// nothing resizes, and how many levels these are.
pub(crate) fn filling_all_levels(engine: Engine) -> (Options, usize) {
    let options = Options::new().engine(engine);
    match engine {
        // Its third level takes what the others have no room for.
        Engine::Iceberg => (options.resize_at(2.0), 3),
        Engine::Level | Engine::Clevel => (options, 2),
        _ => (options, 1),
    }
}
