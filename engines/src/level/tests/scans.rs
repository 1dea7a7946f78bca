//! Scans beside what moves items.

use super::*;

/// Asserts that a scan waits for `end`, and then meets the key once.
fn assert_scan_waits(table: &Table, key: u64, end: impl FnOnce()) {
    let core = &table.core;
    let is_locked =
        |&word: &u64| core.state(BucketId::of_word(word)).load(Ordering::Relaxed) & LOCK != 0;
    let first_locked = core.geometry().words().find(is_locked);
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let scanning = scope.spawn(|| {
            let mut visits = 0;
            table
                .for_each(&mut |visited, _| {
                    assert!(has_ended.load(Ordering::SeqCst), "it does not wait");
                    visits += usize::from(visited == key);
                })
                .unwrap();
            (visits, table.get(key))
        });
        // It has come to the bucket that it must wait for.
        wait_until(|| core.shared.scans.next_bucket() == first_locked || scanning.is_finished());
        give_way();
        assert_eq!(core.shared.scans.next_bucket(), first_locked, "it does not wait");
        has_ended.store(true, Ordering::SeqCst);
        end();
        assert_eq!(scanning.join().unwrap(), (1, Some(1)));
    });
}

/// What a scan reports is durable, and a look-up by the same thread finds it.
#[test]
fn a_scan_beside_an_insertion_that_is_not_durable() {
    let table = table(3, 0.85);
    let core = &table.core;
    let mut unfenced = Unfenced::<Core<_, _, _>, 2>::new(core);
    let placed = core.insert(&mut unfenced, core.geometry(), (7, 1), core.hash(7));
    assert!(matches!(placed, Placed::Done));
    assert_eq!(table.get(7), None);
    assert_scan_waits(&table, 7, || unfenced.commit());
}

/// An item that is there twice is met once.
#[test]
fn a_scan_beside_a_rehash_between_copy_and_deletion() {
    let table = table(3, 0.85);
    let core = &table.core;
    let (key, [from, _]) = key_of_two(&table, core.geometry().bottom());
    store(&table, from, key);
    core.begin_expansion(core.geometry()).unwrap();
    let locked = Locked::attempt(core.state(from)).unwrap();
    let mut copies = Unfenced::<Core<_, _, _>, 8>::from(core, from);
    let placed = core.insert(&mut copies, core.geometry(), (key, 1), core.hash(key));
    assert!(matches!(placed, Placed::Done));
    copies.end_copy(0, key);
    assert_scan_waits(&table, key, || drop((copies, locked)));
}

/// Moves the item in slot 0 of a bucket to its other bucket of the level.
fn move_from(table: &Table, from: BucketId) {
    let core = &table.core;
    let _locked = Locked::attempt(core.state(from)).unwrap();
    assert_eq!(core.move_one(core.geometry(), from, from.level, &mut false), Some(0));
}

/// How often a scan visits each key. `interfere` is called with the number of each visit.
fn met(table: &Table, mut interfere: impl FnMut(usize)) -> HashMap<u64, usize> {
    let (mut met, mut visits) = (HashMap::new(), 0);
    table
        .for_each(&mut |key, _| {
            *met.entry(key).or_default() += 1;
            interfere(visits);
            visits += 1;
        })
        .unwrap();
    met
}

/// The scan stands between the two buckets; the item moves past it, to and fro.
#[test]
fn a_scan_that_movements_pass() {
    for moves in 1..5 {
        for is_first_met in [false, true] {
            let table = table(3, 2.0);
            let top = table.core.geometry().top();
            let (key, candidates) = (1..)
                .map(|key| (key, table.core.candidates(top, table.core.hash(key))))
                .find(|(_, [first, second])| first.word + 1 < second.word)
                .unwrap();
            let between = BucketId::of_word(candidates[0].word + 1);
            let is_between =
                |&key: &u64| table.core.candidates(top, table.core.hash(key))[0] == between;
            let other = (key + 1..).find(is_between).unwrap();
            store(&table, between, other);
            store(&table, candidates[usize::from(!is_first_met)], key);
            let from =
                |number: usize| candidates[usize::from(number.is_multiple_of(2) != is_first_met)];
            let turn = usize::from(is_first_met);
            let visits = met(&table, |visit| {
                if visit == turn {
                    (0..moves).for_each(|number| move_from(&table, from(number)));
                }
            });
            assert_eq!(visits, HashMap::from([(key, 1), (other, 1)]), "{moves} moves");
        }
    }
}

