//! `Items` in a file, with the hash cut to a few bits: most keys then share a slot.

use crate::byte_map::ByteMap;
use engines::Preferred;
use engines::Settings;
use engines::engine::{Describe, PairSizes, Parameters, Wanted};
use firndex::CheckReport;
use index::hash::{HASH_ID, Hasher};
use index::{ItemError, Record, Records};
use pmem::file::{Access, PoolFile};
use pmem::heap::SEGMENT_LOG2_DEFAULT;
use pmem::medium::Mapped;
use pmem::pool::Spec;
use pmem::superblock::PoolKind;
use pmem::{OpenError, Pool, Write};
use std::path::Path;
use std::sync::Arc;

const SEED: u64 = 11;
const SIZE_MAX_BYTES: u64 = 4 << 30;

/// A store whose hash has few bits. Fields in the order in which they must be dropped.
pub(crate) struct CutItems {
    items: <Preferred as Describe>::Bytes<Mapped>,
    pool: Arc<Pool<Mapped>>,
    _file: PoolFile,
}

impl CutItems {
    pub(crate) fn create(path: &Path, hash_bits: u32) -> CutItems {
        let spec = Spec {
            kind: PoolKind::Store,
            engine: Preferred::DESCRIPTION.id,
            key_bytes: 0,
            value_bytes: 0,
            hash_id: HASH_ID,
            hash_seed: SEED,
            uuid: 1,
            segment_log2: SEGMENT_LOG2_DEFAULT,
            engine_params: Preferred::engine_params(&Wanted {
                sizes: PairSizes::WORDS,
                pairs: 0,
                resize_at: Settings::default().resize_at,
                parameters: &Parameters::default(),
            }),
        };
        let mut file = PoolFile::create(path).unwrap();
        let medium = file.mapped(0, SIZE_MAX_BYTES).unwrap();
        let pool = Pool::create(medium, &spec, file.place()).unwrap();
        file.publish().unwrap();
        CutItems::on(pool, file, hash_bits).unwrap()
    }

    pub(crate) fn open(path: &Path, hash_bits: u32) -> CutItems {
        CutItems::try_open(path, hash_bits).unwrap()
    }

    pub(crate) fn try_open(path: &Path, hash_bits: u32) -> Result<CutItems, OpenError> {
        let (file, superblock) = PoolFile::open(path, Access::Write)?;
        let medium = file.mapped(superblock.end, SIZE_MAX_BYTES)?;
        let pool = Pool::open(medium, file.place())?;
        CutItems::on(pool, file, hash_bits)
    }

    fn on(pool: Pool<Mapped>, file: PoolFile, hash_bits: u32) -> Result<CutItems, OpenError> {
        let pool = Arc::new(pool);
        let hasher = Hasher::with_bits(SEED, hash_bits);
        let settings = Settings { recovery_threads: 2, ..Settings::default() };
        let items = Preferred::open_bytes(Arc::clone(&pool), hasher, settings)?;
        Ok(CutItems { items, pool, _file: file })
    }

    /// The items themselves, whose operations may fail.
    pub(crate) fn records(&self) -> &dyn Records {
        &self.items
    }

    /// The right to change them.
    pub(crate) fn write(&self) -> Write<'_> {
        self.pool.write().unwrap()
    }

    /// `put`, with its error.
    pub(crate) fn try_put(&self, key: &[u8], value: &[u8]) -> Result<bool, ItemError> {
        let _write = self.write();
        Ok(self.items.upsert(key, value)?.is_some())
    }
}

fn owned(record: Option<Record<'_>>) -> Option<Vec<u8>> {
    record.map(|record| record.bytes().to_vec())
}

impl ByteMap for CutItems {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        owned(self.items.get(key).unwrap())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let _write = self.write();
        owned(self.items.upsert(key, value).unwrap())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let _write = self.write();
        owned(self.items.insert(key, value).unwrap())
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let _write = self.write();
        owned(self.items.update(key, value).unwrap())
    }

    fn remove(&self, key: &[u8]) -> Option<Vec<u8>> {
        let _write = self.write();
        owned(self.items.remove(key).unwrap())
    }

    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<(), Option<Vec<u8>>> {
        let _write = self.write();
        self.items.compare_exchange(key, expected, new).unwrap().map_err(owned)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        self.items.get_many(keys).unwrap().into_iter().map(owned).collect()
    }

    fn put_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>> {
        let _write = self.write();
        self.items.upsert_many(pairs).unwrap().into_iter().map(owned).collect()
    }

    fn insert_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>> {
        let _write = self.write();
        self.items.insert_many(pairs).unwrap().into_iter().map(owned).collect()
    }

    fn update_many(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Option<Vec<u8>>> {
        let _write = self.write();
        self.items.update_many(pairs).unwrap().into_iter().map(owned).collect()
    }

    fn remove_many(&self, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let _write = self.write();
        self.items.remove_many(keys).unwrap().into_iter().map(owned).collect()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.items.for_each(visit).unwrap();
    }

    fn len(&self) -> u64 {
        self.items.len()
    }

    fn check(&self) -> CheckReport {
        self.items.check()
    }
}
