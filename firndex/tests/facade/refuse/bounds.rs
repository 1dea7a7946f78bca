//! What is too much is refused, and figures stay within their scales.

use firndex::{Engine, Error, Options, Store};

#[test]
fn a_capacity_that_nothing_holds_is_a_full_pool_on_each_engine() {
    for &engine in Engine::ALL {
        for capacity in [1 << 38, 1 << 40] {
            let options = Options::new().engine(engine).capacity(capacity);
            let table = options.in_memory_table().map(drop).unwrap_err();
            let store = options.in_memory_store().map(drop).unwrap_err();
            for error in [table, store] {
                assert!(matches!(error, Error::PoolFull(_)), "{engine}: {error:?}");
                assert!(!error.to_string().contains("remove"), "{error}");
            }
        }
    }
}

#[test]
fn no_load_factor_is_above_one_even_where_a_table_never_doubles() {
    let mut highest = 0.0_f64;
    for &engine in Engine::ALL {
        let options = Options::new().engine(engine).resize_at(f64::INFINITY).max_bytes(1 << 20);
        let table = options.in_memory_table().unwrap();
        for key in 0..200_000 {
            if table.put(key, key).is_err() {
                break;
            }
            if key % 500 == 0 {
                highest = highest.max(table.stats().unwrap().load_factor);
            }
        }
        highest = highest.max(table.stats().unwrap().load_factor);
        assert!(highest <= 1.0, "{engine}: {highest}");
    }
    assert_eq!(highest, 1.0, "one of them takes more pairs than its capacity");
}

#[test]
fn a_record_shows_how_long_it_is_and_nothing_of_its_bytes_or_of_the_pool() {
    let store = Store::in_memory().unwrap();
    store.put("key", "a secret").unwrap();
    let record = store.get("key").unwrap().unwrap();
    assert_eq!(format!("{record:?}"), "Record { len: 8, .. }");
}
