use super::*;
use crate::medium::allocate::is_in_tmpfs;
use crate::view::View;

fn dram(size: u64) -> Dram {
    let memory = Memory::dram(1 << 30).unwrap();
    memory.grow(size).unwrap();
    memory
}

#[test]
fn words_keep_what_is_stored() {
    let memory = dram(4096);
    memory.store(Offset(8), 5);
    memory.store_release(Offset(0), 4);
    assert_eq!(memory.load_pair(Offset(0)), (4, 5));
    assert_eq!(memory.compare_exchange(Offset(8), 5, 6), Ok(5));
    assert_eq!(memory.compare_exchange(Offset(8), 5, 7), Err(6));
    assert_eq!(memory.load(Offset(4088)), 0);
}

#[test]
#[should_panic(expected = "misaligned or beyond")]
fn a_misaligned_word_is_refused() {
    dram(4096).load(Offset(4));
}

#[test]
#[should_panic(expected = "misaligned or beyond")]
fn an_offset_beyond_the_reservation_is_refused() {
    dram(4096).load(Offset(1 << 50));
}

#[test]
fn what_does_not_lie_in_memory_is_not_read() {
    let memory = dram(4096);
    // SAFETY: nobody else uses the memory.
    let has_bytes = |at, len| unsafe { memory.bytes(Offset(at), len) }.is_some();
    assert!(has_bytes(0, 4096) && has_bytes(4096, 0));
    assert!(!has_bytes(0, 4097) && !has_bytes(4096, 1) && !has_bytes(u64::MAX, 2));
    let has_two = |at| memory.try_load_two(Offset(at)).is_some();
    assert!(has_two(0) && has_two(4080));
    assert!(!has_two(4) && !has_two(4088) && !has_two(1 << 50) && !has_two(u64::MAX - 7));
}

#[test]
fn growth_stops_at_the_limit_and_keeps_everything() {
    let memory = Memory::dram(8192).unwrap();
    memory.grow(8192).unwrap();
    memory.store(Offset(8184), 9);
    assert!(matches!(memory.grow(8193), Err(SpaceError::Full { .. })));
    assert_eq!(memory.size(), 8192);
    assert_eq!(memory.load(Offset(8184)), 9);
}

#[test]
fn memory_with_flushes_is_the_same_memory() {
    for flush in CacheFlush::available() {
        let file = tempfile::tempfile().unwrap();
        let mapped = Memory::mapped(file.try_clone().unwrap(), 0, 8192, true).unwrap();
        mapped.grow(4096).unwrap();
        mapped.store(Offset(0), 42);
        let memory = mapped.flushed(flush);
        assert_eq!((memory.kind(), memory.cache_flush()), (MediumKind::Mapped, flush));
        assert_eq!((memory.load(Offset(0)), memory.size(), memory.limit()), (42, 4096, 8192));
        memory.grow(8192).unwrap();
        memory.store(Offset(8184), 43);
        memory.persist(Offset(8184));
        drop(memory);
        let again = Memory::mapped(file, 8192, 8192, false).unwrap();
        assert_eq!((again.load(Offset(0)), again.load(Offset(8184))), (42, 43));
        assert_eq!(dram(4096).flushed(flush).kind(), MediumKind::Dram);
    }
}

/// Growers of one file take its space together, in steps; each maps what it has asked for, and all of
/// that is there.
#[test]
fn growers_do_not_disturb_each_other() {
    const LARGE: u64 = 50 << 20;
    let file = tempfile::tempfile().unwrap();
    let memory = Memory::mapped(file.try_clone().unwrap(), 0, LARGE, true).unwrap();
    std::thread::scope(|scope| {
        let memory = &memory;
        scope.spawn(move || memory.grow(LARGE).unwrap());
        scope.spawn(move || assert!(memory.grow(LARGE + 1).is_err()));
        for part in 1..=40 {
            let size = part * (LARGE / 50);
            memory.grow(size).unwrap();
            assert!(memory.size() >= size);
            memory.store(Offset(size - 8), part);
        }
    });
    assert_eq!((memory.size(), file.metadata().unwrap().len()), (LARGE, LARGE));
    assert!((1..=40).all(|part| memory.load(Offset(part * (LARGE / 50) - 8)) == part));
}

