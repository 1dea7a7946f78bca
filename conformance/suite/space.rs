//! How much space a table takes while it grows by itself.

use crate::harness::{Backing, Engine, Setup, Table, spread, within};
use index::Index;

const PAIRS: u64 = 700_000;

pub(crate) fn a_table_that_grows_wastes_little<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let capacities = [0, 1].map(|helpers| {
        let resize_at = engine.budget.load_factor;
        let table = Table::<B>::new(Setup { pairs: 1000, helpers, resize_at, ..Setup::of(engine) });
        // If insertions leave a resize to the helper, the scheduler decides how full the table gets.
        if helpers == 0 || engine.insertions_end_resizes {
            // Here a resize waits for a helper that has lost its processor amid the last one.
            let beyond_most = if helpers == 0 { 0.02 } else { 0.1 };
            watch_growth(&table, resize_at, beyond_most);
        } else {
            (0..PAIRS).for_each(|index| insert(&table, index));
        }
        table.settle();
        table.occupancy().capacity
    });
    assert_eq!(capacities[0], capacities[1], "with a helper the table is of another size");
}

fn insert<B: Backing>(table: &Table<B>, index: u64) {
    table.insert(spread(index), index).unwrap();
}

/// Fills the table, and looks at it so often that the last look before a resize tells how full it was.
fn watch_growth<B: Backing>(table: &Table<B>, resize_at: f64, beyond_most: f64) {
    let (mut last, mut last_bytes) = (table.occupancy(), 0);
    let mut doublings = 0;
    for index in 0..PAIRS {
        insert(table, index);
        if index % (last.capacity / 500) != 0 {
            continue;
        }
        let now = table.occupancy();
        let load_factor = now.load_factor();
        assert!(load_factor < resize_at + beyond_most, "too full at {load_factor}: {now:?}");
        if now.capacity > last.capacity {
            doublings += 1;
            let load_factor = last.load_factor();
            assert!(load_factor > resize_at - 0.005, "resized at {load_factor}: {last:?}");
            if last.capacity > 20_000 {
                let bytes = last_bytes as f64 / last.pairs() as f64;
                let most = table.setup().engine.budget.bytes_per_pair;
                assert!(bytes <= most, "{bytes} bytes a pair: {last:?}");
            }
            assert_eq!(now.capacity, 2 * last.capacity);
        }
        assert_eq!(now.resizes, doublings, "{now:?}");
        last_bytes = now.pool_bytes() + now.sidecar_bytes() + table.heap_use().used_bytes;
        last = now;
    }
    assert!(doublings >= 8, "{doublings} doublings");
}
