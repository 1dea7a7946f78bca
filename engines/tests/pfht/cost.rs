//! What operations read and write (sections 4.1 and 4.2), as the engine's page has it.

use crate::harness::{
    NEVER, SLOTS, Table, choices, key, shape, stashed, stashing, value, words_in,
};
use crate::table::packed::Bytes;
use engines::pfht::{Design, Shape};
use pmem::medium::{Cost, Count, Dram, measure};

type Counted = Table<Count<Dram>>;

/// The sum of what `operation` costs for each of `indexes`.
fn sum_of(indexes: impl Iterator<Item = u64>, operation: impl Fn(u64)) -> Cost {
    indexes.fold(Cost::default(), |mut sum, index| {
        sum += measure(|| operation(index)).1;
        sum
    })
}

/// Lines written, flushes and fences.
fn writes(cost: &Cost) -> [u64; 3] {
    [cost.lines_written, cost.flushes, cost.fences]
}

fn filled_to(shape: Shape, percent: u64) -> (Counted, u64) {
    let table = Counted::new(shape, NEVER);
    let count = table.capacity() * percent / 100;
    table.fill(0..count);
    (table, count)
}

#[test]
fn words_are_written_with_one_flush_and_one_fence() {
    let table = Counted::new(shape(SLOTS, 10), NEVER);
    let capacity = table.capacity();
    let mut at = 0;
    let mut insertions = [0, 0, 0];
    for (percent, most) in [(70, 1.0), (90, 1.1)] {
        let to = capacity * percent / 100;
        let cost = sum_of(at..to, |index| table.fill(index..index + 1));
        insertions = [0, 1, 2].map(|part| insertions[part] + writes(&cost)[part]);
        at = to;
        let means = insertions.map(|sum| sum as f64 / to as f64);
        println!("insertions up to {percent} %: lines, flushes, fences {means:.3?}");
        assert!(means.iter().all(|&mean| (1.0..=most).contains(&mean)), "{means:?}");
    }
    assert!(insertions[1] > at, "some insertions displaced an item");
    let update = |index| assert_eq!(table.update(key(index), !index), Some(value(index)));
    assert_eq!(writes(&sum_of(0..at, update)), [at; 3], "updates");
    let remove = |index| assert_eq!(table.remove(key(index)), Some(!index));
    assert_eq!(writes(&sum_of(0..at, remove)), [at; 3], "removals");
    table.assert_sound(0);
}

/// A table of two buckets of one slot: the first bucket has an item that has a place in the second one.
fn with_one_to_displace(design: Design) -> (Counted, [u64; 2]) {
    let table = Counted::new(Shape { design, ..stashing(1, 1, 0) }, NEVER);
    let [movable, stubborn] = [[0, 1], [0, 0]].map(|choice| words_in(choice, 1).next().unwrap());
    assert_eq!(table.insert(movable, 5).expect("it is empty"), None);
    (table, [movable, stubborn])
}

#[test]
fn a_displacement_takes_two_flushes_and_two_fences() {
    for design in [Design::default(), Design::PAPER] {
        let (table, [movable, stubborn]) = with_one_to_displace(design);
        let (found, cost) = measure(|| table.insert(stubborn, 6).expect("one gives way"));
        assert_eq!((found, writes(&cost)), (None, [2, 2, 2]));
        assert_eq!((table.get(movable), table.get(stubborn)), (Some(5), Some(6)));
        table.assert_sound(2);
        table.recovered(&table.image()).assert_sound(2);
    }
    let design = Design { displaces: false, ..Design::default() };
    let (table, [movable, stubborn]) = with_one_to_displace(design);
    assert!(table.insert(stubborn, 6).is_err(), "nothing gives way");
    assert_eq!((table.get(movable), table.get(stubborn)), (Some(5), None));
}

