//! Power failures in the middle of changes of packed pairs, which share words with each other and
//! lie across lines. (What a power failure may leave of two-word pairs, on any number of threads,
//! is crashlab's.)

use crate::harness::{Levels, shape};
use crate::table::power::survives;
use engines::level::{Design, Shape};

fn survive_by_every_design<const K: usize, const V: usize>(slots: u32) {
    let all = Design::default();
    let moved = Design { in_place_update: false, ..all };
    let logged = Design { log_free_update: false, ..moved };
    for design in [all, moved, logged] {
        survives::<Levels, K, V>(Shape { design, ..shape(slots, 1) }, 400, 4);
    }
}

#[test]
fn packed_pairs_survive_a_power_failure_anywhere() {
    survive_by_every_design::<16, 15>(4);
    survive_by_every_design::<3, 5>(4);
    survive_by_every_design::<4, 8>(5);
    survive_by_every_design::<24, 100>(4);
}
