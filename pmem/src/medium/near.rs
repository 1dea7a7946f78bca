//! What a thread touched last, and when it arrives: the model of a small cache.

use std::cell::Cell;

/// `N` places, a power of two, each of which remembers one of the units that have it for their only place.
pub(super) struct Near<const N: usize> {
    places: [Place; N],
}

struct Place {
    /// The unit's number among all media; 0 is none.
    unit: Cell<u64>,
    /// Tick at which it arrives.
    arrival: Cell<u64>,
}

impl<const N: usize> Near<N> {
    pub(super) const fn new() -> Near<N> {
        assert!(N.is_power_of_two());
        Near { places: [const { Place { unit: Cell::new(0), arrival: Cell::new(0) } }; N] }
    }

    /// The only place that a unit can have. Units are spread by a multiplication, because tables
    /// lie at multiples of large powers of two: by their low bits, block i of each would have the
    /// same place.
    #[inline(always)]
    fn place(&self, unit: u64) -> &Place {
        const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
        let place = unit.wrapping_mul(GOLDEN_RATIO) >> (u64::BITS - N.ilog2());
        &self.places[place as usize]
    }

    /// When the unit arrives; if it is absent, that is at `arrival_if_absent`.
    #[inline(always)]
    pub(super) fn request(&self, unit: u64, arrival_if_absent: impl FnOnce() -> u64) -> u64 {
        let place = self.place(unit);
        if place.unit.get() != unit {
            place.unit.set(unit);
            place.arrival.set(arrival_if_absent());
        }
        place.arrival.get()
    }

    /// Sets the arrival of a unit that is still here: that spares later requests from looking at the clock.
    pub(super) fn set(&self, unit: u64, arrival: u64) {
        let place = self.place(unit);
        if place.unit.get() == unit {
            place.arrival.set(arrival);
        }
    }

    /// Whether the unit is here. It is from now on.
    #[inline(always)]
    pub(super) fn touch(&self, unit: u64) -> bool {
        self.place(unit).unit.replace(unit) == unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 0;

    #[test]
    fn units_are_absent_then_under_way_then_here() {
        let near = Near::<512>::new();
        assert_eq!(near.request(7, || 500), 500);
        assert_eq!(near.request(7, || 600), 500, "under way since the first request");
        near.set(7, HERE);
        assert_eq!(near.request(7, || 700), HERE);
        near.set(8, HERE);
        assert_eq!(near.request(8, || 800), 800, "was never requested");
    }

    #[test]
    fn units_touched_long_ago_are_absent_again() {
        let near = Near::<512>::new();
        near.request(1, || HERE);
        assert!(near.touch(1) && near.touch(1));
        for unit in 2..64 * 512 {
            near.request(unit, || HERE);
        }
        assert!(!near.touch(1));
        near.request(2, || HERE);
        for unit in 3..64 * 512 {
            near.request(unit, || HERE);
        }
        assert_eq!(near.request(2, || 500), 500);
    }
}
