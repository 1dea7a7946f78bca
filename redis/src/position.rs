//! Where a pool stands in the stream of effects.
//!
//! A master numbers its effects. The numbers of one uninterrupted time as a master are a *term*, which has a random
//! identity. Effects carry term and number. A replica records those of the last effect with each effect, so it knows
//! what it has, and skips what a partial resynchronisation sends again. It also knows where earlier terms ended.
//!
//! A master records only that its term is open. If it is killed then, nobody knows which effects reached replicas.
//! It comes back with another replication identity, so that replicas copy all of it. If it ends in order, it records
//! the last number, and a snapshot that has the same number is as new as the pool.

/// Earlier terms that are remembered. A replica that was away for more failovers than this copies everything anyway.
const TERMS_MAX: usize = 8;
const VERSION: u8 = 1;
const IS_OWN: u8 = 1;
const IS_EXACT: u8 = 2;
const IS_PARTIAL: u8 = 4;

/// One effect's place in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) term: u64,
    pub(crate) number: u64,
}

/// What a pool records of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// Where each term ended that has effects in the pool; the last one is the current one.
    terms: Vec<(u64, u64)>,
    /// The current term is this server's own.
    pub(crate) is_own: bool,
    /// The number is that of the last effect. In an open term of a master it is not.
    pub(crate) is_exact: bool,
    /// The pool holds a part of what a master sent, and must not be shown.
    pub(crate) is_partial: bool,
}

impl Position {
    /// That of an empty pool.
    pub(crate) fn of_nothing() -> Position {
        Position { is_exact: true, ..Position::default() }
    }

    /// That of a pool while it is being filled.
    pub(crate) fn of_a_part() -> Position {
        Position { is_partial: true, ..Position::default() }
    }

    /// That of a whole copy of a pool at this one.
    pub(crate) fn into_copy(self) -> Position {
        Position { is_own: false, is_exact: true, is_partial: false, ..self }
    }

    /// The place of the last effect; that of an empty pool has no term.
    pub(crate) fn last(&self) -> Option<Stamp> {
        self.terms.last().map(|&(term, number)| Stamp { term, number })
    }

    /// Whether the pool has this effect already.
    pub(crate) fn has(&self, stamp: Stamp) -> bool {
        self.terms.iter().any(|&(term, number)| term == stamp.term && stamp.number <= number)
    }

    /// Moves on to an effect.
    pub(crate) fn advance(&mut self, stamp: Stamp) {
        match self.terms.last_mut() {
            Some((term, number)) if *term == stamp.term => *number = stamp.number,
            _ => {
                // A term that comes back, after a replay from before it, counts from there.
                self.terms.retain(|&(term, _)| term != stamp.term);
                if self.terms.len() == TERMS_MAX {
                    self.terms.remove(0);
                }
                self.terms.push((stamp.term, stamp.number));
            }
        }
    }

    /// Whether a snapshot at `other` has all that the pool at `self` has.
    pub(crate) fn is_at(&self, other: &Position) -> bool {
        self.is_exact && self.last() == other.last()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.is_own, IS_OWN)
            | flag(self.is_exact, IS_EXACT)
            | flag(self.is_partial, IS_PARTIAL);
        let mut bytes = Vec::with_capacity(2 + 16 * self.terms.len());
        bytes.extend([VERSION, flags]);
        for (term, number) in &self.terms {
            bytes.extend_from_slice(&term.to_le_bytes());
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// `None` if these bytes are no position of this version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Position> {
        let (&[version, flags], rest) = bytes.split_first_chunk::<2>()?;
        let (words, []) = rest.as_chunks::<8>() else { return None };
        let (pairs, []) = words.as_chunks::<2>() else { return None };
        if version != VERSION || pairs.len() > TERMS_MAX {
            return None;
        }
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        Some(Position {
            terms: pairs.iter().map(|[term, number]| (word(term), word(number))).collect(),
            is_own: flags & IS_OWN != 0,
            is_exact: flags & IS_EXACT != 0,
            is_partial: flags & IS_PARTIAL != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(term: u64, number: u64) -> Stamp {
        Stamp { term, number }
    }

    #[test]
    fn effects_are_skipped_once_they_are_in() {
        let mut position = Position::default();
        assert!(!position.has(stamp(7, 1)));
        position.advance(stamp(7, 1));
        position.advance(stamp(7, 2));
        assert!(position.has(stamp(7, 1)) && position.has(stamp(7, 2)));
        assert!(!position.has(stamp(7, 3)) && !position.has(stamp(8, 1)));
        position.advance(stamp(8, 1));
        assert!(position.has(stamp(7, 2)), "what an earlier term had is still in");
        assert!(!position.has(stamp(7, 3)));
    }

    #[test]
    fn only_the_last_terms_are_remembered() {
        let mut position = Position::default();
        (0..20).for_each(|term| position.advance(stamp(term, 5)));
        assert!(!position.has(stamp(3, 5)) && position.has(stamp(19, 5)));
        assert_eq!(Position::from_bytes(&position.to_bytes()), Some(position));
    }

    #[test]
    fn a_snapshot_is_as_new_only_if_the_pool_ended_in_order() {
        let mut pool = Position { is_own: true, is_exact: false, ..Position::default() };
        pool.advance(stamp(1, 9));
        let snapshot = pool.clone();
        assert!(!pool.is_at(&snapshot));
        pool.is_exact = true;
        assert!(pool.is_at(&snapshot));
        pool.advance(stamp(1, 10));
        assert!(!pool.is_at(&snapshot));
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [&b""[..], b"\x01", b"\x02\0", b"\x01\0\0", b"\x01\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(Position::from_bytes(bytes), None);
        }
        assert!(Position::from_bytes(&[1; 2 + 16 * 9]).is_none());
    }
}
