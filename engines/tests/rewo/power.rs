//! Power failures: in the middle of evictions, updates of full buckets and resizes of packed pairs. (What a power
//! failure may leave of two-word pairs, on any number of threads, is crashlab's.)

use crate::harness::{NEVER, Random, Rewo, Table, cached, shape};
use crate::table::packed::Bytes;
use crate::table::power::{Entry, Lines, Remembering, survives};
use engines::rewo::{Design, Shape};
use std::collections::HashMap;
use workload::effort;

type Key = Bytes<16>;
type Value = Bytes<15>;
type Logged = Table<Remembering, Key, Value>;

fn survive_by_every_design<const K: usize, const V: usize>(slots: u32) {
    let all = shape(slots, 1);
    let moved = Design { in_place_update: false, ..Design::default() };
    for shape in [all, Shape { design: moved, ..cached(slots, 1, 1) }] {
        survives::<Rewo, K, V>(shape, 400, 4);
    }
}

#[test]
fn packed_pairs_survive_a_power_failure_anywhere() {
    survive_by_every_design::<16, 15>(8);
    survive_by_every_design::<3, 5>(4);
    survive_by_every_design::<4, 8>(5);
    survive_by_every_design::<24, 100>(2);
}

/// How an operation on a full bucket ended.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// In the bucket.
    Simple,
    /// An item was moved to another bucket, or two were.
    Evicted(usize),
    /// By the log.
    ByLog,
}

fn way_of(entries: &[Entry]) -> Way {
    let fences = entries.iter().filter(|entry| matches!(entry, Entry::Fence)).count();
    let mut blocks: Vec<u64> = entries
        .iter()
        .filter_map(|entry| if let Entry::Store(at, _) = entry { Some(at.0 / 256) } else { None })
        .collect();
    blocks.sort_unstable();
    blocks.dedup();
    match (fences, blocks.len()) {
        (..=2, _) => Way::Simple,
        // The log entry, the value, and the erasure of the entry: besides the bucket the log is written to.
        (3, 2) => Way::ByLog,
        (_, blocks) => Way::Evicted(blocks - 1),
    }
}

/// Cuts the last operation of a table short, which did what `entries` from `begin` on say, after each of these
/// and with some of the lines that were then in the caches. `before` is what the table had; the operation
/// brought `key` to `after`.
fn cut_everywhere(
    table: &Logged,
    lines: &mut Lines,
    entries: &[Entry],
    before: &HashMap<Key, Value>,
    (key, after): (Key, Value),
    random: &mut Random,
) {
    for (done, entry) in entries.iter().enumerate() {
        for _ in 0..2 {
            let again = table.recovered(&lines.image(random));
            for (other, value) in before {
                let found = again.get(*other);
                let is_possible = found == Some(*value) || *other == key && found == Some(after);
                assert!(is_possible, "entry {done}, {other:?}: {found:?}, not {value:?}");
            }
            let found = again.get(key);
            assert!(found == before.get(&key).copied() || found == Some(after), "entry {done}");
            let is_new = found.is_some() && !before.contains_key(&key);
            // Each of them once: copies are faults.
            again.assert_sound(before.len() as u64 + u64::from(is_new));
        }
        lines.apply(*entry);
    }
}

/// Fills a table that may not grow with insertions and updates, and cuts short those that `is_wanted` says.
/// How many there were of each number of evictions, and by the log.
fn cut_in_a_full_table(evictions: u32, wanted: impl Fn(&Way) -> bool, most: u32) -> [u32; 3] {
    let design = Design { evictions, ..Design::default() };
    let table = Logged::new(Shape { design, ..shape(8, 4) }, NEVER);
    let mut lines = Lines::default();
    let (mut applied, mut model) = (0, HashMap::new());
    let mut random = Random::new(evictions.into());
    let mut cut = [0; 3];
    for _ in 0..8000 {
        // More than there is room for.
        let (key, value) = (Bytes::of(random.below(300)), Bytes::of(random.below(1 << 30)));
        let begin = table.pool.medium().watcher.all().len();
        if model.contains_key(&key) {
            if random.percent(25) {
                assert_eq!(table.remove(key), model.remove(&key));
                continue;
            }
            assert_eq!(table.update(key, value), model.get(&key).copied());
        } else if table.insert(key, value).is_err() {
            continue;
        }
        let entries = table.pool.medium().watcher.all().clone();
        for entry in &entries[applied..begin] {
            lines.apply(*entry);
        }
        applied = entries.len();
        let way = way_of(&entries[begin..]);
        let kind = match way {
            Way::Simple => 0,
            Way::Evicted(count) => count.min(2),
            Way::ByLog => 0,
        };
        let is_wanted = wanted(&way) && cut[kind] < most;
        if is_wanted {
            cut[kind] += 1;
            let change = (key, value);
            cut_everywhere(&table, &mut lines, &entries[begin..], &model, change, &mut random);
        } else {
            for entry in &entries[begin..] {
                lines.apply(*entry);
            }
        }
        model.insert(key, value);
    }
    cut
}

#[test]
fn an_eviction_that_is_cut_short_leaves_each_key_once() {
    let most = effort::of(25, 5) as u32;
    let [_, once, twice] = cut_in_a_full_table(2, |way| matches!(way, Way::Evicted(_)), most);
    assert!(once == most && twice == most, "{once} operations moved one item, {twice} two");
}

#[test]
fn an_update_by_the_log_that_is_cut_short_happens_or_not() {
    let most = effort::of(40, 10) as u32;
    let [by_log, ..] = cut_in_a_full_table(0, |way| *way == Way::ByLog, most);
    assert_eq!(by_log, most);
}
