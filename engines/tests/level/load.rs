//! How full a table gets: figures 2, 4, 8b and 10.

use crate::harness::{NEVER, Table, WHEN_FULL, key, shape, value};
use engines::level::{Design, Shape};
use pmem::medium::{Count, Dram, measure};

/// The load factor, relative to the levels that the design uses, when an insertion first fails.
fn load_when_full(slots: u32, design: Design, seed: u64) -> f64 {
    let table = Table::<Dram>::new(Shape { slots, initial_log2: 12, design }, NEVER);
    let first = seed << 32;
    let count = (first..).position(|index| table.insert(key(index), index).is_err()).unwrap();
    table.assert_sound(count as u64);
    let levels = if design.two_levels { 2 } else { 1 };
    let slots: u64 = table.occupancy().levels.iter().take(levels).map(|level| level.slots).sum();
    count as f64 / slots as f64
}

fn mean_load_when_full(slots: u32, design: Design) -> f64 {
    let seeds = 4;
    (0..seeds).map(|seed| load_when_full(slots, design, seed)).sum::<f64>() / seeds as f64
}

#[test]
fn each_design_decision_lets_the_table_get_fuller() {
    let all = Design::default();
    let shared = Design { movement: false, ..all };
    let two_choices = Design { two_levels: false, ..shared };
    let one_choice = Design { two_hashes: false, ..two_choices };
    let loads = [one_choice, two_choices, shared, all].map(|design| mean_load_when_full(4, design));
    let is_rising = loads.array_windows().all(|[less, more]| more - less > 0.05);
    assert!(is_rising, "D1, D1 + D2, D1 + D2 + D3, all: {loads:?}");
    assert!(loads[3] >= 0.90, "all decisions together: {loads:?}");
}

#[test]
fn more_slots_let_the_table_get_fuller() {
    let loads = [1, 2, 4, 8].map(|slots| mean_load_when_full(slots, Design::default()));
    assert!(loads.is_sorted(), "1, 2, 4, 8 slots: {loads:?}");
    assert!(loads[3] >= 0.95, "8 slots: {loads:?}");
}

/// The load factor at which a table of always the same size expands for the `nth` time.
fn load_at_expansion(nth: u32, design: Design, seed: u64) -> f64 {
    let table = Table::<Dram>::new(Shape { design, ..shape(4, 13 - nth) }, WHEN_FULL);
    let first = seed << 32;
    let (mut count, mut capacity) = (0, table.capacity());
    let mut expansions = 0;
    loop {
        // An occupancy looks at every bucket: often enough for half a per cent.
        let more = capacity / 200 + 1;
        table.fill(first + count..first + count + more);
        count += more;
        let now = table.capacity();
        if now != capacity {
            assert_eq!(now, 2 * capacity, "an expansion doubles the table");
            expansions += 1;
            if expansions == nth {
                table.assert_holds(first..first + count);
                return count as f64 / capacity as f64;
            }
            capacity = now;
        }
    }
}

/// The mean load factors at the first six expansions.
fn loads_at_expansions(bottom_to_top: bool) -> [f64; 6] {
    let design = Design { bottom_to_top, ..Design::default() };
    let seeds = 4;
    [1, 2, 3, 4, 5, 6].map(|nth| {
        (0..seeds).map(|seed| load_at_expansion(nth, design, seed)).sum::<f64>() / seeds as f64
    })
}

#[test]
fn movement_from_bottom_to_top_delays_every_second_expansion() {
    let [without, with] = [false, true].map(loads_at_expansions);
    let both = format!("without {without:?}, with {with:?}");
    // The bottom level was the top one, and is mostly full. (Later on the alternation wears off:
    // each expansion evens out a little what the one before left.)
    assert!(without[1] < without[0] - 0.03 && without[1] < without[2] - 0.005, "{both}");
    assert!(without[3] < without[2] && without[3] < without[0] - 0.03, "{both}");
    assert!(without[5] < without[0] - 0.03, "{both}");
    for second in [1, 3, 5] {
        assert!(with[second] > without[second] + 0.025, "{both}");
        assert!(with[second] > 0.9, "{both}");
    }
}

/// At loads of 5 %, 10 % and so on, the share of items whose update needs no log entry.
fn shares_of_log_free_updates(slots: u32) -> Vec<f64> {
    let design = Design { in_place_update: false, ..Design::default() };
    let shape = Shape { design, ..shape(slots, 13) };
    let table = Table::<Count<Dram>>::new(shape, NEVER);
    let (capacity, mut count) = (table.capacity(), 0);
    let mut shares = Vec::new();
    for twentieth in 1..20 {
        while count < capacity * twentieth / 20 {
            if table.insert(key(count), value(count)).is_err() {
                return shares;
            }
            count += 1;
        }
        // Each item once: an update leaves its bucket as full as it was.
        let is_log_free = |&index: &u64| {
            let (old, cost) = measure(|| table.update(key(index), value(index)));
            assert_eq!(old, Some(value(index)));
            // The item, then the tokens; else a log entry, the value, and the entry's erasure.
            assert!((1..=3).contains(&cost.fences), "{cost:?}");
            cost.fences <= 2
        };
        shares.push((0..count).filter(is_log_free).count() as f64 / count as f64);
    }
    shares
}

#[test]
fn log_free_updates_get_rarer_until_the_bottom_level_fills() {
    let by_slots = [2, 4, 8].map(shares_of_log_free_updates);
    for (shares, slots) in by_slots.iter().zip([2, 4, 8]) {
        assert!(shares[0] > 0.95, "{slots} slots, nearly empty: {shares:?}");
        let up_to_two_thirds = &shares[..13];
        let is_falling = up_to_two_thirds.is_sorted_by(|one, next| *next < one + 0.03);
        assert!(is_falling, "{slots} slots, up to a load of 0.65: {shares:?}");
        assert!(shares[12] < 0.4, "{slots} slots, at a load of 0.65: {shares:?}");
    }
    // Two slots never fill the top level: they have no such rise before they have no room.
    for (shares, slots, rise) in [(&by_slots[1], 4, 0.005), (&by_slots[2], 8, 0.05)] {
        let beyond = &shares[12..17];
        let least = beyond.iter().copied().fold(1.0, f64::min);
        let after = beyond.iter().skip_while(|&&share| share > least);
        let most_after = after.copied().fold(0.0, f64::max);
        assert!(most_after > least + rise, "{slots} slots, from 0.65 to 0.85: {shares:?}");
    }
    // The more slots there are, the likelier one of them is empty.
    let at_half = [0, 1, 2].map(|slots: usize| by_slots[slots][9]);
    assert!(at_half.is_sorted(), "2, 4, 8 slots at a load of one half: {at_half:?}");
}
