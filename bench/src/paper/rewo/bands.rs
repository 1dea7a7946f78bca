//! Costs of operations, summed over load factors.

use crate::row::Row;
use pmem::medium::{Cost, MediaWrites};

/// Load factors up to which costs are summed, in hundredths.
pub(super) const BANDS_PERCENT: [u64; 2] = [60, 80];

/// What the operations of one kind cost, by band. A band includes all lower load factors.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bands {
    sums: [Sum; BANDS_PERCENT.len()],
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    ops: u64,
    cost: Cost,
    media: MediaWrites,
}

impl Bands {
    /// Adds `ops` operations, after which the load factor was `percent`.
    pub(super) fn add(&mut self, percent: u64, ops: usize, cost: Cost, media: MediaWrites) {
        for (sum, up_to) in self.sums.iter_mut().zip(BANDS_PERCENT) {
            if percent <= up_to {
                sum.ops += ops as u64;
                sum.cost += cost;
                sum.media += media;
            }
        }
    }

    /// A row for each band: the means.
    pub(super) fn rows(&self, row: &Row) -> Vec<Row> {
        let of = |(step, (sum, percent)): (u32, (&Sum, u64))| {
            let row = Row {
                op: format!("{}_to_{percent}", row.op),
                step: Some(step),
                load_factor: Some(percent as f64 / 100.0),
                ..row.clone()
            };
            row.with_costs(sum.ops, sum.cost, sum.media)
        };
        (0..).zip(self.sums.iter().zip(BANDS_PERCENT)).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_has_all_lower_load_factors_and_none_above() {
        let mut bands = Bands::default();
        let cost = |fences| Cost { fences, ..Cost::default() };
        bands.add(60, 10, cost(10), MediaWrites::default());
        bands.add(65, 10, cost(30), MediaWrites::default());
        bands.add(85, 10, cost(1000), MediaWrites::default());
        let rows = bands.rows(&Row::new("rewo", "insert", "someone"));
        assert_eq!(
            rows.iter().map(|row| &*row.op).collect::<Vec<_>>(),
            ["insert_to_60", "insert_to_80"]
        );
        assert_eq!([rows[0].fences, rows[1].fences], [Some(1.0), Some(2.0)]);
    }
}
