//! Pool files as bytes: read, changed and written back, their superblocks checksummed again.

use crate::engines::filling_all_levels;
use firndex::{Engine, Error, Options, Table};
use pmem::superblock::{COPY_BYTES, COPY_WORDS, Superblock};
use std::path::Path;

pub(crate) type Words = [u64; COPY_WORDS];

/// The engine of a test that is about no engine in particular.
pub(crate) const PREFERRED: Engine = Engine::ALL[0];

/// What a closed table holds in these tests.
pub(crate) const PAIRS: u64 = 1500;

pub(crate) fn value_of(key: u64) -> u64 {
    key.wrapping_mul(31) ^ 7
}

/// Makes a closed table with [`PAIRS`] pairs, in all three levels, on the usual engine.
pub(crate) fn make_table(path: &Path) {
    make_table_on(PREFERRED, path);
}

/// Makes a closed table with [`PAIRS`] pairs, in all levels of the engine that hold pairs when
/// nothing resizes.
pub(crate) fn make_table_on(engine: Engine, path: &Path) {
    let (options, levels) = filling_all_levels(engine);
    let table = options.create_table(path).unwrap();
    for key in 0..PAIRS {
        // A full table says so; what it took is what the test has.
        match table.put(key, value_of(key)) {
            Ok(_) => {}
            Err(error) => panic!("key {key}: {error}"),
        }
    }
    let stats = table.stats().unwrap();
    // A helper may be about to give up a level that it has drained: which ones hold pairs is left open.
    let used = stats.levels.iter().filter(|level| level.pairs > 0).count();
    assert!(used >= levels, "{stats:?}");
    table.close().unwrap();
}

/// Whether a table is what [`make_table`] made.
pub(crate) fn assert_intact(table: &Table) {
    assert_eq!(table.len(), PAIRS);
    for key in 0..PAIRS {
        assert_eq!(table.get(key).unwrap(), Some(value_of(key)), "key {key}");
    }
}

/// Makes a closed store with small, large and colliding-length items.
pub(crate) fn make_store(path: &Path) {
    make_store_on(PREFERRED, path);
}

/// As [`make_store`].
pub(crate) fn make_store_on(engine: Engine, path: &Path) {
    let store = Options::new().engine(engine).create_store(path).unwrap();
    for (key, value) in store_pairs() {
        store.put(key, value).unwrap();
    }
    store.close().unwrap();
}

/// What is in it.
pub(crate) fn store_pairs() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let small = |key: u32| (key.to_le_bytes().to_vec(), vec![key as u8; key as usize % 97]);
    (0..300).map(small).chain([(b"large".to_vec(), vec![5; 600_000])])
}

fn words_of(bytes: &[u8]) -> Box<Words> {
    let mut words = Box::new([0; COPY_WORDS]);
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().unwrap());
    }
    words
}

/// The words of copy `index`.
pub(crate) fn copy(bytes: &[u8], index: usize) -> Box<Words> {
    words_of(&bytes[index * COPY_BYTES as usize..][..COPY_BYTES as usize])
}

/// The superblock that counts.
pub(crate) fn decode(bytes: &[u8]) -> Superblock {
    let (a, b) = (copy(bytes, 0), copy(bytes, 1));
    Superblock::choose([Some(&a), Some(&b)]).unwrap().0
}

fn write_copies(bytes: &mut [u8], words: &Words) {
    for copy in bytes[..2 * COPY_BYTES as usize].chunks_exact_mut(COPY_BYTES as usize) {
        for (bytes, word) in copy.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }
}

/// Changes fields of the superblock, in both copies.
pub(crate) fn change(bytes: &mut [u8], change: impl FnOnce(&mut Superblock)) {
    let mut superblock = decode(bytes);
    change(&mut superblock);
    write_copies(bytes, &superblock.encode());
}

/// Changes words of the superblock, in both copies, with the checksum that they then need.
pub(crate) fn change_words(bytes: &mut [u8], change: impl FnOnce(&mut Words)) {
    let mut words = copy(bytes, 0);
    change(&mut words);
    words[3] = 0;
    words[3] = crc32c(words.iter().flat_map(|word| word.to_ne_bytes())).into();
    write_copies(bytes, &words);
}

/// CRC-32C by its definition, so that a wrong one in the code under test is noticed.
pub(crate) fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 }
        })
    })
}

/// Asserts that `open` is refused with an error that says each of `says`, and that the file stays
/// byte for byte what it was. Returns the error.
pub(crate) fn assert_refused<T: std::fmt::Debug>(
    path: &Path,
    open: impl FnOnce(&Path) -> firndex::Result<T>,
    says: &[&str],
) -> Error {
    let before = std::fs::read(path).unwrap();
    let error = open(path).unwrap_err();
    let message = error.to_string();
    for part in says {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(std::fs::read(path).unwrap() == before, "the file was changed: {message}");
    error
}

#[test]
fn a_superblock_that_these_helpers_checksum_again_is_accepted() {
    let directory = crate::places::in_ram();
    let path = directory.path().join("pool");
    make_table(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let before = bytes.clone();
    change_words(&mut bytes, |_| {});
    assert!(bytes == before, "the checksum is not CRC-32C of the words, the checksum's being 0");
    change_words(&mut bytes, |words| words[5] = 77);
    std::fs::write(&path, &bytes).unwrap();
    assert_intact(&<Table>::open(&path).unwrap());
}
