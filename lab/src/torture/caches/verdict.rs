//! The judge: what may be read of a key, and how large the file may be.

use super::values::Read;

/// The end of what has none, or none that is known.
pub(super) const NEVER: u64 = u64::MAX;

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breach {
    /// What was returned was never put for that key, or not yet.
    Wrong,
    /// It was replaced, removed or cleared before the call began.
    Old,
    /// Its time was over before the call began.
    Expired,
    /// A put failed, and not since its value is too large.
    Refused,
    /// The file is larger than the capacity allows.
    Large,
}

impl Breach {
    pub(super) const ALL: [Breach; 5] =
        [Breach::Wrong, Breach::Old, Breach::Expired, Breach::Refused, Breach::Large];
    pub(super) const COUNT: usize = Breach::ALL.len();

    pub(super) fn name(self) -> &'static str {
        match self {
            Breach::Wrong => "wrong",
            Breach::Old => "old",
            Breach::Expired => "expired",
            Breach::Refused => "refused",
            Breach::Large => "too large",
        }
    }

    /// The name in JSON.
    pub(super) fn key(self) -> &'static str {
        if self == Breach::Large { "too_large" } else { self.name() }
    }
}

/// What is known of a key. Ends are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The newest put or removal that has returned, and when its value is over at the latest.
    pub(super) acked: u64,
    pub(super) acked_end: u64,
    /// The newest one that was begun, and likewise.
    pub(super) begun: u64,
    pub(super) begun_end: u64,
    /// The newest one that had returned when a clearing began that has returned, too.
    pub(super) cleared: u64,
}

impl Line {
    /// The oldest version that may be there.
    pub(super) fn oldest(&self) -> u64 {
        self.acked.max(self.cleared + 1)
    }

    /// When a version is over at the latest.
    pub(super) fn end_of(&self, version: u64) -> u64 {
        match version {
            _ if version == self.acked => self.acked_end,
            _ if version == self.begun => self.begun_end,
            _ => NEVER,
        }
    }

    /// Whether something that may be there has an end.
    pub(super) fn has_end(&self) -> bool {
        self.acked_end != NEVER || self.begun_end != NEVER
    }

    /// Judges what a call has read. `self` is what was known before the call, `after` what is known since, and `now`
    /// was the time before it. That nothing is found is always right: it may have made room.
    pub(super) fn judge(&self, after: &Line, read: Read, now: u64) -> Result<(), Breach> {
        let version = match read {
            Read::Foreign => return Err(Breach::Wrong),
            Read::Several => return Ok(()),
            Read::Version(version) => version,
        };
        if version < self.oldest() {
            return Err(Breach::Old);
        }
        if version > after.begun {
            return Err(Breach::Wrong);
        }
        // Where something changed meanwhile, the version may have had another end.
        let is_same = Line { cleared: 0, ..*self } == Line { cleared: 0, ..*after };
        if is_same && self.end_of(version) <= now { Err(Breach::Expired) } else { Ok(()) }
    }
}

/// What the file takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// Its length.
    pub(super) length: u64,
    /// The space behind it.
    pub(super) space: u64,
}

/// A cache takes so much of the capacity that it was made with, if it is given less.
const LEAST_SHARE: u64 = 25;

/// Whether a file is within its bound: the space for the largest of the capacities that the cache may have, the length
/// for the largest that it ever had.
pub(super) fn is_within(taken: Taken, capacities: [u64; 2], most: u64) -> bool {
    let bound = |capacity: u64| capacity + capacity / 50;
    let now = capacities[0].max(capacities[1]).max(most / LEAST_SHARE);
    taken.length <= bound(most) && taken.space <= bound(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 7 was put and has returned, 9 was begun, and a clearing came after 4.
    const LINE: Line = Line { acked: 7, acked_end: 1000, begun: 9, begun_end: 2000, cleared: 4 };

    fn judged(read: Read, now: u64) -> Result<(), Breach> {
        LINE.judge(&LINE, read, now)
    }

    #[test]
    fn what_may_be_there_is_right() {
        for version in [7, 8, 9] {
            assert_eq!(judged(Read::Version(version), 999), Ok(()));
        }
        assert_eq!(judged(Read::Several, 5000), Ok(()));
    }

    #[test]
    fn what_nobody_put_is_wrong() {
        assert_eq!(judged(Read::Foreign, 0), Err(Breach::Wrong));
        assert_eq!(judged(Read::Version(10), 0), Err(Breach::Wrong));
        // A put that began during the call may be seen.
        let after = Line { begun: 10, ..LINE };
        assert_eq!(LINE.judge(&after, Read::Version(10), 0), Ok(()));
    }

    #[test]
    fn what_was_replaced_or_cleared_before_is_old() {
        assert_eq!(judged(Read::Version(6), 0), Err(Breach::Old));
        let cleared = Line { cleared: 7, ..LINE };
        assert_eq!(cleared.judge(&cleared, Read::Version(7), 0), Err(Breach::Old));
        assert_eq!(cleared.judge(&cleared, Read::Version(8), 0), Ok(()));
        // What is replaced or cleared during the call may still be seen.
        for after in [Line { acked: 9, ..LINE }, Line { cleared: 9, ..LINE }] {
            assert_eq!(LINE.judge(&after, Read::Version(7), 0), Ok(()));
        }
    }

    #[test]
    fn what_was_over_before_is_expired() {
        assert_eq!(judged(Read::Version(7), 1000), Err(Breach::Expired));
        assert_eq!(judged(Read::Version(9), 1999), Ok(()));
        assert_eq!(judged(Read::Version(9), 2000), Err(Breach::Expired));
        // Versions between were cut off, and nobody knows their ends.
        assert_eq!(judged(Read::Version(8), 1 << 50), Ok(()));
        let endless = Line { acked_end: NEVER, ..LINE };
        assert_eq!(endless.judge(&endless, Read::Version(7), 1 << 50), Ok(()));
        // The end may have been another one during the call.
        let touched = Line { acked_end: 3000, ..LINE };
        assert_eq!(LINE.judge(&touched, Read::Version(7), 1500), Ok(()));
        // Even while others clear, what was over is over.
        let cleared = Line { cleared: 7, ..LINE };
        assert_eq!(LINE.judge(&cleared, Read::Version(7), 1000), Err(Breach::Expired));
    }

    #[test]
    fn a_file_beyond_its_bound_is_noticed() {
        let is_fine =
            |length, space, capacities, most| is_within(Taken { length, space }, capacities, most);
        assert!(is_fine(1020, 1020, [1000, 0], 1000));
        assert!(!is_fine(1021, 1000, [1000, 0], 1000));
        assert!(!is_fine(1000, 1021, [1000, 0], 1000));
        // A cache that has become smaller keeps its length, but not its space.
        assert!(is_fine(5000, 1000, [1000, 0], 5000));
        assert!(!is_fine(5000, 1100, [1000, 0], 5000));
        // It has some of it, however little it is given.
        assert!(is_fine(100_000, 4000, [1000, 0], 100_000));
        assert!(!is_fine(100_000, 4100, [1000, 0], 100_000));
        // A cache that was cut off while it became smaller may have either capacity.
        assert!(is_fine(5000, 5000, [1000, 5000], 5000));
    }
}
