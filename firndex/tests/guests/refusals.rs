//! What guests are refused, and how they are told.

use crate::owner::{Kind, Process, patient};
use firndex::{
    Durability, Engine, Error, ItemError, KEY_BYTES_MAX, OpenError, Options, Role, Store, Table,
};

#[test]
fn without_leave_nobody_is_let_in_and_the_error_says_how_to_get_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    // The process itself is told something else.
    let owner = Process::owner(Kind::Store, &path, Engine::ALL[0], Durability::Process);
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with(".firndex-") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let refused = Store::open(&path).unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::Busy { .. })), "{refused:?}");
    assert!(refused.to_string().contains("Options::guests"), "{refused}");
    owner.close();
}

#[test]
fn a_guest_with_other_types_is_refused_as_an_owner_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let _owner = Process::owner(Kind::Words, &path, Engine::ALL[0], Durability::Process);
    for refused in [
        patient().open_store(&path).map(drop),
        patient().open_table_of::<u32, u64>(&path).map(drop),
        patient().open_table_of::<u64, i64>(&path).map(drop),
        patient().engine(Engine::ALL[1]).open_table(&path).map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Open(OpenError::Mismatch { .. })), "{refused:?}");
    }
}

#[test]
fn limits_are_those_of_the_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let _owner = Process::owner(Kind::Store, &path, Engine::ALL[0], Durability::Process);
    let store = patient().open_store(&path).unwrap();
    let long = vec![1; KEY_BYTES_MAX + 1];
    for refused in [
        store.put(&long, "").map(drop),
        store.put_many(&[(&b"a"[..], &b"1"[..]), (&long, b"2")]).map(drop).map_err(Error::from),
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, Error::Limit(ItemError::KeyTooLong { found, limit })
                if found == limit + 1 && limit == KEY_BYTES_MAX),
            "{refused:?}"
        );
    }
    assert!(store.get(&long).unwrap().is_none());
    let failed = store.put_many(&[(&b"a"[..], &b"1"[..]), (&long, b"2")]).unwrap_err();
    assert_eq!((failed.failed(), failed.done()), (Some(1), 0));
    assert_eq!(store.len(), 0);
}

#[test]
fn a_full_pool_is_full_for_guests_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let own: Table<u64, u64> =
        Options::new().guests(true).max_bytes(1 << 20).create_table(&path).unwrap();
    let mut filler = crate::owner::filler(&path);
    assert!(filler.has_succeeded());
    assert!(
        matches!(own.put_many(&(1 << 40..(1 << 40) + 100_000).map(|k| (k, k)).collect::<Vec<_>>()),
        Err(failed) if matches!(failed.error(), Error::PoolFull(_)))
    );
}

#[test]
fn what_is_the_owners_alone_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let _owner = Process::owner(Kind::Store, &path, Engine::ALL[0], Durability::Process);
    let store = patient().open_store(&path).unwrap();
    store.put("a", "1").unwrap();
    let refused = store.check().unwrap_err();
    assert!(matches!(refused, Error::ForOwner { what: "`check`", .. }), "{refused:?}");
    let refused = store.rewrite().unwrap_err();
    assert!(matches!(refused, Error::ForOwner { what: "`rewrite`", .. }), "{refused:?}");
    assert_eq!(patient().open_store(&path).unwrap().len(), 1);
}

#[test]
fn a_guest_that_only_reads_changes_nothing_and_owns_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let owner = Process::owner(Kind::Words, &path, Engine::ALL[0], Durability::Process);
    let writer: Table<u64, u64> = patient().never_own(true).open_table(&path).unwrap();
    let reader: Table<u64, u64> = Options::new()
        .read_only(true)
        .patience(std::time::Duration::from_millis(50))
        .open_table(&path)
        .unwrap();
    writer.put(1, 10).unwrap();
    assert_eq!((reader.get(1).unwrap(), reader.len()), (Some(10), 1));
    assert!(matches!(reader.put(1, 11), Err(Error::ReadOnly)));
    assert!(
        matches!(reader.remove_many(&[1]), Err(failed) if matches!(failed.error(), Error::ReadOnly))
    );
    assert!(matches!(reader.shrink(), Err(Error::ReadOnly)));
    assert_eq!(reader.iter().count(), 1);
    owner.kill();
    // What the owner has shown counts until this guest hears of the end.
    let orphaned = loop {
        match reader.get(1) {
            Ok(found) => assert_eq!(found, Some(10)),
            Err(error) => break error,
        }
    };
    assert!(matches!(orphaned, Error::Silent { .. }), "{orphaned:?}");
    assert_eq!(reader.role(), Role::Guest);
}
