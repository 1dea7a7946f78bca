//! The pools that mutants are made of: a closed one and one in the midst of work, of each form on each engine.

use crate::subject::{Form, HASH_SEED, Pair, Subject};
use crate::superblock;
use crate::words::{WORD, load};
use engines::engine::{PairSizes, Parameters, Wanted};
use engines::{Engine, Settings};
use firndex::{Durability, Options};
use index::hash::{HASH_ID, Hasher};
use pmem::Pool;
use pmem::file::PoolFile;
use pmem::heap::salvage::{Remains, for_each_item};
use pmem::medium::Memory;
use pmem::pool::Spec;
use pmem::superblock::{Extent, HEAP, PoolKind, SUPERBLOCK_BYTES, Superblock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// No pool grows beyond this.
pub(crate) const SIZE_MAX_BYTES: u64 = 4 << 20;
/// Segments of a store's heap are small, or the pool would consist of nothing else.
const SEGMENT_LOG2: u32 = 10;
/// Pairs of a closed pool.
const PAIRS: u32 = 120;
/// Words that a message shows.
const CHANGES_SHOWN: usize = 40;
/// Pairs put in search of a resize, at most.
const PAIRS_MAX: u32 = 3000;

/// A pool to be mutated.
pub(crate) struct Seed {
    pub(crate) engine: Engine,
    pub(crate) form: Form,
    /// Whether it was closed.
    pub(crate) is_clean: bool,
    pub(crate) bytes: Vec<u8>,
    /// What it answers.
    pub(crate) pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The numbers of these keys, and of some that are absent.
    pub(crate) numbers: u32,
    /// Words of the engine's extents that are in use.
    pub(crate) engine_words: Vec<usize>,
    /// Where descriptors of the heap's segments are.
    pub(crate) descriptors: Vec<usize>,
    /// Where items are.
    pub(crate) items: Vec<usize>,
}

/// A directory in memory, where there is such a file system.
pub(crate) fn in_ram() -> TempDir {
    let shared_memory = Path::new("/dev/shm");
    let made = if shared_memory.is_dir() {
        tempfile::tempdir_in(shared_memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a directory for pools")
}

/// How pools are opened here: without threads of their own, and without a log unless one is asked for.
pub(crate) fn options() -> Options {
    Options::new()
        .max_bytes(SIZE_MAX_BYTES)
        .hash_seed(HASH_SEED)
        .helpers(0)
        .threads(1)
        .durability(Durability::Process)
}

/// All seeds, made once.
pub(crate) fn all() -> &'static [Seed] {
    static ALL: OnceLock<Vec<Seed>> = OnceLock::new();
    ALL.get_or_init(|| {
        let forms = |&engine: &Engine| Form::ALL.map(|form| (engine, form));
        let pools = Engine::ALL.iter().flat_map(forms);
        pools
            .flat_map(|(engine, form)| [closed(engine, form), at_work(engine, form)])
            .flatten()
            .collect()
    })
}

/// Puts pairs, replaces some, and removes some: the numbers of those that stay are not divisible by 9.
fn fill(subject: &dyn Subject, numbers: u32) {
    for number in 0..numbers {
        subject.put(number).expect("there is room");
    }
    for number in (0..numbers).step_by(5) {
        subject.change(number).expect("there is room");
        subject.put(number).expect("there is room");
    }
    for number in (0..numbers).step_by(9).skip(1) {
        subject.remove(number).expect("a removal needs no room");
    }
}

fn pairs_of(form: Form, numbers: u32) -> impl Iterator<Item = Pair> {
    let stays = |number: &u32| *number == 0 || !number.is_multiple_of(9);
    (0..numbers).filter(stays).map(move |number| form.pair(number))
}

/// A closed pool; `None` if the engine has no such pairs.
fn closed(engine: Engine, form: Form) -> Option<Seed> {
    let directory = in_ram();
    let path = directory.path().join("pool");
    if form == Form::Store {
        make_store(engine, &path);
        let store = form.open(&options(), &path).expect("it was just made");
        fill(&*store, PAIRS);
        store.close().expect("it can be closed");
    } else {
        // Where a table has more room than it says, it is filled beyond what it says.
        let fixed = options().engine(engine).resize_at(2.0);
        let table = form.create(&fixed, &path).ok()?;
        let is_full = (0..PAIRS).any(|number| table.put(number).is_err());
        let table = if is_full {
            drop(table);
            std::fs::remove_file(&path).expect("it is there");
            form.create(&options().engine(engine), &path).expect("as before")
        } else {
            table
        };
        fill(&*table, PAIRS);
        table.close().expect("it can be closed");
    }
    Some(Seed::of(engine, form, &path, PAIRS))
}

/// A pool that was not closed, if possible in the midst of a resize.
fn at_work(engine: Engine, form: Form) -> Option<Seed> {
    let directory = in_ram();
    let path = directory.path().join("pool");
    let subject = if form == Form::Store {
        make_store(engine, &path);
        form.open(&options(), &path).expect("it was just made")
    } else {
        form.create(&options().engine(engine), &path).ok()?
    };
    fill(&*subject, PAIRS);
    let mut numbers = PAIRS;
    while !subject.is_resizing().expect("it is open") && numbers < PAIRS_MAX {
        subject.put(numbers).expect("there is room");
        if numbers.is_multiple_of(9) {
            subject.remove(numbers).expect("a removal needs no room");
        }
        numbers += 1;
    }
    Some(Seed::of(engine, form, &path, numbers))
}

/// Makes an empty store with small segments.
pub(crate) fn make_store(engine: Engine, path: &Path) {
    let spec = Spec {
        kind: PoolKind::Store,
        engine: engine.description().id,
        key_bytes: 0,
        value_bytes: 0,
        hash_id: HASH_ID,
        hash_seed: HASH_SEED,
        uuid: 1,
        segment_log2: SEGMENT_LOG2,
        engine_params: engine.engine_params(&Wanted {
            sizes: PairSizes::WORDS,
            pairs: 0,
            resize_at: Settings::default().resize_at,
            parameters: &Parameters::default(),
        }),
    };
    let mut file = PoolFile::create(path).expect("a new file");
    let medium: Memory = file.mapped(0, SIZE_MAX_BYTES).expect("addresses");
    let pool = Arc::new(Pool::create(medium, &spec, file.place()).expect("room for a pool"));
    file.publish().expect("a new name");
    let settings = Settings { helpers: 0, recovery_threads: 1, ..Settings::default() };
    let records = engine.open_bytes(Arc::clone(&pool), Hasher::new(HASH_SEED), settings);
    drop(records.expect("an empty store"));
    pool.close().expect("it can be synced");
}

/// Bytes as a damaged pool's.
struct Bytes<'a>(&'a [u8]);

impl Remains for Bytes<'_> {
    fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
        let found = self.0.get(at as usize..).and_then(|rest| rest.get(..bytes.len()));
        found.is_some_and(|found| {
            bytes.copy_from_slice(found);
            true
        })
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Seed {
    fn of(engine: Engine, form: Form, path: &Path, numbers: u32) -> Seed {
        let mut bytes = std::fs::read(path).expect("the pool's file");
        let superblock = superblock::decode(&bytes).expect("a whole superblock");
        bytes.truncate(superblock.end.next_multiple_of(4096) as usize);
        let mut seed = Seed {
            engine,
            form,
            is_clean: superblock.clean,
            pairs: pairs_of(form, numbers).collect(),
            numbers: numbers + 20,
            engine_words: Vec::new(),
            descriptors: Vec::new(),
            items: Vec::new(),
            bytes,
        };
        superblock.extents.iter().for_each(|extent| seed.dissect(&superblock, extent));
        let mut items = Vec::new();
        for_each_item(&Bytes(&seed.bytes), Some(&superblock), &mut |at, _| {
            items.push(at.0 as usize)
        });
        seed.items = items;
        seed
    }

    fn dissect(&mut self, superblock: &Superblock, extent: &Extent) {
        let (start, end) = (extent.start.0 as usize, extent.end() as usize);
        if extent.owner == HEAP {
            let segments = (extent.bytes / ((1 << superblock.segment_log2) + 8)) as usize;
            let first = start + (segments << superblock.segment_log2);
            self.descriptors.extend((0..segments).map(|nth| first + nth * WORD));
        } else {
            let used = (start..end).step_by(WORD).filter(|&at| load(&self.bytes, at) != 0);
            self.engine_words.extend(used);
        }
    }

    /// Places of words, from one on, that another pool has otherwise, or not at all.
    fn differences(&self, first: usize, other: &[u8]) -> impl Iterator<Item = usize> {
        let end = self.bytes.len().max(other.len());
        (first..end).step_by(WORD).filter(|&at| load(&self.bytes, at) != load(other, at))
    }

    /// How many words behind the superblock another pool has otherwise, or not at all.
    pub(crate) fn words_changed_in(&self, other: &[u8]) -> usize {
        self.differences(SUPERBLOCK_BYTES as usize, other).count()
    }

    /// What another pool has otherwise, for a message.
    pub(crate) fn changes_in(&self, other: &[u8]) -> String {
        let shown = self.differences(0, other).take(CHANGES_SHOWN);
        let lines = shown.map(|at| {
            format!("\n  {at:#x}: {:#x} is {:#x}", load(&self.bytes, at), load(other, at))
        });
        format!(
            "{} {:?}, closed: {}, {} of {} bytes{}",
            self.engine,
            self.form,
            self.is_clean,
            other.len(),
            self.bytes.len(),
            lines.collect::<String>()
        )
    }
}
