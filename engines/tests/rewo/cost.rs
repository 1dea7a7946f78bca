//! What operations read and write: sections 3.3 and 3.4.

use crate::harness::{NEVER, Table, cached, key, shape, value};
use crate::table::packed::Bytes;
use engines::rewo::{Design, Shape};
use index::Index;
use pmem::medium::{Cost, Count, Dram, measure};

/// Pairs of the paper's sizes, and how many a bucket holds.
type Paper = Table<Count<Dram>, Bytes<16>, Bytes<15>>;
const PAPER_SLOTS: u32 = 8;
/// How full a table of them may be for all to be cached in a table as large, of which a bucket holds three.
const PAPER_FULL_LOADED_PERCENT: u64 = 15;
/// Buckets hold so many pairs of words.
const WORD_SLOTS: u32 = 15;

/// What operations cost, all together.
#[derive(Debug, Default)]
struct Costs {
    sum: Cost,
    count: u64,
}

impl Costs {
    fn add(&mut self, cost: Cost) {
        self.sum += cost;
        self.count += 1;
    }

    fn of(costs: impl Iterator<Item = Cost>) -> Costs {
        let mut all = Costs::default();
        costs.for_each(|cost| all.add(cost));
        all
    }

    fn and(&self, more: &Costs) -> Costs {
        let mut sum = self.sum;
        sum += more.sum;
        Costs { sum, count: self.count + more.count }
    }

    fn mean(&self, part: impl Fn(&Cost) -> u64) -> f64 {
        part(&self.sum) as f64 / self.count as f64
    }

    fn blocks(&self) -> f64 {
        self.mean(|cost| cost.blocks_written)
    }

    fn flushes(&self) -> f64 {
        self.mean(|cost| cost.flushes)
    }

    fn fences(&self) -> f64 {
        self.mean(|cost| cost.fences)
    }

    fn tell(&self, what: &str) {
        let lines = self.mean(|cost| cost.lines_written);
        let (blocks, flushes, fences) = (self.blocks(), self.flushes(), self.fences());
        println!(
            "{what}: {lines:.3} lines, {blocks:.3} blocks, {flushes:.3} flushes, {fences:.3} fences"
        );
    }
}

/// What insertions, updates and removals cost.
struct Measured {
    /// Of insertions into a table filled to 0.6, and from there to 0.8.
    insertions: [Costs; 2],
    updates: Costs,
    removals: Costs,
}

/// Fills a table to 0.8, and updates and removes at loads below `percent`.
fn measured<const K: usize, const V: usize>(slots: u32, percent: u64) -> Measured {
    let table = Table::<Count<Dram>, Bytes<K>, Bytes<V>>::new(shape(slots, 10), NEVER);
    let capacity = table.capacity();
    let insertion = |index| {
        let (found, cost) =
            measure(|| table.insert(Bytes::of(index), Bytes::of(!index)).expect("there is room"));
        assert_eq!(found, None);
        cost
    };
    let below = capacity * 6 / 10;
    let insertions = [
        Costs::of((0..below).map(insertion)),
        Costs::of((below..capacity * 8 / 10).map(insertion)),
    ];
    let left = capacity * percent / 100;
    for index in left..capacity * 8 / 10 {
        assert_eq!(table.remove(Bytes::of(index)), Some(Bytes::of(!index)));
    }
    let updates = Costs::of((0..left).map(|index| {
        let (old, cost) = measure(|| table.update(Bytes::of(index), Bytes::of(index + 7)));
        assert_eq!(old, Some(Bytes::of(!index)));
        cost
    }));
    let removals = Costs::of((0..left).map(|index| {
        let (old, cost) = measure(|| table.remove(Bytes::of(index)));
        assert_eq!(old, Some(Bytes::of(index + 7)));
        cost
    }));
    table.assert_sound(0);
    Measured { insertions, updates, removals }
}

/// Asserts that each removal flushed and fenced once, and wrote one block.
fn assert_removals(removals: &Costs) {
    let Cost { lines_written, blocks_written, flushes, fences, .. } = removals.sum;
    let count = removals.count;
    assert_eq!([lines_written, blocks_written, flushes, fences], [count; 4], "{removals:?}");
}

