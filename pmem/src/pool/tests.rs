use super::*;
use crate::medium::{Dram, Memory};
use crate::superblock::{HEAP, LogEnd};

pub(crate) fn spec() -> Spec {
    Spec {
        kind: PoolKind::Table,
        engine: 1,
        key_bytes: 8,
        value_bytes: 8,
        hash_id: 1,
        hash_seed: 2,
        uuid: 3,
        segment_log2: 12,
        engine_params: [0; ENGINE_PARAMS],
    }
}

fn mapped(file: &std::fs::File, writable: bool) -> crate::medium::Mapped {
    let size = file.metadata().unwrap().len();
    Memory::mapped(file.try_clone().unwrap(), size, 1 << 30, writable).unwrap()
}

const HERE: Place = Place { boot_id: [1, 1], inode: 2, file_system: 3 };

#[test]
fn extents_are_disjoint_zero_and_remembered() {
    let file = tempfile::tempfile().unwrap();
    let pool = Pool::create(mapped(&file, true), &spec(), HERE).unwrap();
    let taken = pool
        .extend(|draft| {
            draft.engine_roots()[0] = 42;
            Ok([draft.take_extent(1, 0, 100)?, draft.take_extent(HEAP, 0, 5 << 20)?])
        })
        .unwrap();
    assert!(taken[0].end() <= taken[1].start.0);
    assert_eq!(taken[1].start.0 % HUGE_PAGE_BYTES, 0);
    assert_eq!(pool.medium().load(taken[1].start), 0);
    drop(pool);
    let pool = Pool::open(mapped(&file, true), HERE).unwrap();
    assert_eq!(pool.extents_of(HEAP), [taken[1]]);
    assert_eq!(pool.superblock().engine_roots[0], 42);
    assert_eq!(pool.superblock().incarnation, 2);
}

#[test]
fn a_failed_change_leaves_everything_as_it_was() {
    let pool = Pool::create(Memory::dram(1 << 20).unwrap(), &spec(), HERE).unwrap();
    let before = pool.superblock();
    let refused = pool.extend(|draft| {
        draft.engine_roots()[0] = 1;
        draft.take_extent(1, 0, 2 << 20)
    });
    assert!(matches!(refused, Err(SpaceError::Full { .. })));
    assert_eq!(pool.superblock(), before);
    pool.extend(|draft| draft.take_extent(1, 0, 64)).unwrap();
}

#[test]
fn what_is_prepared_needs_no_further_memory() {
    let pool = Pool::create(Memory::dram(64 << 20).unwrap(), &spec(), HERE).unwrap();
    let before = pool.superblock();
    pool.prepare(9 << 20).unwrap();
    let size = pool.medium().size();
    assert_eq!(pool.superblock(), before, "it takes nothing");
    pool.extend(|draft| draft.take_extent(1, 0, 9 << 20)).unwrap();
    assert_eq!(pool.medium().size(), size);
    assert!(matches!(pool.prepare(64 << 20), Err(SpaceError::Full { .. })));
    assert_eq!(pool.medium().size(), size);
    pool.prepare(4 << 20).unwrap();
    assert!(pool.medium().size() > size);
}

#[test]
fn what_was_prepared_is_given_back_and_taken_again() {
    use std::os::unix::fs::MetadataExt;
    let file = tempfile::tempfile().unwrap();
    let taken = || file.metadata().unwrap().blocks() * 512;
    let pool = Pool::create(mapped(&file, true), &spec(), HERE).unwrap();
    pool.prepare(512 << 10).unwrap();
    let prepared = taken();
    assert!(pool.give_prepared_back() >= 512 << 10);
    let rest = taken();
    assert!(rest + (512 << 10) <= prepared, "{rest} of {prepared}");
    assert_eq!(pool.give_prepared_back(), 0);
    let before = pool.medium().size();
    for index in 0..2 {
        let extent = pool.extend(|draft| draft.take_extent(1, index, 200 << 10)).unwrap();
        assert!(taken() >= rest + (200 << 10) * (u64::from(index) + 1), "a store may not fit");
        pool.medium().store(Offset(extent.end() - WORD), 7);
    }
    assert_eq!(pool.medium().size(), before);
}

#[test]
fn extents_run_out_with_an_error() {
    let pool = Pool::create(Memory::dram(1 << 20).unwrap(), &spec(), HERE).unwrap();
    for index in 0..EXTENTS_MAX {
        pool.extend(|draft| draft.take_extent(1, index as u8, 64)).unwrap();
    }
    assert!(pool.extend(|draft| draft.take_extent(1, 0, 64)).is_err());
}

/// What is changed behind the end of its log would be lost by a power loss after the log has gone on.
#[test]
fn the_log_of_a_pool_ends_while_nobody_may_write() {
    let file = tempfile::tempfile().unwrap();
    let pool = Pool::create(mapped(&file, true), &spec(), HERE).unwrap();
    let end = LogEnd { segment: 3, page: 5, mark: 7 };
    let ended = || {
        assert!(pool.gate().enter().is_none());
        Some(end)
    };
    pool.close_logged(ended).unwrap();
    assert_eq!(pool.superblock().log_end(), Some(end));
    drop(pool.write().unwrap());
    assert_eq!(pool.superblock().log_end(), None);
    pool.close().unwrap();
    assert_eq!(pool.superblock().log_end(), None);
    // Also of one that is clean already.
    pool.close_logged(ended).unwrap();
    assert_eq!(pool.superblock().log_end(), Some(end));
}

