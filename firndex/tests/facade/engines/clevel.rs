//! Clevel hashing: pairs of any size, each an item.

use super::{Anatomy, load, range};
use crate::api::equality::{Alike, Never, Single, keeps_floats};
use crate::api::pair_sizes::{Late, is_a_map};
use crate::places;
use crate::space::given_back;
use firndex::{Durability, Engine, Options, Table};
use pmem::superblock::Extent;

/// In a slot: where the item is, in units of 16 bytes, and whether there is one.
const OFFSET: u64 = (1 << 38) - 1;
const KIND: u64 = 3 << 38;
const ITEM: u64 = 1 << 38;

pub(super) fn dissect(bytes: &[u8], extent: &Extent, anatomy: &mut Anatomy) {
    if extent.owner != 1 {
        return anatomy.states.extend(range(extent).step_by(8));
    }
    for slot in range(extent).step_by(8) {
        anatomy.lone_keys.push(slot);
        let word = load(bytes, slot);
        if word & KIND == ITEM {
            anatomy.taken_values.push(slot);
            anatomy.items.push((word & OFFSET) as usize * 16);
        }
    }
}

/// Shorter than a word, longer than what is put together without an allocation, and a set.
#[test]
fn it_keeps_pairs_of_any_size() {
    is_a_map::<u8, i8>(Engine::Clevel);
    is_a_map::<[u8; 67], [u8; 301]>(Engine::Clevel);
    is_a_map::<[u8; 64], [u8; 0]>(Engine::Clevel);
    is_a_map::<Never<67>, Never<3>>(Engine::Clevel);
    is_a_map::<Alike<67>, Alike<3>>(Engine::Clevel);
    is_a_map::<Late<67>, Late<301>>(Engine::Clevel);
    is_a_map::<Late<16>, Late<8>>(Engine::Clevel);
    keeps_floats::<Single>(Engine::Clevel);
}

#[test]
fn space_of_removed_values_goes_back_and_is_taken_again() {
    let options = Options::new().engine(Engine::Clevel);
    given_back::demand_that_space_goes_back_and_is_taken_again(&options, places::in_ram());
}

#[test]
fn a_table_of_items_gives_space_back_too() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let options = Options::new().engine(Engine::Clevel).durability(Durability::Process);
    let table: Table<u64, [u8; 500]> =
        options.clone().compact_at(0.25).create_table_of(&path).unwrap();
    (0..40_000).for_each(|key| assert!(table.put(key, [key as u8; 500]).unwrap().is_none()));
    let full = given_back::taken(&path);
    table.retain(|key, _| key % 10 == 0).unwrap();
    given_back::wait_until_small(&path, full / 2);
    for key in 0..40_000 {
        assert_eq!(table.get(key).unwrap(), (key % 10 == 0).then_some([key as u8; 500]));
    }
    assert!(table.check().unwrap().is_sound());
}
