//! What operations cost in the pool, counted line by line in a table that is as full as its engine's budget says.

use crate::harness::{Backing, Engine, NEVER, Random, Setup, Table, spread, within};
use crate::threads::together;
use index::Index;
use pmem::medium::{Cost, measure};
use workload::effort;

/// An operation on a batch of keys, with room for what it finds.
type BatchOperation<'a> = dyn FnMut(&[u64], &mut [Option<u64>]) + 'a;

/// Number of operations for an average.
const OPERATIONS: u64 = 100_000;
/// Number of pairs to which a table grows.
const GROWN_PAIRS: u64 = 400_000;

/// A table that does not grow, filled to a load factor; returns how many keys that took. Its keys are the even numbers
/// from 2 on, spread.
fn filled<B: Backing>(engine: &'static Engine, pairs: u64, load_factor: f64) -> (Table<B>, u64) {
    let setup = Setup { pairs, resize_at: NEVER, helpers: 0, ..Setup::of(engine) };
    let table = Table::<B>::new(setup);
    let count = (table.occupancy().capacity as f64 * load_factor) as u64;
    for index in 0..count {
        table.insert(key_of(index), index).unwrap();
    }
    (table, count)
}

fn key_of(index: u64) -> u64 {
    spread(2 * index + 2)
}

fn absent(index: u64) -> u64 {
    spread(2 * index + 1)
}

/// The cost of `OPERATIONS` operations, each measured separately.
fn total(mut operation: impl FnMut(u64)) -> Cost {
    let mut total = Cost::default();
    for round in 0..OPERATIONS {
        total += measure(|| operation(round)).1;
    }
    total
}

/// Asserts that lines and media blocks written, flushes and fences are each between `operations` and `most` times as
/// many.
fn assert_writes(what: &str, cost: Cost, operations: u64, most: f64) {
    for count in [cost.lines_written, cost.blocks_written, cost.flushes, cost.fences] {
        let mean = count as f64 / operations as f64;
        assert!((1.0..=most).contains(&mean), "{what}: {mean} is not in 1..={most}: {cost:?}");
    }
}

pub(crate) fn mutations_write_few_lines<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let (table, count) = filled::<B>(engine, 100_000, engine.budget.load_factor);
    let mut random = Random::new(1);
    let assert_update = |what: &str, cost: Cost| {
        assert_writes(what, cost, OPERATIONS, engine.budget.writes_per_update);
    };
    assert_update(
        "update",
        total(|round| {
            assert!(table.update(key_of(random.below(count)), round).unwrap().is_some());
        }),
    );
    assert_update(
        "upsert",
        total(|round| {
            assert!(table.upsert(key_of(random.below(count)), round).unwrap().is_some());
        }),
    );
    assert_update(
        "exchange",
        total(|_| {
            let key = key_of(random.below(count));
            let found = table.get(key);
            assert_eq!(table.compare_exchange(key, found, Some(3)).unwrap(), Ok(()));
        }),
    );
    // The oldest key goes and a new one comes, so that the load factor stays.
    let (mut removal, mut insertion) = (Cost::default(), Cost::default());
    for index in 0..OPERATIONS {
        removal += measure(|| assert!(table.remove(key_of(index)).unwrap().is_some())).1;
        insertion +=
            measure(|| assert!(table.insert(key_of(count + index), 1).unwrap().is_none())).1;
    }
    assert_writes("removal", removal, OPERATIONS, 1.0);
    assert_writes("insertion", insertion, OPERATIONS, engine.budget.writes_per_insertion);
}

pub(crate) fn searches_read_few_lines_and_write_none<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let (table, count) = filled::<B>(engine, 100_000, engine.budget.load_factor);
    let mut random = Random::new(1);
    let hit = total(|_| assert!(table.get(key_of(random.below(count))).is_some()));
    let miss = total(|_| assert!(table.get(absent(random.below(1 << 40))).is_none()));
    for (what, cost, budget) in [
        ("hit", hit, engine.budget.lines_read_per_hit),
        ("miss", miss, engine.budget.lines_read_per_miss),
    ] {
        let read = cost.lines_read as f64 / OPERATIONS as f64;
        assert!(read <= budget, "a {what} reads {read} lines, not {budget}");
        let written = (cost.lines_written, cost.flushes, cost.fences);
        assert_eq!(written, (0, 0, 0), "a {what} with nobody else there");
    }
    let mut found = [None; 32];
    let batch = total(|round| {
        if round % 32 == 0 {
            let keys: [u64; 32] = std::array::from_fn(|_| key_of(random.below(count)));
            table.get_many(&keys, &mut found);
            assert!(found.iter().all(Option::is_some));
        }
    });
    let read = batch.lines_read as f64 / OPERATIONS as f64;
    assert!(read <= engine.budget.lines_read_per_hit, "a hit in a batch reads {read} lines");
    assert_eq!((batch.lines_written, batch.flushes, batch.fences), (0, 0, 0));
}

