//! What a table takes up while it grows by itself.

use crate::harness::{Backing, Engine, Setup, Table, within};
use index::Index;

pub(crate) fn a_table_that_grows_wastes_little<E: Engine, B: Backing>() {
    let _watchdog = within(120);
    let resize_at = E::BUDGET.load_factor;
    for helper in [false, true] {
        let table =
            Table::<E, B>::new(Setup { pairs: 1000, helper, resize_at, ..Setup::default() });
        let (mut last, mut last_bytes) = (table.occupancy(), 0);
        let mut doublings = 0;
        for index in 0..700_000u64 {
            table.insert(index.wrapping_mul(0x9e37_79b9_7f4a_7c15), index).unwrap();
            // Often enough that the last look before a resize says how full the table was.
            if index % (last.capacity / 500) != 0 {
                continue;
            }
            let now = table.occupancy();
            let load_factor = now.load_factor();
            let may_fill_on = helper && !E::INSERTIONS_END_RESIZES;
            let is_in_time = load_factor < resize_at + 0.02;
            assert!(is_in_time || may_fill_on, "too full at {load_factor}: {now:?}");
            if now.capacity > last.capacity {
                doublings += 1;
                let load_factor = last.load_factor();
                assert!(load_factor > resize_at - 0.005, "resized at {load_factor}: {last:?}");
                if last.capacity > 20_000 {
                    let bytes = last_bytes as f64 / last.pairs() as f64;
                    assert!(bytes <= E::BUDGET.bytes_per_pair, "{bytes} bytes a pair: {last:?}");
                }
                assert_eq!(now.capacity, 2 * last.capacity);
            }
            assert_eq!(now.resizes, doublings, "{now:?}");
            last_bytes = now.pool_bytes() + now.sidecar_bytes() + table.heap_use().used_bytes;
            last = now;
        }
        assert!(doublings >= 8, "{doublings} doublings");
    }
}