/// A table that has grown, of thirty pairs.
fn thirty() -> Table {
    let table = grown();
    (1..31).for_each(|key| assert_eq!(table.insert(key, 1).unwrap(), None));
    table
}

type Resizing = fn(&Table);

/// Resizes of the whole table, one after the other, levels being dropped and used again.
const RESIZES: [(&str, &[Resizing]); 6] = [
    ("expansion", &[expand]),
    ("shrink", &[shrink]),
    ("two expansions", &[expand, expand]),
    ("expansion and shrinks", &[expand, shrink, shrink]),
    ("shrink and expansions", &[shrink, expand, expand]),
    ("shrink that turns", &[turn]),
];

fn expand(table: &Table) {
    table.expand().unwrap();
}

fn shrink(table: &Table) {
    assert_eq!(table.shrink().unwrap(), Shrunk::Halved);
}

fn turn(table: &Table) {
    let core = &table.core;
    assert!(core.begin_shrink(core.geometry()).unwrap());
    let shrinking = core.geometry();
    let interim = shrinking.interim().unwrap();
    (0..1 << interim).step_by(2).for_each(|index| {
        assert!(core.drain(shrinking, BucketId::new(interim, index)).is_ok());
    });
    assert!(core.turn_to_expansion(shrinking));
    core.finish_resize();
    assert_eq!(core.geometry().resize(), Resize::No);
}

#[test]
fn a_scan_that_whole_resizes_pass() {
    let once: HashMap<u64, usize> = (1..31).map(|key| (key, 1)).collect();
    for (name, resizes) in RESIZES {
        for at in 0..30 {
            let table = thirty();
            let visits = met(&table, |visit| {
                if visit == at {
                    resizes.iter().for_each(|resize| resize(&table));
                }
            });
            assert_eq!(visits, once, "{name} after {at} visits");
            assert!(table.check().is_sound());
        }
    }
}

/// A resize stands in the middle when the scan begins, and goes on under it.
#[test]
fn a_scan_that_begins_in_the_midst_of_a_resize() {
    let once: HashMap<u64, usize> = (1..31).map(|key| (key, 1)).collect();
    for is_shrink in [false, true] {
        for at in 0..30 {
            let table = thirty();
            let core = &table.core;
            if is_shrink {
                assert!(core.begin_shrink(core.geometry()).unwrap());
            } else {
                core.begin_expansion(core.geometry()).unwrap();
            }
            let resizing = core.geometry();
            let interim = resizing.interim().unwrap();
            (0..1 << interim).step_by(3).for_each(|index| {
                assert!(core.drain(resizing, BucketId::new(interim, index)).is_ok());
            });
            let visits = met(&table, |visit| {
                if visit == at {
                    core.finish_resize();
                }
            });
            assert_eq!(visits, once, "after {at} visits");
        }
    }
}

#[test]
fn a_scan_in_the_visitor_of_another() {
    let once: HashMap<u64, usize> = (1..31).map(|key| (key, 1)).collect();
    let table = thirty();
    let visits = met(&table, |visit| {
        let resize = if visit % 2 == 0 { expand } else { shrink };
        let inner = met(&table, |inner_visit| {
            if inner_visit == visit {
                resize(&table);
            }
        });
        assert_eq!(inner, once);
    });
    assert_eq!((visits, table.core.shared.scans.open()), (once, 0));
}

/// What was removed and inserted again is met at most as often as it was there.
#[test]
fn a_scan_beside_a_key_that_passes_it_and_comes_anew() {
    for is_first_met in [false, true] {
        let table = thirty();
        let order = std::cell::RefCell::new(Vec::new());
        table.for_each(&mut |key, _| order.borrow_mut().push(key)).unwrap();
        let order = order.into_inner();
        let key = if is_first_met { order[0] } else { order[29] };
        let visits = met(&table, |visit| {
            if visit == 15 {
                expand(&table);
                assert_eq!(table.remove(key).unwrap(), Some(1));
                expand(&table);
                assert_eq!(table.insert(key, 1).unwrap(), None);
            }
        });
        let most = 1 + usize::from(is_first_met);
        assert!(visits.get(&key).is_none_or(|&visits| visits <= most), "{visits:?}");
        assert!(visits.values().sum::<usize>() >= 29);
    }
}

#[test]
fn a_scan_whose_visitor_panics_is_over() {
    let table = thirty();
    let scan = || table.for_each(&mut |_, _| panic!("as it should"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(scan)).is_err());
    assert_eq!(table.core.shared.scans.open(), 0);
    expand(&table);
    assert_eq!(met(&table, |_| {}).len(), 30);
}
