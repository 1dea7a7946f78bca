//! The longest key and the longest value are possible, and one byte more is an error.

use crate::byte_map::ByteMap;
use firndex::{Error, ItemError, KEY_BYTES_MAX, Store, VALUE_BYTES_MAX};

fn is_over_the_limit<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>, says: [&str; 3]) {
    let error = result.map_err(Into::into).unwrap_err();
    let is_typed = matches!(
        error,
        Error::Limit(ItemError::KeyTooLong { .. } | ItemError::ValueTooLong { .. })
    );
    assert!(is_typed, "{error:?}");
    let message = error.to_string();
    assert!(says.iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn keys_have_64_kib_at_most() {
    let store = Store::in_memory().unwrap();
    let longest = vec![7; 64 << 10];
    let too_long = vec![7; (64 << 10) + 1];
    assert_eq!(longest.len(), KEY_BYTES_MAX);
    assert!(store.put(&longest, "value").unwrap().is_none());
    let says = ["the key has 65537 bytes", "at most 65536", "use a digest of it"];
    is_over_the_limit(store.put(&too_long, ""), says);
    is_over_the_limit(store.insert(&too_long, ""), says);
    is_over_the_limit(store.update(&too_long, ""), says);
    is_over_the_limit(store.compare_exchange(&too_long, None, Some(b"")), says);
    is_over_the_limit(store.modify(&too_long, |_| Some(Vec::new())), says);
    // None of a batch is stored if one of it cannot be.
    let batch = [(&b"a"[..], &b""[..]), (&too_long, b"")];
    let refused = store.put_many(&batch).unwrap_err();
    assert_eq!((refused.entries(), refused.done(), refused.failed()), (2, 0, Some(1)));
    let says_so =
        "none of 2 entries took effect: entry 1 (counted from 0): the key has 65537 bytes";
    assert!(refused.to_string().starts_with(says_so), "{refused}");
    is_over_the_limit(store.put_many(&batch), says);
    assert!(store.get(&too_long).unwrap().is_none());
    assert!(store.remove(&too_long).unwrap().is_none());
    assert_eq!(store.sound_contents().len(), 1);
    assert_eq!(store.get(&longest).unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn values_have_256_mib_at_most() {
    let directory = crate::places::in_ram();
    let path = directory.path().join("pool");
    let store = Store::open_or_create(&path).unwrap();
    let mut value = vec![0; (256 << 20) + 1];
    for (index, chunk) in value.chunks_mut(4096).enumerate() {
        chunk[0] = index as u8 | 1;
    }
    let too_long = &value[..];
    assert_eq!(too_long.len(), VALUE_BYTES_MAX + 1);
    let says = ["the value has 268435457 bytes", "at most 268435456", "store it in parts"];
    is_over_the_limit(store.put("key", too_long), says);
    is_over_the_limit(store.update("key", too_long), says);
    is_over_the_limit(store.put_many(&[(b"key", too_long)]), says);
    assert!(store.is_empty());
    let longest = &value[..VALUE_BYTES_MAX];
    store.put("key", longest).unwrap();
    assert!(&*store.get("key").unwrap().unwrap() == longest);
    drop(store);
    let store = Store::open(&path).unwrap();
    assert!(&*store.get("key").unwrap().unwrap() == longest);
    let report = store.check();
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert!(store.remove("key").unwrap().is_some());
}
