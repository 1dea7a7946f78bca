//! What lies beside a closed pool: one image of it, and some of its log.

use crate::places::{companions, copy_companions, on_disk};
use firndex::{Durability, Options, Table};
use std::path::Path;
use std::time::Duration;

/// Large enough for a second image to be too much.
const SLOTS: u64 = 8_000_000;
const PAIRS: u64 = 300_000;

fn beside(path: &Path) -> u64 {
    let files = std::fs::read_dir(companions(path)).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn demand_rest(path: &Path) {
    let pool = std::fs::metadata(path).unwrap().len();
    let (beside, most) = (beside(path), pool + pool / 20 + (64 << 20));
    assert!(2 * pool > most, "a pool of {pool} bytes is too small to tell");
    assert!(beside <= most, "{beside} bytes beside a pool of {pool}");
}

/// What power loss would leave now.
fn restored(path: &Path) -> Table<u64, u64> {
    let elsewhere = on_disk();
    copy_companions(path, elsewhere.path());
    Table::open(elsewhere.path().join(path.file_name().unwrap())).unwrap()
}

#[test]
fn a_closed_pool_has_one_image_and_goes_on_from_it() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let options = Options::new().durability(Durability::Periodic).capacity(SLOTS);
    let table: Table<u64, u64> = options.create_table(&path).unwrap();
    for key in 0..PAIRS {
        table.put(key, key).unwrap();
    }
    table.close().unwrap();
    demand_rest(&path);
    for opening in 1..3 {
        let table: Table<u64, u64> = Table::open(&path).unwrap();
        for key in (opening * 1000..).take(1000) {
            table.put(key, opening).unwrap();
        }
        table.sync().unwrap();
        // Who stays takes the second place.
        while beside(&path) < 2 * std::fs::metadata(&path).unwrap().len() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let found = restored(&path);
        let expected = |key: u64| match key / 1000 {
            part if (1..=opening).contains(&part) => part,
            _ => key,
        };
        for key in (0..PAIRS).step_by(97).chain(0..5000) {
            assert_eq!(found.get(key).unwrap(), Some(expected(key)), "{key} at opening {opening}");
        }
        drop(found);
        table.close().unwrap();
        demand_rest(&path);
    }
}
