//! A guest that writes what it likes into its lanes: it harms itself alone.

use crate::owner::{FOR_EVER, Kind, Process, patient};
use firndex::{Cache, Durability, Engine, Options, Store, Table};
use pmem::file::{Located, PoolFile};
use pmem::meeting::{Asked, LANE_WORDS, LANES, Part, Visit};
use std::path::Path;
use std::time::{Duration, Instant};
use workload::{Random, effort};

fn visit(path: &Path) -> Visit {
    let located = Located::followed(path).unwrap();
    let (pool, ownership, inode) = PoolFile::beside(&located, |bytes| bytes).unwrap();
    Visit::begin(&located, inode, pool.superblock().uuid, ownership, FOR_EVER).unwrap()
}

/// Operations have small numbers, and so have lengths that mean something.
fn word(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.below(30),
        1 => random.below(4096),
        2 => u64::MAX - random.below(64),
        _ => random.word(),
    }
}

/// A request in which something is wrong, perhaps.
fn request(random: &mut Random) -> (Vec<u64>, Part) {
    let length = match random.below(8) {
        0 => LANE_WORDS,
        1 => 0,
        _ => random.index(24),
    };
    let mut words: Vec<u64> = (0..length).map(|_| word(random)).collect();
    if let Some(first) = words.first_mut()
        && random.percent(80)
    {
        *first = 1 + random.below(34);
    }
    let part = Part {
        is_first: random.percent(80),
        has_more: random.percent(10),
        asks_for_rest: random.percent(5),
    };
    (words, part)
}

/// Asks, waits for answers or does not, takes back, hangs up.
fn pester(path: &Path, random: &mut Random, requests: u64) {
    let mut guest = visit(path);
    for _ in 0..requests {
        if guest.is_over() {
            // It was shown out.
            guest = visit(path);
        }
        let number = random.index(LANES);
        guest.use_lane(number);
        let lane = guest.lane(number);
        let (words, part) = request(random);
        lane.ask(&words, part);
        guest.ring_if_asleep();
        match random.below(4) {
            0 => drop(lane.withdraw()),
            1 => {}
            _ => {
                let began = Instant::now();
                while lane.asked() != Asked::Answered && !guest.is_over() {
                    std::thread::sleep(Duration::from_micros(10));
                    assert!(began.elapsed() < FOR_EVER, "it is answered, or shown out");
                }
                lane.answer_into(&mut Vec::new());
            }
        }
        if random.percent(1) {
            guest = visit(path);
        }
    }
}

#[test]
fn what_a_guest_writes_into_its_lanes_harms_nobody_else() {
    let requests = effort::of(6000, 2000);
    for (kind, seed) in [(Kind::Store, 1), (Kind::Words, 2), (Kind::Wide, 3), (Kind::Cache, 4)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let engine = match kind {
            Kind::Wide => crate::owner::wide_engine(),
            _ => Engine::ALL[0],
        };
        let owner = Process::owner(kind, &path, engine, Durability::Process);
        let other = (kind == Kind::Store).then(|| patient().open_store(&path).unwrap());
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let path = &path;
                scope.spawn(move || pester(path, &mut Random::new(seed * 10 + thread), requests));
            }
            // Whoever behaves goes on meanwhile, with a key that the other one does not hit upon.
            if let Some(store) = &other {
                for turn in 0..500u64 {
                    let value = turn.to_le_bytes();
                    store.put("the key of somebody who behaves", value).unwrap();
                    let found = store.get("the key of somebody who behaves").unwrap();
                    assert_eq!(found.as_deref(), Some(&value[..]));
                }
            }
        });
        drop(other);
        owner.close();
        match kind {
            Kind::Store => assert!(Store::open(&path).unwrap().check().unwrap().is_sound()),
            Kind::Words => {
                let table = Table::<u64, u64>::open(&path).unwrap();
                assert!(table.check().unwrap().is_sound());
            }
            Kind::Cache => assert!(Cache::open(&path).unwrap().check().unwrap().is_sound()),
            Kind::Wide => {
                let table: Table<crate::owner::WideKey, crate::owner::WideValue> =
                    Options::new().open_table_of(&path).unwrap();
                assert!(table.check().unwrap().is_sound());
            }
        }
    }
}
