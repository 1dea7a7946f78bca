//! What survives power loss, as a guest asks for it.

use crate::owner::{Kind, Process, patient};
use firndex::{Durability, Engine, Error, Store};
use std::time::SystemTime;

#[test]
fn tickets_of_a_guest_are_the_owners() {
    for durability in [Durability::Periodic, Durability::Commit] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let owner = Process::owner(Kind::Store, &path, Engine::ALL[0], durability);
        let store = patient().open_store(&path).unwrap();
        let before = SystemTime::now();
        store.put("a", "1").unwrap();
        let ticket = store.ticket().unwrap();
        store.wait_durable(ticket).unwrap();
        assert!(store.durable_up_to().unwrap() >= ticket);
        store.put("b", "2").unwrap();
        store.commit().unwrap();
        store.put("c", "3").unwrap();
        store.sync().unwrap();
        store.put("d", "4").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.when_durable(store.ticket().unwrap())).unwrap();
        let log = store.log().unwrap().expect("the owner has a log");
        assert!(log.durable_until.unwrap() >= before - std::time::Duration::from_secs(1));
        assert!(log.written_bytes > 0 && log.failure.is_none());
        assert_eq!(store.stats().unwrap().durability, durability);
        drop(store);
        owner.close();
        assert_eq!(Store::open(&path).unwrap().len(), 4);
    }
}

#[test]
fn without_a_log_there_is_nothing_to_wait_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let _owner = Process::owner(Kind::Store, &path, Engine::ALL[0], Durability::Process);
    let store = patient().open_store(&path).unwrap();
    assert!(matches!(store.ticket(), Err(Error::NotLogged)));
    assert!(store.log().unwrap().is_none());
    store.sync().unwrap();
}

/// Each process counts its epochs anew. A ticket of the former owner is waited for all the same, and not for ever.
#[test]
fn tickets_outlive_the_owner_that_has_given_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let owner = Process::owner(Kind::Store, &path, Engine::ALL[0], Durability::Periodic);
    let store = patient().open_store(&path).unwrap();
    let mut ticket = store.ticket().unwrap();
    for key in 0..200u64 {
        store.put(key.to_le_bytes(), "1").unwrap();
        store.commit().unwrap();
        ticket = store.ticket().unwrap();
    }
    owner.kill();
    store.wait_durable(ticket).unwrap();
    assert_eq!(store.role(), firndex::Role::Owner);
    assert!(store.durable_up_to().unwrap() >= ticket);
    assert!(store.ticket().unwrap() > ticket);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.when_durable(ticket)).unwrap();
    store.commit().unwrap();
    store.close().unwrap();
}

#[test]
fn a_wait_for_the_disk_does_not_keep_the_pool_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let owner = Process::owner(Kind::Store, &path, Engine::ALL[0], Durability::Periodic);
    let store = patient().open_store(&path).unwrap();
    store.put("a", "1").unwrap();
    let waits: Vec<_> = (0..30).map(|_| store.when_durable(store.ticket().unwrap())).collect();
    // Beside so many waits others are answered.
    assert!(store.get("a").unwrap().is_some());
    owner.kill();
    store.put("b", "2").unwrap();
    store.close().unwrap();
    drop(waits);
    assert_eq!(Store::open(&path).unwrap().len(), 2);
}

#[test]
fn the_owners_durability_counts_and_another_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let owner = Process::owner(Kind::Store, &path, Engine::ALL[0], Durability::Commit);
    let refused = patient().durability(Durability::Process).open_store(&path).unwrap_err();
    assert!(
        matches!(&refused, Error::Open(firndex::OpenError::Mismatch { field: "durability", .. })),
        "{refused:?}"
    );
    let store = patient().durability(Durability::Commit).open_store(&path).unwrap();
    store.put("a", "1").unwrap();
    owner.kill();
    store.put("b", "2").unwrap();
    assert_eq!(store.stats().unwrap().durability, Durability::Commit);
}

/// What takes a rewritten pool's place counts on from it.
#[test]
fn tickets_outlive_a_rewrite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    for _ in 0..4 {
        // Openings count, too.
        Store::open_or_create(&path).unwrap().close().unwrap();
    }
    let own = patient().guests(true).open_store(&path).unwrap();
    let guest = patient().open_store(&path).unwrap();
    guest.put("a", "1").unwrap();
    let ticket = guest.ticket().unwrap();
    own.rewrite().unwrap();
    guest.wait_durable(ticket).unwrap();
    assert!(guest.durable_up_to().unwrap() >= ticket);
    assert!(guest.ticket().unwrap() > ticket);
    assert_eq!(guest.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    guest.close().unwrap();
}
