use super::*;

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
