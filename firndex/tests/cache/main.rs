//! Caches, as their users see them.

mod bound;
mod computed;
mod damage;
mod ends;
mod survive;

use firndex::{Durability, Options};

/// Options of caches whose only losses are evictions.
fn options() -> Options {
    Options::new().durability(Durability::Process)
}

/// The bytes that belong to a key.
fn value_of(key: u64, bytes: usize) -> Vec<u8> {
    [&key.to_le_bytes()[..], &vec![key as u8; bytes]].concat()
}

/// Asserts that a value is the key's.
fn belongs(key: u64, found: &[u8]) {
    let (head, rest) = found.split_first_chunk::<8>().unwrap();
    assert_eq!(u64::from_le_bytes(*head), key);
    assert!(rest.iter().all(|byte| *byte == key as u8));
}
