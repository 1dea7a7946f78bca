//! Pools that no process left behind: damaged and hostile ones. They may be refused or fail their check, but nothing
//! worse may happen to a process that opens them.

use crate::harness::{Backing, Engine, Image, PLACE, Random, Setup, Table, within};
use index::Index;
use pmem::superblock::{COPY_WORDS, SUPERBLOCK_BYTES, Superblock};
use pmem::{OpenError, Pool, WORD};

const LIMIT_BYTES: u64 = 4 << 20;

fn setup(engine: &'static Engine) -> Setup {
    Setup {
        variant: 1,
        limit_bytes: LIMIT_BYTES,
        helpers: 0,
        recovery_threads: 1,
        ..Setup::of(engine)
    }
}

fn sample<B: Backing>(engine: &'static Engine) -> (Image, Superblock) {
    let table = Table::<B>::new(setup(engine));
    for key in (0..600).chain(engine.colliding_keys().iter().copied()) {
        table.insert(key, key).unwrap();
    }
    (table.image(), table.pool().superblock())
}

/// Opens an image and does everything possible with it. Returns whether it could be opened.
fn survive<B: Backing>(engine: &'static Engine, image: &Image) -> bool {
    let table = match Table::<B>::from_image(image, setup(engine)) {
        Ok(table) => table,
        Err(error) => {
            let says_more = error.to_string().len() > 20;
            assert!(says_more, "{error:?} does not tell what to do");
            return false;
        }
    };
    let report = table.check();
    let mut pairs = 0;
    let _ = table.for_each(&mut |_, _| pairs += 1);
    assert!(!report.is_sound() || pairs == report.pairs, "sound, but scan and check differ");
    for key in (0..700).chain(engine.colliding_keys().iter().copied()) {
        let found = table.get(key);
        assert!(!report.is_sound() || table.update(key, 1).is_ok_and(|state| state == found));
        let _ = table.insert(key, 2);
        let _ = table.remove(key);
    }
    table.occupancy();
    table.settle();
    table.check();
    true
}

pub(crate) fn random_words_are_refused_or_survived<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let (image, superblock) = sample::<B>(engine);
    let first = SUPERBLOCK_BYTES / WORD;
    let words = superblock.end / WORD - first;
    let mut random = Random::new(1);
    let mut opened = 0;
    for round in 0..300 {
        let mut image = image.clone();
        // From a single word to a pool of nothing but noise.
        let damaged = if round % 10 == 9 { words } else { 1 << random.below(6) };
        for _ in 0..damaged {
            let at = (first + random.below(words)) as usize;
            image.0[at] = match random.below(4) {
                0 => 0,
                1 => random.below(2000),
                // The content of another place.
                2 => image.0[(first + random.below(words)) as usize],
                _ => random.word(),
            };
        }
        opened += u32::from(survive::<B>(engine, &image));
    }
    assert!(opened > 0, "nothing at all was opened");
}

/// Puts a superblock into both copies of an image, with valid checksums.
fn with_superblock(image: &Image, superblock: &Superblock) -> Image {
    let mut image = image.clone();
    let words = superblock.encode();
    image.0[..COPY_WORDS].copy_from_slice(&words[..]);
    image.0[COPY_WORDS..2 * COPY_WORDS].copy_from_slice(&words[..]);
    image
}

pub(crate) fn a_damaged_superblock_is_refused_or_survived<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let (image, superblock) = sample::<B>(engine);
    let mut random = Random::new(2);
    assert!(survive::<B>(engine, &with_superblock(&image, &superblock)));
    // Flipped bits, which the checksum notices, in one copy and in both.
    for round in 0..200 {
        let mut damaged = image.clone();
        for copy in 0..1 + round % 2 {
            let at = copy * COPY_WORDS + random.below(COPY_WORDS as u64) as usize;
            damaged.0[at] ^= 1 << random.below(64);
        }
        let opened = survive::<B>(engine, &damaged);
        assert_eq!(opened, round % 2 == 0, "one sound copy is enough, none is not");
    }
    // Lies with a valid checksum.
    let lies = [0, 1, 2, 5, 31, 32, 33, 63, 64, 1 << 20, 1 << 32, 1 << 40, 1 << 63, u64::MAX];
    for _ in 0..600 {
        let mut hostile = superblock.clone();
        for _ in 0..1 + random.below(2) {
            let lie = if random.percent(70) { *random.of(&lies) } else { random.word() };
            match random.below(8) {
                0 => hostile.engine_params[random.below(3) as usize] = lie,
                1 => hostile.engine_params[random.below(2) as usize] ^= 1 << random.below(64),
                2 | 3 => {
                    let root = random.below(4) as usize;
                    hostile.engine_roots[root] = *random.of(&[lie, hostile.engine_roots[root] ^ 1]);
                }
                4 => hostile.end = *random.of(&[lie, hostile.end / 2, hostile.end * 2]),
                5 => hostile.hash_seed = lie,
                _ => lie_about_extents(&mut hostile, lie, &mut random),
            }
        }
        survive::<B>(engine, &with_superblock(&image, &hostile));
    }
}

fn lie_about_extents(hostile: &mut Superblock, lie: u64, random: &mut Random) {
    let count = hostile.extents.len() as u64;
    if count == 0 {
        return;
    }
    let (at, other) = (random.below(count) as usize, random.below(count) as usize);
    match random.below(7) {
        0 => drop(hostile.extents.remove(at)),
        1 => hostile.extents.clear(),
        2 => hostile.extents.swap(at, other),
        3 => hostile.extents[at].bytes = lie,
        4 => hostile.extents[at].start.0 = lie & ((1 << 48) - 1),
        5 => hostile.extents[at].owner = lie as u8,
        _ => hostile.extents[at].index = lie as u8,
    }
}

pub(crate) fn a_cut_off_pool_is_refused<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let (image, superblock) = sample::<B>(engine);
    let pages = superblock.end.div_ceil(4096);
    for page in 0..pages {
        let mut cut = image.clone();
        cut.0.truncate((page * 4096 / WORD) as usize);
        // The missing part comes back as zeros at best: keys are lost, and nothing can tell. But without a superblock
        // there is no pool.
        if page == 0 {
            let (_backing, medium) = B::holding(&cut, LIMIT_BYTES);
            assert!(matches!(Pool::open(medium, PLACE), Err(OpenError::NotAPool { .. })));
        } else {
            survive::<B>(engine, &cut);
        }
    }
}
