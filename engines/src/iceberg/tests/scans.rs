//! Scans while pairs are moved.

use super::new_table;
use crate::iceberg::block::Locked;
use crate::iceberg::layout::Geometry;
use crate::iceberg::{Iceberg, Shape};
use index::Index;
use pmem::medium::Dram;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// This many keys fill blocks of both levels, and leave some for level 3.
const KEYS: u64 = 143;

const SHAPE: Shape =
    Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 2, initial_nodes_log2: 5 };

/// A table that nothing but the test resizes, with keys in every level.
fn filled() -> Iceberg<Dram> {
    let table = new_table(&SHAPE, 1 << 26, 1.0);
    for key in 0..KEYS {
        assert_eq!(table.insert(key, !key).unwrap(), None);
    }
    let levels = table.occupancy().levels;
    assert!(levels.iter().all(|level| level.pairs > 1), "{levels:?}");
    assert_eq!(table.core.geometry(), Geometry::new(2, 2), "it has grown");
    table
}

/// Begins to double level 2, and also level 1 if asked to.
fn begin(table: &Iceberg<Dram>, level_1: bool) {
    let before = table.core.geometry();
    assert!(table.core.begin_resize(before, level_1).is_ok());
    assert_ne!(table.core.geometry(), before, "no resize was begun");
}

fn double(table: &Iceberg<Dram>) {
    begin(table, true);
    table.core.finish_moves();
}

/// Moves the `which`-th of three blocks of each level.
fn move_some(table: &Iceberg<Dram>, which: u64) {
    let geometry = table.core.geometry();
    for block in (which..geometry.blocks_1() / 2).step_by(3) {
        let _ = table.core.ensure_moved_1(geometry, block);
    }
    for block in (which..geometry.blocks_2() / 2).step_by(3) {
        let _ = table.core.ensure_moved_2(geometry, block);
    }
}

/// How often a scan visits each key. Calls `interfere` with the number of each visit.
fn met(table: &Iceberg<Dram>, mut interfere: impl FnMut(u64)) -> HashMap<u64, usize> {
    let (mut met, mut visits) = (HashMap::new(), 0);
    table
        .for_each(&mut |key, value| {
            assert_eq!(value, !key);
            *met.entry(key).or_default() += 1;
            interfere(visits);
            visits += 1;
        })
        .unwrap();
    met
}

fn once() -> HashMap<u64, usize> {
    (0..KEYS).map(|key| (key, 1)).collect()
}

type Resizing = fn(&Iceberg<Dram>);

#[test]
fn a_scan_that_whole_doublings_pass() {
    let level_2_alone: Resizing = |table| {
        begin(table, false);
        table.core.finish_moves();
    };
    let resizes: [(&str, &[Resizing]); 4] = [
        ("one doubling", &[double]),
        ("level 2 doubles", &[level_2_alone]),
        ("three doublings", &[double, double, double]),
        ("level 2 doubles, then level 1", &[level_2_alone, double]),
    ];
    for (name, resizes) in resizes {
        for at in 0..KEYS {
            let table = filled();
            let visits = met(&table, |visit| {
                if visit == at {
                    resizes.iter().for_each(|resize| resize(&table));
                }
            });
            assert_eq!(visits, once(), "{name} after {at} visits");
            assert!(table.check().is_sound());
        }
    }
}

/// The scan begins at any point of a doubling, which goes on during the scan.
#[test]
fn a_scan_in_the_midst_of_a_doubling() {
    for at in 0..KEYS {
        for which in 0..3 {
            let table = filled();
            begin(&table, true);
            move_some(&table, which);
            let visits = met(&table, |visit| match visit {
                _ if visit == at => move_some(&table, (which + 1) % 3),
                _ if visit == at + 20 => {
                    table.core.finish_moves();
                    double(&table);
                    begin(&table, true);
                    move_some(&table, which);
                }
                _ => {}
            });
            assert_eq!(visits, once(), "blocks {which} moved, others after {at} visits");
        }
    }
}

/// A scan takes pairs from where they are, and moves nothing.
#[test]
fn a_scan_ends_no_doubling() {
    let table = filled();
    begin(&table, true);
    move_some(&table, 1);
    let before = table.core.geometry();
    assert_eq!(met(&table, |_| {}), once());
    assert_eq!(table.core.geometry(), before);
}

#[test]
fn a_scan_in_the_visitor_of_another() {
    let table = filled();
    let visits = met(&table, |visit| {
        if visit % 40 == 7 {
            let inner = met(&table, |inner_visit| {
                if inner_visit == visit {
                    double(&table);
                }
            });
            assert_eq!(inner, once());
        }
    });
    assert_eq!(visits, once());
}

/// What a scan reports is durable: it waits for a writer that is about to change its block.
#[test]
fn a_scan_waits_for_a_writer() {
    let table = filled();
    for word in [table.core.flags_1(2), table.core.word_2(1)] {
        let locked = Locked::attempt(word).unwrap();
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let scanning = scope.spawn(|| {
                let visits = met(&table, |_| {});
                assert!(has_ended.load(Ordering::SeqCst), "the scan did not wait");
                visits
            });
            // A longer wait only makes a fault more likely to be found.
            (0..1000).for_each(|_| std::thread::yield_now());
            has_ended.store(true, Ordering::SeqCst);
            drop(locked);
            assert_eq!(scanning.join().unwrap(), once());
        });
    }
}

#[test]
fn threads_meet_every_pair_once_together() {
    let table = filled();
    begin(&table, true);
    move_some(&table, 2);
    for threads in [1, 2, 3, 7, 100] {
        let visits: Mutex<HashMap<u64, usize>> = Mutex::default();
        table.for_each_on(threads, &|key, _| {
            *visits.lock().unwrap().entry(key).or_default() += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(visits.into_inner().unwrap(), once(), "{threads} threads");
    }
}