#[test]
fn words_are_written_into_one_block_with_few_flushes() {
    for percent in [60, 80] {
        let Measured { insertions, updates, removals } = measured::<8, 8>(WORD_SLOTS, percent);
        let up_to_80 = insertions[0].and(&insertions[1]);
        insertions[0].tell("insertions of words up to 0.6");
        up_to_80.tell("insertions of words up to 0.8");
        assert!(insertions[0].blocks() <= 1.05, "{insertions:?}");
        for each in [&insertions[0], &up_to_80] {
            assert!(each.flushes() <= 1.9 && each.fences() <= 1.9, "{each:?}");
        }
        // In place.
        let count = updates.count;
        let Cost { lines_written, blocks_written, flushes, fences, .. } = updates.sum;
        assert_eq!([lines_written, blocks_written, flushes, fences], [count; 4]);
        assert_removals(&removals);
    }
}

#[test]
fn pairs_of_the_papers_sizes_are_written_into_one_block_with_few_flushes() {
    let Measured { insertions, updates, removals } = measured::<16, 15>(PAPER_SLOTS, 60);
    let up_to_80 = insertions[0].and(&insertions[1]);
    insertions[0].tell("insertions of 31 bytes up to 0.6");
    up_to_80.tell("insertions of 31 bytes up to 0.8");
    updates.tell("updates of 31 bytes at 0.6");
    assert!(insertions[0].blocks() <= 1.05 && updates.blocks() <= 1.05);
    // A pair that lies across two lines takes a flush more.
    assert!(insertions[0].flushes() <= 2.1 && insertions[0].fences() <= 1.9, "{insertions:?}");
    assert!(up_to_80.flushes() <= 2.2 && up_to_80.fences() <= 1.9, "{up_to_80:?}");
    assert!(updates.flushes() <= 2.1 && updates.fences() <= 2.0, "{updates:?}");
    assert_removals(&removals);
    let at_80 = measured::<16, 15>(PAPER_SLOTS, 80);
    at_80.updates.tell("updates of 31 bytes at 0.8");
    assert_removals(&at_80.removals);
}

/// A table of the paper's pairs, of which it holds those of `0..count`.
fn filled(shape: Shape, percent: u64) -> (Paper, u64) {
    let table = Paper::new(shape, NEVER);
    let count = table.capacity() * percent / 100;
    for index in 0..count {
        assert_eq!(table.insert(Bytes::of(index), Bytes::of(!index)).expect("room"), None);
    }
    (table, count)
}

/// Lines read per look-up of a key that is there, and of one that is not; the look-ups write nothing.
fn lines_read(table: &Paper, count: u64) -> [f64; 2] {
    let read = |index, expected| {
        let (found, cost) = measure(|| table.get(Bytes::of(index)));
        assert_eq!(found, expected);
        assert_eq!((cost.lines_written, cost.flushes, cost.fences), (0, 0, 0));
        cost.lines_read
    };
    let hits: u64 = (0..count).map(|index| read(index, Some(Bytes::of(!index)))).sum();
    let misses: u64 = (0..count).map(|index| read(index + (1 << 40), None)).sum();
    [hits, misses].map(|lines| lines as f64 / count as f64)
}

#[test]
fn a_full_loaded_cached_table_keeps_look_ups_from_the_pool() {
    let (table, count) = filled(cached(PAPER_SLOTS, 10, 0), PAPER_FULL_LOADED_PERCENT);
    let again = table.recovered(&table.image());
    assert!(!again.index.is_full_loaded(), "nothing is cached after an opening");
    assert!(again.index.refill() && again.index.is_full_loaded());
    assert_eq!(lines_read(&again, count), [0.0, 0.0]);
    // Inserted while full-loaded, from the first pair on.
    assert!(table.index.is_full_loaded());
    assert_eq!(lines_read(&table, count), [0.0, 0.0]);
}

/// Of look-ups that go to the pool, one in a few replaces another pair in the cached table: so a key that is looked up
/// again and again is there soon.
#[test]
fn a_key_that_is_looked_up_often_is_cached() {
    const LOOK_UPS: usize = 8;

    let (table, count) = filled(cached(PAPER_SLOTS, 10, 3), 70);
    assert!(!table.index.refill(), "an eighth has not room for all");
    let of = |index| measure(|| assert!(table.get(Bytes::of(index)).is_some())).1.lines_read;
    let (mut of_first, mut of_last) = (0, 0);
    for index in 0..count {
        of_first += of(index);
        for _ in 1..LOOK_UPS {
            of(index);
        }
        of_last += of(index);
    }
    assert!(of_first > count / 2, "{of_first} lines read by {count} first look-ups");
    assert_eq!(of_last, 0, "lines read by {count} look-ups after {LOOK_UPS}");
}

