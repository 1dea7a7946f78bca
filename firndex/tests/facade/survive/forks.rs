//! Handles in a forked process. Each test plays in a process of its own, since a fork takes every
//! open pool of the process with it.

use crate::posix::{self, forked};
use crate::superblocks::PREFERRED;
use crate::{effort, places, processes};
use firndex::{Engine, Error, Options, Store, Table};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

fn is_forked<T>(result: Result<T, impl Into<Error>>) -> bool {
    matches!(result.map_err(Into::into), Err(Error::Forked))
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
            is_forked(table.iter().next().unwrap()),
            is_forked(table.scan(0, 10)),
            is_forked(table.try_for_each(|_, _| ControlFlow::<()>::Continue(()))),
            is_forked(table.check()),
            is_forked(table.shrink()),
            is_forked(table.sync()),
            is_forked(table.stats()),
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
            is_forked(store.iter().next().unwrap()),
            is_forked(store.scan(0, 10)),
            is_forked(store.try_for_each(|_, _| ControlFlow::<()>::Continue(()))),
            is_forked(store.check()),
            is_forked(store.shrink()),
            is_forked(store.sync()),
            is_forked(store.stats()),
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
    assert!(is_whole(&<Table>::open(path).unwrap()));
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
    processes::run("be refused", PREFERRED, path);
    assert!(is_whole(&table));
}

