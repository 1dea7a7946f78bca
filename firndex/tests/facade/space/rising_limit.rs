//! A store that is full, and whose limit rises by little from opening to opening.

use crate::places;
use firndex::{Engine, Error, Options};

const RISE_BYTES: u64 = 160 << 10;

/// Whatever is put up to the limit stays what it is, though the heap grows by a segment or two at its end.
#[test]
fn values_stay_what_they_are() {
    let each =
        Engine::ALL.iter().flat_map(|&engine| [20_000, 9000, 8740].map(|bytes| (engine, bytes)));
    for (engine, value_bytes) in each {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let options = Options::new().engine(engine).helpers(0);
        let value = |key: u32| vec![key as u8; value_bytes];
        let mut stored = 0_u32;
        // More descriptors than fit a segment come at 8 MiB.
        for opening in 0..16 {
            let options = options.clone().max_bytes((8 << 20) + opening * RISE_BYTES);
            let store = options.open_or_create_store(&path).unwrap();
            let before = stored;
            let refused = loop {
                match store.put(stored.to_le_bytes(), value(stored)) {
                    Ok(_) => stored += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(refused, Error::PoolFull(_)), "{refused:?}");
            assert!(stored > before, "{engine}, {value_bytes}: {refused} at opening {opening}");
            let report = store.check().unwrap();
            assert!(report.is_sound(), "{engine}, {value_bytes}: {:?}", report.findings);
            for key in 0..stored {
                let found = store.get(key.to_le_bytes()).unwrap();
                assert!(
                    found.as_deref() == Some(&value(key)[..]),
                    "{engine}, {value_bytes}: {key}"
                );
            }
            store.close().unwrap();
        }
    }
}
