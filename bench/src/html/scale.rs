//! From figures to places on an axis.

/// Ticks that an axis has, about.
const TICKS: f64 = 5.0;

/// Least figure of an axis that is taken for a figure; below, rounding eats the steps.
const SMALLEST: f64 = 1e-9;

/// Largest, so that what is added up or doubled still is a number.
const LARGEST: f64 = 1e30;

/// An axis: figures from `low` to `high`, drawn from one place to another.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    from_px: f64,
    to_px: f64,
    /// Figures to write on it.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// From 0 to a little more than the largest value; to a round figure would often leave half
    /// of a chart empty.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>) -> Scale {
        let most = usable(values).fold(0.0, f64::max);
        let most = if most < SMALLEST { 1.0 } else { most };
        let step = round_step(most);
        let high = most * 1.03;
        let ticks = (0..20).map(|index| f64::from(index) * step);
        let ticks = ticks.take_while(|tick| *tick <= high).collect();
        Scale { low: 0.0, high, ..Scale::unplaced(ticks, false) }
    }

    /// From the least value to the largest.
    pub(super) fn spanning(values: impl IntoIterator<Item = f64>) -> Scale {
        let (low, high) = bounds(usable(values)).unwrap_or((0.0, 1.0));
        let (low, high) = match high - low > SMALLEST.max(high * 1e-6) {
            true => (low, high),
            false => (low * 0.9, high.mul_add(1.1, SMALLEST)),
        };
        let step = round_step(high - low);
        let first = (low / step - 1e-9).ceil();
        let ticks = (0..20).map(|index| (first + f64::from(index)) * step);
        let ticks = ticks.take_while(|tick| *tick <= high + step * 1e-9).collect();
        Scale { low, high, ..Scale::unplaced(ticks, false) }
    }

    /// From the least value to the largest, with ticks at the values themselves.
    pub(super) fn at_values(values: &[f64]) -> Scale {
        let mut ticks: Vec<f64> = usable(values.iter().copied()).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let every = ticks.len().div_ceil(8).max(1);
        let ticks = ticks.into_iter().step_by(every).collect();
        Scale { ticks, ..Scale::spanning(values.iter().copied()) }
    }

    /// Powers of ten around all values that have a logarithm.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Scale {
        let logs = usable(values).filter(|value| *value > SMALLEST).map(f64::log10);
        let (low, high) = bounds(logs).unwrap_or((0.0, 1.0));
        let (low, high) = (low.floor() as i32, high.ceil() as i32);
        let high = high.max(low + 1);
        let every = ((high - low) as usize).div_ceil(8).max(1);
        let ticks = (low..=high).step_by(every).map(|power| 10f64.powi(power)).collect();
        let (low, high) = (10f64.powi(low), 10f64.powi(high));
        Scale { low, high, ..Scale::unplaced(ticks, true) }
    }

    fn unplaced(ticks: Vec<f64>, is_log: bool) -> Scale {
        Scale { low: 0.0, high: 1.0, is_log, from_px: 0.0, to_px: 1.0, ticks }
    }

    /// The same axis, drawn from one place to another.
    pub(super) fn drawn(self, from_px: f64, to_px: f64) -> Scale {
        Scale { from_px, to_px, ..self }
    }

    /// Where a figure lies; whatever is beyond an end, or no number, lies at that end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = match self.is_log {
            _ if value.is_nan() || value <= self.low => 0.0,
            _ if value >= self.high => 1.0,
            true => (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10()),
            false => (value - self.low) / (self.high - self.low),
        };
        (self.to_px - self.from_px).mul_add(part, self.from_px)
    }

    /// Where it begins and ends, smaller place first.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.from_px.min(self.to_px), self.from_px.max(self.to_px))
    }
}

fn usable(values: impl IntoIterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.into_iter().filter(|value| (0.0..=LARGEST).contains(value))
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |bounds: Option<(f64, f64)>, value| {
        let (low, high) = bounds.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// A step of 1, 2 or 5 times a power of ten that divides a span into about [`TICKS`] steps.
fn round_step(span: f64) -> f64 {
    let rough = span / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= rough * 0.999);
    digit.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_round_and_hold_every_value() {
        let scale = Scale::from_zero([3.0, 41.0]).drawn(0.0, 41.0 * 1.03);
        assert_eq!(scale.ticks, [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert!((scale.place(25.0) - 25.0).abs() < 1e-9);
        let scale = Scale::log([85.0, 2e6]).drawn(0.0, 60.0);
        assert_eq!(scale.ticks, [1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7]);
        assert!((scale.place(1e4) - 30.0).abs() < 1e-9);
        let scale = Scale::spanning([0.5, 0.95]);
        assert_eq!(scale.ticks.len(), 5, "{:?}", scale.ticks);
    }

    #[test]
    fn no_value_lies_off_an_axis() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 5e-324, 1e-9, 1e308];
        let few: [&[f64]; 5] = [&[], &[0.0], &[7.0, 7.0], &[f64::NAN], &odd];
        for values in few {
            let all = || values.iter().copied();
            let scales = [Scale::from_zero(all()), Scale::spanning(all()), Scale::log(all())];
            for scale in scales.into_iter().chain([Scale::at_values(values)]) {
                let scale = scale.drawn(200.0, 20.0);
                let is_rising = scale.ticks.windows(2).all(|pair| pair[0] < pair[1]);
                assert!(is_rising && scale.ticks.len() <= 20, "{scale:?}");
                for value in odd.iter().chain(values).chain(&scale.ticks) {
                    let place = scale.place(*value);
                    assert!((20.0..=200.0).contains(&place), "{value} at {place} of {scale:?}");
                }
            }
        }
    }
}