#[test]
fn the_stash_takes_one_flush_and_one_fence() {
    let table = Counted::new(stashing(1, 1, 5), NEVER);
    let keys: Vec<u64> = words_in([1, 1], 1).take(2).collect();
    let insert = |key| measure(|| table.insert(key, !key).expect("there is room"));
    for (&key, stashed_after) in keys.iter().chain(&[0]).zip([0, 1, 2]) {
        assert_eq!(writes(&insert(key).1), [1; 3], "insertion of {key}");
        assert_eq!(stashed(&table), stashed_after);
    }
    for key in [keys[1], 0] {
        let (old, cost) = measure(|| table.update(key, 3));
        assert_eq!((old, writes(&cost)), (Some(!key), [1; 3]), "update of {key}");
        let (old, cost) = measure(|| table.remove(key));
        assert_eq!((old, writes(&cost)), (Some(3), [1; 3]), "removal of {key}");
    }
    table.assert_sound(1);
}

/// Lines that a hit and a miss read, on average.
fn lines_read(shape: Shape, percent: u64) -> [f64; 2] {
    let (table, count) = filled_to(shape, percent);
    let hits = sum_of(0..count, |index| assert_eq!(table.get(key(index)), Some(value(index))));
    let misses = sum_of(0..count, |index| assert_eq!(table.get(key(index + (1 << 40))), None));
    [hits, misses].map(|cost| {
        assert_eq!(writes(&cost), [0; 3], "a look-up writes nothing");
        cost.lines_read as f64 / count as f64
    })
}

#[test]
fn the_sidecar_keeps_look_ups_from_other_lines() {
    let all = lines_read(shape(SLOTS, 9), 80);
    let paper = lines_read(Shape { design: Design::PAPER, ..shape(SLOTS, 9) }, 80);
    println!("lines per hit and miss: {all:.3?}, as in the paper {paper:.3?}");
    assert!((1.0..=1.06).contains(&all[0]) && all[1] <= 0.1, "{all:?}");
    // Two buckets of two lines, of which a hit reads half.
    assert!(paper[0] <= 2.1 && paper[1] >= 3.9, "{paper:?}");
}

/// Buckets next to each other share a chain: a miss reads only nodes of its own first bucket.
#[test]
fn misses_read_the_stash_of_their_own_bucket_only() {
    const LOG2: u32 = 8;

    for sticky_bit in [false, true] {
        let design = Design { sticky_bit, ..Design::default() };
        let table = Counted::new(Shape { design, ..shape(SLOTS, LOG2) }, NEVER);
        // More of one bucket's than it has slots.
        for key in words_in([0, 0], LOG2).take(SLOTS as usize + 4) {
            assert_eq!(table.insert(key, !key).expect("there is room"), None);
        }
        assert_eq!(stashed(&table), 4);
        let reads_of_misses = |first: std::ops::Range<u64>| {
            let is_one = |key: &u64| {
                let [bucket, other] = choices(*key, LOG2);
                first.contains(&bucket) && other != 0
            };
            let misses = (1 << 40..).filter(is_one).take(100);
            sum_of(misses, |key| assert_eq!(table.get(key), None)).lines_read
        };
        assert_eq!(reads_of_misses(1..8), 0, "of buckets that share the chain");
        assert!(reads_of_misses(0..1) >= 200, "two lines of four nodes");
    }
}

#[test]
fn pairs_with_a_bitmap_cost_what_their_lines_do() {
    // Of three items the first is in the line of the bitmap, the second lies across both, the third in the other one.
    let table = Table::<Count<Dram>, Bytes<16>, Bytes<24>>::new(stashing(3, 0, 0), NEVER);
    let insert = |index| {
        writes(&measure(|| table.insert(Bytes::of(index), Bytes::of(!index)).expect("room")).1)
    };
    assert_eq!([0, 1, 2].map(insert), [[1, 1, 1], [2, 2, 2], [2, 2, 2]]);
    // In a full bucket by the log: the entry, the value, and the erasure of the entry.
    let (old, cost) = measure(|| table.update(Bytes::of(0), Bytes::of(7)));
    assert_eq!((old, cost.fences), (Some(Bytes::of(!0)), 3));
    let remove = |index| writes(&measure(|| table.remove(Bytes::of(index))).1);
    assert_eq!([0, 1, 2].map(remove), [[1; 3]; 3]);
    table.assert_sound(0);
}
