//! What the pages say of FeOxDB's file: it does not grow, and a put into a full one succeeds and is lost.

use feoxdb::{FeoxError, FeoxStore};

#[test]
fn feoxdb_takes_puts_that_its_file_has_no_room_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("feox").to_str().unwrap().to_owned();
    // 256 blocks, so fewer pairs.
    let open = || FeoxStore::builder().device_path(path.clone()).file_size(1 << 20).build();

    let store = open().unwrap();
    for number in 0..300u32 {
        store.insert(&number.to_be_bytes(), &[7; 100]).unwrap();
    }
    assert!(matches!(store.flush(), Err(FeoxError::OutOfSpace)));
    assert_eq!(store.len(), 300, "as long as it is open, it answers for all");
    drop(store);
    assert!(open().unwrap().len() < 256);
}