#[test]
fn a_search_in_the_pool_reads_its_own_item_and_a_miss_two_meta_words_at_most() {
    let [of_papers, of_all] = [false, true].map(|sidecar_prints| {
        let design = Design { sidecar_prints, ..Design::default() };
        // Partial-loaded, but for a few.
        let (table, count) = filled(Shape { design, ..cached(PAPER_SLOTS, 10, 16) }, 80);
        assert!(!table.index.is_full_loaded());
        lines_read(&table, count)
    });
    println!(
        "lines read per hit and per miss: {of_papers:.3?} as in the paper, {of_all:.3?} by default"
    );
    assert!(of_papers[1] <= 2.3, "{of_papers:?}");
    // An item may lie across two lines.
    assert!(of_all[0] <= 1.6 && of_all[1] <= 0.1, "{of_all:?}");
    let (table, count) = filled(shape(PAPER_SLOTS, 10), 80);
    let without = lines_read(&table, count);
    assert!(without[0] <= 1.6 && without[1] <= 0.1, "without a cached table: {without:?}");
}

#[test]
fn a_hit_of_words_reads_one_line() {
    let table = Table::<Count<Dram>>::new(shape(WORD_SLOTS, 9), NEVER);
    let count = table.capacity() * 8 / 10;
    table.fill(0..count);
    let lines = |index| measure(|| table.get(key(index))).1.lines_read;
    let of_hits: u64 = (0..count).map(lines).sum();
    let of_misses: u64 = (0..count).map(|index| lines(index + (1 << 40))).sum();
    let [per_hit, per_miss] = [of_hits, of_misses].map(|sum| sum as f64 / count as f64);
    assert!((1.0..=1.06).contains(&per_hit) && per_miss <= 0.1, "{per_hit}, {per_miss}");
}

/// One operation on each of some keys, which says what it found.
type Batch<'a> = &'a dyn Fn(&[u64], &mut [Option<u64>]);

#[test]
fn batches_share_fences() {
    const BATCH: u64 = 16;
    const ROUNDS: u64 = 32;
    let table = Table::<Count<Dram>>::new(shape(WORD_SLOTS, 14), NEVER);
    let fences = |change: Batch<'_>| {
        let of_round = |round: u64| {
            let keys: Vec<u64> = (round * BATCH..(round + 1) * BATCH).map(key).collect();
            let mut found = [None; BATCH as usize];
            let _write = table.pool.write().expect("the pool may be written");
            measure(|| change(&keys, &mut found)).1
        };
        let sum = (0..ROUNDS).map(of_round).fold(Cost::default(), |mut sum, cost| {
            sum += cost;
            sum
        });
        assert!(sum.flushes >= BATCH * ROUNDS, "{sum:?}");
        sum.fences
    };
    let pairs = |keys: &[u64]| keys.iter().map(|&key| (key, !key)).collect::<Vec<_>>();
    // A batch that meets one bucket or home twice takes another fence.
    let most = |each: u64| each * ROUNDS + each * ROUNDS / 8;
    let near = fences(&|keys, found| table.index.insert_many(&pairs(keys), found).expect("room"));
    assert!(near <= most(1), "{near} fences of insertions into near slots");
    let updates =
        fences(&|keys, found| table.index.update_many(&pairs(keys), found).expect("room"));
    assert!(updates <= most(1), "{updates} fences of updates");
    let removals = fences(&|keys, found| table.index.remove_many(keys, found).expect("room"));
    assert!(removals <= most(1), "{removals} fences of removals");
    // Now near slots are in use.
    let count = table.capacity() / 2;
    table.fill(1 << 20..(1 << 20) + count);
    let far = fences(&|keys, found| table.index.upsert_many(&pairs(keys), found).expect("room"));
    assert!(far <= most(2), "{far} fences of insertions");
    for index in 0..BATCH * ROUNDS {
        assert_eq!(table.get(key(index)), Some(!key(index)));
    }
    assert_eq!(table.get(key(1 << 20)), Some(value(1 << 20)));
    table.assert_sound(count + BATCH * ROUNDS);
}
