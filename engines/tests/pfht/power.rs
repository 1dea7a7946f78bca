//! Power failures in the middle of changes of packed pairs. (What a power failure may leave of words, on any number of
//! threads, is crashlab's.)

use crate::harness::{NEVER, OfPfht, Random, Table, shape, stashed, stashing};
use crate::table::packed::Bytes;
use crate::table::power::{Entry, Lines, Remembering, survives};
use engines::pfht::{Design, Shape};
use std::collections::HashMap;
use workload::effort;

type Key = Bytes<16>;
type Value = Bytes<40>;
type Logged = Table<Remembering, Key, Value>;

fn survive_by_every_design<const K: usize, const V: usize>(slots: u32) {
    let paper = Shape { design: Design::PAPER, ..stashing(slots, 1, 5) };
    for shape in [shape(slots, 1), paper, stashing(slots, 1, 0)] {
        survives::<OfPfht, K, V>(shape, 400, 4);
    }
}

#[test]
fn packed_pairs_survive_a_power_failure_anywhere() {
    survive_by_every_design::<16, 15>(3);
    survive_by_every_design::<3, 5>(4);
    survive_by_every_design::<4, 8>(5);
    survive_by_every_design::<24, 90>(1);
    survive_by_every_design::<8, 8>(2);
}

/// Cuts the last operation of a table short, which did what `entries` say, after each of these and with some of the
/// lines that were then in the caches. `before` is what the table had; the operation brought `key` to `after`.
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

/// What an operation on a full table did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing but what it does on any table.
    Simple,
    /// It took a node of the stash.
    Stashed,
    /// It wrote a bucket and another one.
    Displaced,
    /// It took the log.
    ByLog,
}

/// Fills a table that may not grow with insertions and updates, and cuts `most` of those short that go a way.
fn cut_in_a_full_table(wanted: Way, most: u32) -> u32 {
    let table = Logged::new(stashing(2, 4, 5), NEVER);
    let mut lines = Lines::default();
    let (mut applied, mut model) = (0, HashMap::new());
    let mut random = Random::new(wanted as u64);
    let mut cut = 0;
    for _ in 0..4000 {
        // More than there is room for.
        let (key, value) = (Bytes::of(random.below(60)), Bytes::of(random.below(1 << 30)));
        let begin = table.pool.medium().watcher.all().len();
        let there = stashed(&table);
        let is_update = model.contains_key(&key);
        if is_update {
            if random.percent(25) {
                assert_eq!(table.remove(key), model.remove(&key));
                continue;
            }
            assert_eq!(table.update(key, value), model.get(&key).copied());
        } else if table.insert(key, value).is_err() {
            continue;
        }
        let entries = table.pool.medium().watcher.all().clone();
        entries[applied..begin].iter().for_each(|entry| lines.apply(*entry));
        applied = entries.len();
        let fences = entries[begin..].iter().filter(|entry| matches!(entry, Entry::Fence)).count();
        let way = match (is_update, fences) {
            _ if stashed(&table) > there => Way::Stashed,
            (true, 3) => Way::ByLog,
            (false, 3..) => Way::Displaced,
            _ => Way::Simple,
        };
        if way == wanted && cut < most {
            cut += 1;
            let change = (key, value);
            cut_everywhere(&table, &mut lines, &entries[begin..], &model, change, &mut random);
        } else {
            entries[begin..].iter().for_each(|entry| lines.apply(*entry));
        }
        model.insert(key, value);
    }
    cut
}

#[test]
fn an_insertion_that_is_cut_short_leaves_each_key_once() {
    let most = effort::of(25, 6) as u32;
    assert_eq!(cut_in_a_full_table(Way::Displaced, most), most);
    assert_eq!(cut_in_a_full_table(Way::Stashed, most), most);
}

#[test]
fn an_update_by_the_log_that_is_cut_short_happens_or_not() {
    let most = effort::of(40, 10) as u32;
    assert_eq!(cut_in_a_full_table(Way::ByLog, most), most);
}
