//! Handles in a forked process. Each test plays in a process of its own, since a fork takes every
//! open pool of the process with it.

use crate::posix::forked;
use crate::{places, processes};
use firndex::{Engine, Error, Options, Table};
use std::path::Path;

fn is_forked<T>(result: firndex::Result<T>) -> bool {
    matches!(result, Err(Error::Forked))
}

fn make(options: &Options, path: &Path) -> Table {
    let table = options.create_table(path).unwrap();
    for key in 0..5000 {
        table.put(key, key).unwrap();
    }
    table
}

fn is_whole(table: &Table) -> bool {
    (0..5000).all(|key| table.get(key).unwrap() == Some(key)) && table.check().unwrap().is_sound()
}

/// A role.
pub(crate) fn fork_and_use(options: &Options, path: &Path) {
    let table = make(options, path);
    let store = options.create_store(path.with_extension("store")).unwrap();
    store.put("key", "parent").unwrap();
    let child = forked(|| {
        let refused = [
            is_forked(table.get(1)),
            is_forked(table.put(1, 7)),
            is_forked(table.insert(10_000, 7)),
            is_forked(table.update(1, 7)),
            is_forked(table.remove(1)),
            is_forked(table.compare_exchange(1, Some(1), None)),
            is_forked(table.modify(1, |_| None)),
            is_forked(table.get_many(&[1])),
            is_forked(table.put_many(&[(1, 7)])),
            is_forked(table.remove_many(&[1])),
            is_forked(table.for_each(|_, _| {})),
            is_forked(table.check()),
            is_forked(table.shrink()),
            is_forked(table.sync()),
            is_forked(store.get("key")),
            is_forked(store.put("key", "child")),
            is_forked(store.insert("new", "child")),
            is_forked(store.update("key", "child")),
            is_forked(store.remove("key")),
            is_forked(store.compare_exchange("key", Some(b"parent"), None)),
            is_forked(store.modify("key", |_| None)),
            is_forked(store.get_many(&[b"key"])),
            is_forked(store.put_many(&[(b"key", b"child")])),
            is_forked(store.remove_many(&[b"key"])),
            is_forked(store.for_each(|_, _| {})),
            is_forked(store.check()),
            is_forked(store.shrink()),
            is_forked(store.sync()),
        ];
        let advice = Error::Forked.to_string();
        refused.iter().all(|&refused| refused) && advice.contains("open the pool again")
    });
    assert!(child.ended_well(), "the child could use an inherited handle");
    assert!(is_whole(&table));
    table.put(5000, 1).unwrap();
    assert_eq!(store.get("key").unwrap().as_deref(), Some(&b"parent"[..]));
    store.put("key", "again").unwrap();
    table.close().unwrap();
    assert!(is_whole(&Table::open(path).unwrap()));
}

/// A role: a child that drops what it inherited changes nothing, and unlocks nothing.
pub(crate) fn fork_and_drop(options: &Options, path: &Path) {
    let table = make(options, path);
    table.sync().unwrap();
    table.put(1, 1).unwrap();
    let mut inherited = Some(table);
    let child = forked(|| match inherited.take() {
        Some(table) => is_forked(table.close()),
        None => false,
    });
    assert!(child.ended_well());
    let table = inherited.unwrap();
    assert!(!firndex::inspect(path).unwrap().clean, "the child marked the parent's pool as clean");
    processes::run("be refused", Engine::Iceberg, path);
    assert!(is_whole(&table));
}

/// A role: a child that lives on does not keep a pool that the parent has closed.
pub(crate) fn fork_and_close(options: &Options, path: &Path) {
    let table = make(options, path);
    let (wait, end) = std::io::pipe().unwrap();
    let child = forked(|| std::io::Read::read(&mut &wait, &mut [0]).is_ok());
    table.close().unwrap();
    let reopened = Table::open(path);
    std::io::Write::write_all(&mut &end, &[1]).unwrap();
    assert!(child.ended_well());
    assert!(is_whole(&reopened.unwrap()));
}

/// A role: what the error tells a child to do, a child can do.
pub(crate) fn fork_and_hand_over(options: &Options, path: &Path) {
    let table = make(options, path);
    let mut inherited = Some(table);
    let (wait, go_on) = std::io::pipe().unwrap();
    let child = forked(|| {
        drop(inherited.take());
        std::io::Read::read(&mut &wait, &mut [0]).unwrap();
        match Table::open(path) {
            Ok(table) => is_whole(&table) && table.put(1, 77).unwrap() == Some(1),
            Err(error) => {
                eprintln!("in the child: {error}");
                false
            }
        }
    });
    inherited.unwrap().close().unwrap();
    std::io::Write::write_all(&mut &go_on, &[1]).unwrap();
    assert!(child.ended_well(), "the child could not open the pool after the parent closed it");
    assert_eq!(Table::open(path).unwrap().get(1).unwrap(), Some(77));
}

fn play(role: &str) {
    for &engine in Engine::ALL {
        let directory = places::in_ram();
        processes::run(role, engine, &directory.path().join("pool"));
    }
}

#[test]
fn a_child_is_refused_and_the_parent_unaffected() {
    play("fork and use");
}

#[test]
fn a_child_drops_its_handle_without_effect() {
    play("fork and drop");
}

#[test]
fn a_living_child_does_not_keep_a_closed_pool_locked() {
    play("fork and close");
}

#[test]
fn a_child_opens_the_pool_after_the_parent_has_closed_it() {
    play("fork and hand over");
}
