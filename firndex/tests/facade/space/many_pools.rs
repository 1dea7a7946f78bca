//! A process can hold a thousand pools: addresses are what they would run out of first.

use firndex::{Engine, Options, Store, Table};

/// More than anybody should need in one process, and half of what its addresses allow.
const POOLS: usize = 1000;

#[test]
fn a_process_can_hold_a_thousand_pools_with_default_options() {
    let mut tables: Vec<(u64, Table)> = Vec::new();
    let mut stores: Vec<(u64, Store)> = Vec::new();
    for number in 0..POOLS as u64 {
        let engine = Engine::ALL[number as usize % Engine::ALL.len()];
        let options = Options::new().engine(engine);
        if number % 2 == 0 {
            let table = options.in_memory_table().unwrap();
            assert_eq!(table.put(number, !number).unwrap(), None);
            tables.push((number, table));
        } else {
            let store = options.in_memory_store().unwrap();
            assert!(store.put(number.to_le_bytes(), "value").unwrap().is_none());
            stores.push((number, store));
        }
    }
    for (number, table) in &tables {
        assert_eq!(table.get(*number).unwrap(), Some(!number));
    }
    for (number, store) in &stores {
        assert_eq!(store.get(number.to_le_bytes()).unwrap().as_deref(), Some(&b"value"[..]));
    }
}