pub(crate) fn what_changes_nothing_writes_nothing<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let (table, count) = filled::<B>(engine, 10_000, engine.budget.load_factor);
    let idle = total(|round| {
        let (present, missing) = (key_of(round % count), absent(round));
        match round % 5 {
            0 => assert!(table.insert(present, 0).unwrap().is_some()),
            1 => assert!(table.update(missing, 0).unwrap().is_none()),
            2 => assert!(table.remove(missing).unwrap().is_none()),
            3 => assert!(table.compare_exchange(present, None, Some(1)).unwrap().is_err()),
            _ => table.insert_many(&[(present, 1); 3], &mut [None; 3]).unwrap(),
        }
    });
    assert_eq!((idle.lines_written, idle.flushes, idle.fences), (0, 0, 0));
}

pub(crate) fn batches_fence_no_more_than_they_must<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    // The table has so much room that two keys of a batch seldom share a bucket and hardly any key spills. So an
    // insertion writes no more than an update.
    let (table, _) = filled::<B>(engine, 1_000_000, 0.05);
    let batches = 2000;
    let batch = |number: u64| (0..32).map(move |index| key_of(1 << 30 | number << 5 | index));
    let mut out = [None; 32];
    let mut assert_shared = |what: &str, writes: f64, operation: &mut BatchOperation<'_>| {
        let mut sum = Cost::default();
        for number in 0..batches {
            let keys: Vec<u64> = batch(number).collect();
            let ((), cost) = measure(|| operation(&keys, &mut out));
            assert!(cost.fences >= 1, "{what}: nothing was fenced");
            sum += cost;
        }
        let flushes = sum.flushes as f64 / (batches * 32) as f64;
        assert!(
            (1.0..=writes * 1.001).contains(&flushes),
            "{what}: {flushes} flushes, not {writes}"
        );
        let fences = sum.fences as f64 / batches as f64;
        let most = engine.budget.fences_per_batch;
        assert!(fences <= most, "{what}: {fences} fences a batch, not {most}");
    };
    let writes = engine.budget.writes_per_update;
    let pairs = |keys: &[u64]| keys.iter().map(|&key| (key, key)).collect::<Vec<_>>();
    assert_shared("insert_many", writes, &mut |keys, out| {
        table.insert_many(&pairs(keys), out).unwrap();
        assert!(out.iter().all(Option::is_none));
    });
    assert_shared("upsert_many", writes, &mut |keys, out| {
        table.upsert_many(&pairs(keys), out).unwrap()
    });
    assert_shared("compare_exchange_many", writes, &mut |keys, out| {
        let changes: Vec<_> = keys.iter().map(|&key| (key, Some(key), Some(!key))).collect();
        table.compare_exchange_many(&changes, out).unwrap();
        assert!(out.iter().zip(keys).all(|(found, key)| *found == Some(*key)));
    });
    assert_shared("remove_many", 1.0, &mut |keys, out| {
        table.remove_many(keys, out).unwrap();
        assert!(out.iter().zip(keys).all(|(found, key)| *found == Some(!*key)));
    });
}

pub(crate) fn no_insertion_does_the_work_of_many<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for (writers, helpers) in effort::each([(1, 0), (1, 1), (2, 0), (2, 1)], 3) {
        let setup = Setup { helpers, limit_bytes: 8 << 30, ..Setup::of(engine) };
        let table = Table::<B>::new(setup);
        // For each writer, by log2 of the pairs that were there: the most that one insertion cost.
        let most = together(writers, |writer| {
            let mut most = vec![Cost::default(); GROWN_PAIRS.ilog2() as usize + 1];
            for index in (writer as u64..GROWN_PAIRS).step_by(writers) {
                let key = key_of(index);
                let (inserted, cost) = measure(|| table.insert(key, index));
                assert_eq!(inserted.unwrap(), None);
                let most = &mut most[(index + 1).ilog2() as usize];
                *most = greater(*most, cost);
            }
            most
        });
        table.settle();
        assert_eq!(table.len(), GROWN_PAIRS);
        let resizes = table.occupancy().resizes;
        assert!(resizes >= 10, "{resizes} resizes");
        let by_size = (0..=GROWN_PAIRS.ilog2() as usize)
            .map(|log2| most.iter().fold(Cost::default(), |sum, most| greater(sum, most[log2])));
        println!("writers, helpers: {writers}, {helpers}. At most, from so many pairs on:");
        for (log2, most) in by_size.enumerate() {
            println!(
                "2^{log2}: {} lines read, {} written, {} fences",
                most.lines_read, most.lines_written, most.fences
            );
            let lines = most.lines_read + most.lines_written;
            let budget = engine.budget.lines_per_insertion_while_growing;
            assert!(lines <= budget, "an insertion touched {lines} lines, not {budget}: {most:?}");
        }
    }
}

/// The greater value of each count.
fn greater(one: Cost, other: Cost) -> Cost {
    Cost {
        lines_read: one.lines_read.max(other.lines_read),
        lines_written: one.lines_written.max(other.lines_written),
        blocks_written: one.blocks_written.max(other.blocks_written),
        flushes: one.flushes.max(other.flushes),
        fences: one.fences.max(other.fences),
    }
}
