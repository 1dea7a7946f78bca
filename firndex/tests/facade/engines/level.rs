//! Level hashing: sizes of pairs, slots of buckets, and shrinking in place.

use super::{Anatomy, load, range};
use crate::api::equality::{Alike, Never, Single, keeps_floats};
use crate::api::pair_sizes::{Late, assert_says, is_a_map, make_with_sizes, open_of};
use crate::places;
use crate::superblocks::assert_refused;
use firndex::{Engine, Error, OpenError, Options};
use pmem::superblock::Extent;

/// A bucket with four pairs of words: a state word, then the pairs.
const BUCKET_BYTES: usize = 128;

pub(super) fn dissect(bytes: &[u8], extent: &Extent, anatomy: &mut Anatomy) {
    if extent.owner != 1 {
        return anatomy.states.extend(range(extent).step_by(8));
    }
    for bucket in range(extent).step_by(BUCKET_BYTES) {
        anatomy.states.push(bucket);
        let tokens = load(bytes, bucket);
        let keys = (0..4).filter(|slot| tokens >> slot & 1 == 1).map(|slot| bucket + 8 + 16 * slot);
        anatomy.keys.extend(keys);
    }
}

/// Each pair of types is an engine to compile, so these are few: small, odd, as large as can be, and
/// a set, which has keys alone.
#[test]
fn it_keeps_what_fits_its_buckets() {
    is_a_map::<u8, i8>(Engine::Level);
    is_a_map::<u32, u128>(Engine::Level);
    is_a_map::<[u8; 16], [u8; 15]>(Engine::Level);
    is_a_map::<[u8; 111], i128>(Engine::Level);
    is_a_map::<u16, [u8; 0]>(Engine::Level);
    is_a_map::<Never<16>, Never<15>>(Engine::Level);
    is_a_map::<Alike<16>, Alike<15>>(Engine::Level);
    is_a_map::<Late<16>, Late<15>>(Engine::Level);
    is_a_map::<Late<16>, Late<8>>(Engine::Level);
    is_a_map::<Late<111>, Late<16>>(Engine::Level);
    keeps_floats::<Single>(Engine::Level);
}

/// Few slots for long pairs, many for tables that fill up before they grow; and remembered.
#[test]
fn buckets_of_as_many_slots_as_asked_for() {
    let directory = places::in_ram();
    for slots in 1..=8 {
        let path = directory.path().join(format!("slots {slots}"));
        let options = Options::new().parameter("slots", slots);
        let table = options.create_table(&path).unwrap();
        assert_eq!(table.stats().unwrap().engine, Engine::Level);
        // Two levels of 16 and 8 buckets.
        assert_eq!(table.stats().unwrap().capacity, 24 * slots);
        (0..1000).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
        table.close().unwrap();
        let table = Options::new().parameter("slots", 3).open_table(&path).unwrap();
        assert_eq!(table.stats().unwrap().capacity % (3 * 8 * slots), 0, "its own slots");
        (0..1000).for_each(|key| assert_eq!(table.get(key).unwrap(), Some(!key)));
        assert!(table.check().unwrap().is_sound());
    }
    let path = directory.path().join("long");
    let long = |byte| [byte; 250];
    let table =
        Options::new().parameter("slots", 2).create_table_of::<[u8; 250], u32>(&path).unwrap();
    assert_eq!(table.stats().unwrap().engine, Engine::Level);
    (0..200).for_each(|byte| assert_eq!(table.put(long(byte), byte.into()).unwrap(), None));
    drop(table);
    let table = open_of::<[u8; 250], u32>(&path).unwrap();
    (0..200).for_each(|byte| assert_eq!(table.get(long(byte)).unwrap(), Some(byte.into())));

    // Nothing is made where there are no such buckets.
    let path = directory.path().join("none");
    for (engine, slots, says) in [
        (
            Engine::Level,
            9,
            "`slots` cannot be 9 on level: it must be 1 to 8 with pairs of 16 bytes",
        ),
        (Engine::Level, 0, "it must be 1 to 8"),
        (Engine::ALL[0], 4, "leave it out, or use level"),
    ] {
        let options = Options::new().engine(engine).parameter("slots", slots);
        assert_says(&options.create_table(&path).unwrap_err(), &[says]);
    }
    assert!(!path.exists());
}

#[test]
fn sizes_that_its_buckets_were_not_made_for_are_refused() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_with_sizes(&path, Engine::Level, 1000, 8);
    let other_build = "open it with the firndex version that made it";
    let says = ["key and value size is 1000 and 8 bytes", "at most 127", "level", other_build];
    assert_refused(&path, open_of::<[u8; 1000], u64>, &says);
    // Sizes that it takes, but not those that its buckets were made for.
    make_with_sizes(&path, Engine::Level, 111, 16);
    let error = open_of::<[u8; 111], i128>(&path).unwrap_err();
    assert!(matches!(error, Error::Open(OpenError::Corrupt { .. })), "{error:?}");
    assert_says(&error, &["damaged", "the extent of level"]);
}

#[test]
fn halving_takes_no_space_even_in_a_full_pool() {
    let options = Options::new().engine(Engine::Level).max_bytes(600_000);
    let table = options.in_memory_table().unwrap();
    let pairs = (0..).find(|&key| table.put(key, key).is_err()).unwrap();
    let bytes = table.stats().unwrap().pool_bytes;
    for key in 100..pairs {
        table.remove(key).unwrap();
    }
    let halved = (0..).take_while(|_| table.shrink().unwrap()).count();
    assert!(halved > 2, "halved {halved} times");
    assert_eq!(table.stats().unwrap().pool_bytes, bytes);
}