#[test]
fn a_pool_is_dirty_while_open_and_clean_after() {
    let file = tempfile::tempfile().unwrap();
    let read = |medium| Pool::<crate::medium::Mapped>::read(&medium).unwrap().0;
    let pool = Pool::create(mapped(&file, true), &spec(), HERE).unwrap();
    assert!(!read(mapped(&file, false)).clean);
    pool.close().unwrap();
    assert!(read(mapped(&file, false)).clean);
    drop(pool.write().unwrap());
    assert!(!read(mapped(&file, false)).clean, "a write after a sync must mark the pool first");
    drop(pool);
    assert!(read(mapped(&file, false)).clean);
}

#[test]
fn a_read_only_pool_refuses_writers_and_stays_untouched() {
    let file = tempfile::tempfile().unwrap();
    drop(Pool::create(mapped(&file, true), &spec(), HERE).unwrap());
    let before = mapped_bytes(&file);
    let pool = Pool::open_read_only(mapped(&file, false), HERE).unwrap();
    assert!(matches!(pool.write(), Err(WriteError::ReadOnly)));
    drop(pool);
    assert_eq!(mapped_bytes(&file), before);
}

fn mapped_bytes(file: &std::fs::File) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_dirty_pool_is_not_opened_read_only() {
    let file = tempfile::tempfile().unwrap();
    let pool = Pool::create(mapped(&file, true), &spec(), HERE).unwrap();
    let opened = Pool::open_read_only(mapped(&file, false), HERE);
    assert!(matches!(opened, Err(OpenError::NeedsRecovery)));
    drop(pool);
}

#[test]
fn a_broken_copy_is_repaired() {
    let file = tempfile::tempfile().unwrap();
    drop(Pool::create(mapped(&file, true), &spec(), HERE).unwrap());
    for copy in 0..2 {
        let medium = mapped(&file, true);
        medium.store(Offset(copy * COPY_BYTES).word(20), u64::MAX);
        drop(medium);
        drop(Pool::open(mapped(&file, true), HERE).unwrap());
        let bytes = mapped_bytes(&file);
        let (a, b) = bytes[..8192].split_at(4096);
        assert_eq!(a, b);
    }
}

#[test]
fn sync_waits_for_writers_and_writers_for_sync() {
    let file = tempfile::tempfile().unwrap();
    let pool = Pool::create(mapped(&file, true), &spec(), HERE).unwrap();
    let extent = pool.extend(|draft| draft.take_extent(1, 0, 4096)).unwrap();
    let at = |thread: u64| extent.start.word(thread * 8);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 1..=20_000 {
                    let _write = pool.write().unwrap();
                    // A sync that let this writer through would record a clean pool here.
                    assert!(!pool.superblock().clean);
                    pool.medium().store(at(thread), round);
                }
            });
        }
        for _ in 0..20 {
            pool.sync().unwrap();
        }
    });
    assert_eq!(pool.medium().load(at(2)), 20_000);
}

#[test]
fn dram_pools_work_without_a_file() {
    let pool: Pool<Dram> =
        Pool::create(Memory::dram(1 << 30).unwrap(), &spec(), Place::default()).unwrap();
    pool.prepare(10 << 20).unwrap();
    let extent = pool.extend(|draft| draft.take_extent(1, 0, 10 << 20)).unwrap();
    assert!(pool.medium().size() >= extent.end());
    pool.sync().unwrap();
    pool.close().unwrap();
}

/// A restored pool has not reached the device. If its image was clean, and it said so, a power loss could leave that
/// and nothing else of it.
#[test]
fn an_adopted_pool_is_dirty_until_it_is_closed() {
    let file = tempfile::tempfile().unwrap();
    let pool = Pool::create(mapped(&file, true), &spec(), HERE).unwrap();
    pool.close().unwrap();
    drop(pool);
    let there = Place { inode: 9, ..HERE };
    Pool::adopt(&mapped(&file, true), there, 0).unwrap();
    let (superblock, _) = Pool::read(&mapped(&file, true)).unwrap();
    assert!(!superblock.clean);
    assert_eq!((superblock.place, superblock.pairs()), (there, None));
    let after_power_loss = Place { boot_id: [7, 7], ..there };
    assert!(superblock.check_state(&after_power_loss).is_err());
    assert!(superblock.check_state(&there).is_ok());
}

#[test]
fn a_file_is_cut_at_the_end_and_never_lengthened() {
    let page = rustix::param::page_size() as u64;
    let file = tempfile::tempfile().unwrap();
    let bytes = || file.metadata().unwrap().len();
    let pool = Pool::create(mapped(&file, true), &spec(), HERE).unwrap();
    pool.extend(|draft| draft.take_extent(1, 0, 5000)).unwrap();
    let end = pool.superblock().end;
    assert!(bytes() > end.next_multiple_of(page), "space is taken ahead");
    drop(pool);
    assert_eq!(bytes(), end.next_multiple_of(page));
    // Somebody truncates the file of a clean pool: as it is, the next opening sees what happened.
    let pool = Pool::open(mapped(&file, true), HERE).unwrap();
    pool.close().unwrap();
    file.set_len(page).unwrap();
    drop(pool);
    assert_eq!(bytes(), page);
}