/// A role: a child that lives on does not keep a pool that the parent has closed.
pub(crate) fn fork_and_close(options: &Options, path: &Path) {
    let table = make(options, path);
    let (wait, end) = std::io::pipe().unwrap();
    let child = forked(|| std::io::Read::read(&mut &wait, &mut [0]).is_ok());
    table.close().unwrap();
    let reopened = <Table>::open(path);
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
        match <Table>::open(path) {
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
    assert_eq!(<Table>::open(path).unwrap().get(1).unwrap(), Some(77));
}

/// A role: so can one that still has the inherited handle, and may drop it afterwards.
pub(crate) fn fork_and_keep(options: &Options, path: &Path) {
    let mut inherited = Some(make(options, path));
    let (wait, go_on) = std::io::pipe().unwrap();
    let child = forked(|| {
        let stale = inherited.take();
        std::io::Read::read(&mut &wait, &mut [0]).unwrap();
        let table = <Table>::open(path).unwrap();
        drop(stale);
        let again = <Table>::open(path).unwrap_err();
        let is_open = matches!(again, Error::Open(firndex::OpenError::AlreadyOpen { .. }));
        is_open && is_whole(&table) && table.put(1, 77).unwrap() == Some(1)
    });
    inherited.unwrap().close().unwrap();
    std::io::Write::write_all(&mut &go_on, &[1]).unwrap();
    assert!(child.ended_well(), "the child could not open the pool beside its inherited handle");
    assert_eq!(<Table>::open(path).unwrap().get(1).unwrap(), Some(77));
}

/// A role: a child's own threads are not taken for helpers that it has not inherited.
pub(crate) fn fork_and_start_threads(options: &Options, path: &Path) {
    let mut inherited = Some(make(&options.clone().helpers(3), path));
    let child = forked(|| {
        let threads: Vec<_> = (0..5)
            .map(|number| {
                let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
                let work = move || {
                    may_go_on.recv().unwrap();
                    let own = <Table>::in_memory().unwrap();
                    own.put(number, number).unwrap();
                    own.len()
                };
                (go_on, std::thread::spawn(work))
            })
            .collect();
        drop(inherited.take());
        threads.into_iter().all(|(go_on, thread)| {
            go_on.send(()).unwrap();
            thread.join().unwrap() == 1
        })
    });
    assert!(child.ended_well(), "a child's threads were disturbed");
    assert!(is_whole(&inherited.unwrap()));
}

struct Handles {
    table: Table,
    store: Store,
    path: PathBuf,
}

static HANDLES: OnceLock<Handles> = OnceLock::new();
/// Children that were forked amid a growth, and how many of them ended well.
static FORKED: AtomicU32 = AtomicU32::new(0);
static ENDED_WELL: AtomicU32 = AtomicU32::new(0);

/// Called amid a growth, in the thread that has all its locks: forks a child that uses what it inherits.
extern "C" fn fork_here(_signal: i32) {
    let handles = HANDLES.get().unwrap();
    let Handles { table, store, path } = handles;
    let child = forked(|| {
        let refused = [
            is_forked(table.stats()),
            is_forked(table.get(1)),
            is_forked(table.put(1, 7)),
            is_forked(table.for_each(|_, _| {})),
            is_forked(table.check()),
            is_forked(table.shrink()),
            is_forked(table.sync()),
            is_forked(store.stats()),
            is_forked(store.get("key")),
            is_forked(store.put("key", "child")),
            is_forked(store.for_each(|_, _| {})),
            is_forked(store.check()),
            is_forked(store.shrink()),
            is_forked(store.sync()),
        ];
        assert!(refused.iter().all(|&refused| refused), "{refused:?}");
        assert!(!table.is_empty() && !store.is_empty());
        assert!(format!("{table:?} {store:?}").contains("len"));
        let own = path.with_extension("own");
        let thread = std::thread::spawn(move || {
            let table = <Table>::open_or_create(&own).unwrap();
            table.put(1, 1).unwrap();
            table.close().unwrap();
            std::fs::remove_file(own).unwrap();
        });
        thread.join().unwrap();
        // SAFETY: this process never uses the originals again.
        let inherited = unsafe { (std::ptr::read(table), std::ptr::read(store)) };
        drop(inherited);
        let busy = <Table>::open(path).unwrap_err();
        matches!(busy, Error::Open(firndex::OpenError::Busy { .. }))
    });
    FORKED.fetch_add(1, Ordering::Relaxed);
    ENDED_WELL.fetch_add(child.ended_well().into(), Ordering::Relaxed);
}

/// A role: children are forked in the midst of growing the table, and then the store.
pub(crate) fn fork_amid_growth(options: &Options, path: &Path) {
    let options = options.clone().helpers(0);
    let table = make(&options, path);
    let store = options.create_store(path.with_extension("store")).unwrap();
    store.put("key", "parent").unwrap();
    let handles = HANDLES.get_or_init(|| Handles { table, store, path: path.into() });
    posix::limit_files(2 << 20);
    posix::when_changed(path.parent().unwrap(), fork_here);
    let refused = (5000..).find_map(|key| handles.table.put(key, key).err());
    assert!(matches!(refused, Some(Error::PoolFull(_))), "{refused:?}");
    let of_table = FORKED.load(Ordering::Relaxed);
    posix::when_changed(path.parent().unwrap(), fork_here);
    let refused = handles.store.put("large", vec![1; 4 << 20]).unwrap_err();
    assert!(matches!(refused, Error::PoolFull(_)), "{refused}");
    let all = FORKED.load(Ordering::Relaxed);
    assert!(of_table > 0 && all > of_table, "{of_table} of {all} in the table");
    assert_eq!(ENDED_WELL.load(Ordering::Relaxed), all);
    assert!(is_whole(&handles.table));
    assert!(handles.store.check().unwrap().is_sound());
}

fn play(role: &str) {
    play_on(Engine::ALL.iter().copied(), role);
}

fn play_on(engines: impl Iterator<Item = Engine>, role: &str) {
    for engine in engines {
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

#[test]
fn a_child_opens_a_pool_beside_its_inherited_handle() {
    play("fork and keep");
}

#[test]
fn a_child_starts_threads_and_drops_its_handle() {
    play("fork and start threads");
}

#[test]
fn a_child_waits_for_no_lock_that_its_parent_held() {
    play_on(effort::engines(), "fork amid growth");
}