#[test]
fn a_file_grows_under_its_readers() {
    let file = tempfile::tempfile().unwrap();
    let memory = Memory::mapped(file.try_clone().unwrap(), 0, 1 << 30, true).unwrap();
    memory.grow(4096).unwrap();
    memory.store(Offset(0), 42);
    memory.grow(200 << 20).unwrap();
    assert_eq!(memory.load(Offset(0)), 42);
    memory.store((Offset((200 << 20) - 8)).word(0), 43);
    memory.sync(0..memory.size()).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 200 << 20);
    drop(memory);
    let again = Memory::mapped(file, 200 << 20, 1 << 30, false).unwrap();
    assert_eq!(again.load(Offset((200 << 20) - 8)), 43);
    assert!(again.grow(201 << 20).is_err());
}

#[test]
fn a_page_that_vanishes_reads_as_zeros_and_nothing_more_reaches_the_file() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4 * 4096).unwrap();
    let same = file.try_clone().unwrap();
    let unwatched = Memory::mapped(file.try_clone().unwrap(), 4 * 4096, 1 << 20, true).unwrap();
    let memory = Memory::mapped(file, 4 * 4096, 1 << 20, true).unwrap().watched().unwrap();
    (0..4).for_each(|page| memory.store(Offset(4096 * page), page + 1));
    memory.sync(0..memory.size()).unwrap();
    assert!(!memory.has_failed());

    same.set_len(2 * 4096).unwrap();
    assert_eq!(memory.load(Offset(3 * 4096)), 0);
    assert!(memory.has_failed());
    assert_eq!(memory.load(Offset(2 * 4096 + 8)), 0);
    // What is left can be read, and is the medium's own from now on.
    memory.store(Offset(4096), 7);
    memory.store(Offset(3 * 4096), 8);
    let words = [0, 1, 2, 3].map(|page| memory.load(Offset(4096 * page)));
    assert_eq!(words, [1, 7, 0, 8]);
    assert_eq!([0, 1].map(|page| unwatched.load(Offset(4096 * page))), [1, 2]);
    assert!(memory.sync(0..memory.size()).is_err());
    assert!(memory.grow(5 * 4096).is_err());
    assert_eq!(same.metadata().unwrap().len(), 2 * 4096);

    // Its place in the list serves the next one, which has not failed.
    drop(memory);
    same.set_len(4096).unwrap();
    let memory = Memory::mapped(same, 4096, 1 << 20, true).unwrap().watched().unwrap();
    assert_eq!((memory.load(Offset(0)), memory.has_failed()), (1, false));
}

/// Before anybody has asked whether the medium has failed: what is made of zeros is shown to no guest.
#[test]
fn a_page_that_vanishes_closes_the_view() {
    for is_first_shown in [true, false] {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * 4096).unwrap();
        let same = file.try_clone().unwrap();
        let memory = Memory::mapped(file, 2 * 4096, 1 << 20, true).unwrap().watched().unwrap();
        let view = Arc::new(View::make(&[]).unwrap());
        let guest = View::enter(view.descriptor().unwrap()).unwrap();
        let lose = || {
            same.set_len(4096).unwrap();
            assert_eq!(memory.load(Offset(4096)), 0);
        };
        let show = || {
            memory.close_on_failure(&view);
            view.show(7);
        };
        if is_first_shown {
            show();
            assert!(guest.look().is_some());
            lose();
        } else {
            lose();
            show();
        }
        assert!(guest.look().is_none());
        view.hide();
        view.show(7);
        assert!(guest.look().is_none(), "it stays closed");
    }
}

#[test]
fn a_truncated_file_does_not_grow_over_what_is_missing() {
    for is_watched in [false, true] {
        let file = tempfile::tempfile().unwrap();
        let same = file.try_clone().unwrap();
        let memory = Memory::mapped(file, 0, 1 << 20, true).unwrap();
        let memory = if is_watched { memory.watched().unwrap() } else { memory };
        memory.grow(3 * 4096).unwrap();
        same.set_len(2 * 4096).unwrap();
        let refused = memory.grow(4 * 4096).unwrap_err().to_string();
        assert!(refused.contains("8192 bytes, and the pool 12288"), "{refused}");
        assert_eq!((memory.has_failed(), same.metadata().unwrap().len()), (is_watched, 2 * 4096));
    }
}

