//! One face for `Store` and for `Items` on a cut hash, so that both pass the same tests.

use firndex::{CheckReport, Pool, Store};
use std::collections::HashMap;

/// A map of bytes to bytes whose answers are owned.
pub(crate) trait ByteMap: Sync {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    fn put(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>>;
    fn insert(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>>;
    fn update(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>>;
    fn remove(&self, key: &[u8]) -> Option<Vec<u8>>;
    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<(), Option<Vec<u8>>>;
    fn get_many(&self, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>>;
    fn put_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>>;
    fn insert_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>>;
    fn update_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>>;
    fn remove_many(&self, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>>;
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
    fn len(&self) -> u64;
    fn check(&self) -> CheckReport;

    /// Everything stored; fails if a key is visited twice.
    fn contents(&self) -> HashMap<Vec<u8>, Vec<u8>> {
        let mut contents = HashMap::new();
        self.for_each(&mut |key, value| {
            let twice = contents.insert(key.to_vec(), value.to_vec());
            assert!(twice.is_none(), "a key of {} bytes was visited twice", key.len());
        });
        contents
    }

    /// Everything stored, after it was found sound, without leaks and rightly counted.
    fn sound_contents(&self) -> HashMap<Vec<u8>, Vec<u8>> {
        let report = self.check();
        assert!(report.is_sound(), "{:#?}", report.findings);
        let contents = self.contents();
        assert_eq!((self.len(), report.pairs), (contents.len() as u64, contents.len() as u64));
        contents
    }
}

fn owned(record: Option<impl AsRef<[u8]>>) -> Option<Vec<u8>> {
    record.map(|record| record.as_ref().to_vec())
}

impl ByteMap for Store {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        owned(Store::get(self, key).unwrap())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        owned(Store::put(self, key, value).unwrap())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        owned(Store::insert(self, key, value).unwrap())
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        owned(Store::update(self, key, value).unwrap())
    }

    fn remove(&self, key: &[u8]) -> Option<Vec<u8>> {
        owned(Store::remove(self, key).unwrap())
    }

    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<(), Option<Vec<u8>>> {
        Store::compare_exchange(self, key, expected, new).unwrap().map_err(owned)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        Store::get_many(self, keys).unwrap().into_iter().map(owned).collect()
    }

    fn put_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>> {
        Store::put_many(self, pairs).unwrap().into_iter().map(owned).collect()
    }

    fn insert_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>> {
        Store::insert_many(self, pairs).unwrap().into_iter().map(owned).collect()
    }

    fn update_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>> {
        Store::update_many(self, pairs).unwrap().into_iter().map(owned).collect()
    }

    fn remove_many(&self, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        Store::remove_many(self, keys).unwrap().into_iter().map(owned).collect()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        Store::for_each(self, visit).unwrap();
    }

    fn len(&self) -> u64 {
        Pool::len(self)
    }

    fn check(&self) -> CheckReport {
        Pool::check(self).unwrap()
    }
}
