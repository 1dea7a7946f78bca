//! A process with a limit of addresses (`ulimit -v`).

use crate::roles;
use firndex::{Engine, Error, Options, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

const MB: u64 = 1 << 20;

/// A role: several pools are made, written to, and opened again, each in what the ones before have left.
pub(crate) fn have_few(directory: &Path, limit: u64) {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: Some(limit), maximum }).unwrap();
    for _ in 0..2 {
        let stores: Vec<Store> = Engine::ALL
            .iter()
            .take(if limit < 1500 * MB { 1 } else { 3 })
            .map(|&engine| {
                let options = Options::new().engine(engine);
                let store = options.open_or_create_store(directory.join(engine.name())).unwrap();
                store.put("key", vec![1; 1 << 20]).unwrap();
                assert_eq!(store.get("key").unwrap().unwrap().len(), 1 << 20);
                store
            })
            .collect();
        for store in stores {
            store.close().unwrap();
        }
    }
    if limit > 1500 * MB {
        return;
    }
    let refused = Options::new().open_or_create_store(directory.join("large")).and_then(|store| {
        (0..).try_for_each(|key: u64| store.put(key.to_le_bytes(), vec![1; 64 << 20]).map(drop))
    });
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::PoolFull(_)), "{refused:?}");
    let told = refused.to_string();
    assert!(told.contains("ulimit -v") && told.contains(&limit.to_string()), "{told}");
}

#[test]
fn pools_share_the_addresses_that_there_are() {
    for limit_mb in [800, 1024, 2000, 3000, 4096, 6144, 12000] {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        roles::run("have few addresses", directory.path(), limit_mb * MB);
    }
}
