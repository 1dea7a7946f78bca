//! Space that values of one size leave serves values of any other.

use firndex::{Engine, Error, Options, Store};

const MAX_BYTES: u64 = 64 << 20;

fn value_of(key: u32, bytes: usize) -> Vec<u8> {
    key.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

/// Puts keys from `from` on until the store is full; returns the first that was refused.
fn fill(store: &Store, from: u32, bytes: usize) -> u32 {
    let key = (from..).find(|&key| match store.put(key.to_le_bytes(), value_of(key, bytes)) {
        Ok(_) => false,
        Err(Error::PoolFull(_)) => true,
        Err(error) => panic!("{error}"),
    });
    key.unwrap()
}

fn assert_has(store: &Store, keys: impl Iterator<Item = u32>, bytes: usize) {
    for key in keys {
        let found = store.get(key.to_le_bytes()).unwrap();
        assert!(found.as_deref() == Some(&value_of(key, bytes)[..]), "key {key}");
    }
}

fn assert_sound(store: &Store) {
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
}

fn is_kept(key: u32) -> bool {
    (u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 10 == 0
}

#[test]
fn values_of_another_size_take_what_removed_ones_left() {
    for &engine in Engine::ALL {
        let options = Options::new().engine(engine).max_bytes(MAX_BYTES);
        let fresh = fill(&options.in_memory_store().unwrap(), 0, 200);
        let store = options.in_memory_store().unwrap();
        let end = fill(&store, 0, 100);
        for key in (0..end).filter(|&key| !is_kept(key)) {
            assert!(store.remove(key.to_le_bytes()).unwrap().is_some());
        }
        let again = fill(&store, end, 200) - end;
        let stats = store.stats().unwrap();
        eprintln!(
            "{engine}: fresh {fresh} first {end} again {again} ratio {} heap {} used {}",
            again as f64 / fresh as f64,
            stats.heap_bytes,
            stats.heap_used_bytes
        );
        assert_has(&store, (0..end).filter(|&key| is_kept(key)), 100);
        assert_has(&store, end..end + again, 200);
        assert_sound(&store);
    }
}