/// Bytes of the mapping of `memory` that were changed and not written back, if this is known here.
fn dirty_bytes(memory: &Mapped) -> Option<u64> {
    // SAFETY: nobody else uses the memory.
    let start = unsafe { memory.bytes(Offset(0), 8) }?.as_ptr();
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let start = format!("{:x}-", start as usize);
    let mapping = maps.lines().skip_while(|line| !line.starts_with(&start));
    let mut fields = mapping.filter_map(|line| line.strip_prefix("Private_Dirty:"));
    let kilobytes = fields.next()?.trim().strip_suffix(" kB")?;
    Some(kilobytes.parse::<u64>().ok()? << 10)
}

/// A checkpoint records itself in the superblock. When that wrote the whole pool back, writers waited for the disk.
#[test]
fn a_sync_of_a_part_does_not_write_the_rest_back() {
    // On a disk, if that is where this is built.
    let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR"));
    let file = file.or_else(|_| tempfile::tempfile()).unwrap();
    let bytes = 16 << 20;
    let mapped = Memory::mapped(file, 0, bytes, true).unwrap();
    mapped.grow(bytes).unwrap();
    (0..bytes).step_by(4096).for_each(|at| mapped.store(Offset(at), 1));
    let Some(before) = dirty_bytes(&mapped) else { return };
    mapped.sync(0..8192).unwrap();
    let after = dirty_bytes(&mapped).unwrap();
    // The kernel writes whole huge pages.
    assert!(after >= before / 2, "{after} of {before}");
}

/// The flags of the mapping, as the kernel names them.
fn flags_of(memory: &Memory) -> Vec<String> {
    let start = memory.at(Offset(0)) as usize;
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let first = format!("{start:x}-");
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&first));
    let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
    flags.split_whitespace().map(String::from).collect()
}

/// The kernel would write two megabytes for each word that changes: a huge page, or a page of that size into which it
/// has read ahead.
#[test]
fn a_file_on_a_disk_asks_for_no_large_pages() {
    let has = |memory: &Memory, flag: &str| flags_of(memory).iter().any(|found| found == flag);
    let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let is_in_memory = is_in_tmpfs(file.as_fd());
    file.set_len(4 << 20).unwrap();
    let on_disk = Memory::mapped(file, 4 << 20, 1 << 30, true).unwrap();
    assert_eq!(has(&on_disk, "hg"), is_in_memory);
    assert_eq!(has(&on_disk, "rr"), !is_in_memory);
    on_disk.grow(8 << 20).unwrap();
    assert_eq!(has(&on_disk, "rr"), !is_in_memory);
    let anonymous = Memory::dram(1 << 30).unwrap();
    anonymous.grow(4 << 20).unwrap();
    // A kernel without huge pages has no such flag.
    let has_huge_pages = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
    assert_eq!(has(&anonymous, "hg"), has_huge_pages);
}

/// As a guest reads the file of an owner that lengthens it.
#[test]
fn a_reader_follows_its_file() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4 * 4096).unwrap();
    let of = |writable| Memory::mapped(file.try_clone().unwrap(), 4096, 1 << 26, writable).unwrap();
    let (owner, reader) = (of(true), of(false));
    assert!(reader.follow(4096) && reader.size() == 4096);
    // To where the file ends, and no further.
    assert!(!reader.follow(5 * 4096) && !reader.follow(u64::MAX) && reader.size() == 4096);
    assert!(reader.follow(4097) && reader.size() == 4 * 4096);
    owner.grow(3 * 4096).unwrap();
    owner.store(Offset(2 * 4096), 7);
    assert_eq!(reader.copy_out(Offset(2 * 4096), 9).unwrap()[..], [7, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(reader.has_bytes(Offset(2 * 4096), &[7, 0, 0]) && !reader.has_bytes(Offset(0), &[7]));
    assert!(reader.copy_out(Offset(4 * 4096 - 8), 9).is_none());
    assert!(
        reader.copy_out(Offset(4), 4).is_none() && reader.copy_out(Offset(0), u64::MAX).is_none()
    );
}
