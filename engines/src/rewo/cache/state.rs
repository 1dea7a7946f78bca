//! What is left out of the cached table, and how large it is.

use super::bucket::EPOCH_MAX;

/// One word, so that any change is noticed.
///
/// ```text
///  63 … 40   39 … 10    9 … 4    3        2         1           0
/// | epoch  | refills | log2  | - | dropped | refilling | overflow |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rewo) struct State(u64);

impl State {
    /// Something is in the persistent table that is not here: the table is partial-loaded.
    const OVERFLOW: u64 = 1;
    /// A refill is under way.
    const REFILLING: u64 = 1 << 1;
    /// Something was left out or dropped since the refill began.
    const DROPPED: u64 = 1 << 2;
    const LOG2_SHIFT: u32 = 4;
    const REFILL: u64 = 1 << 10;
    const REFILLS_MASK: u64 = (1 << 40) - Self::REFILL;
    const EPOCH_SHIFT: u32 = 40;
    /// Of a table that is not used any more: there are no epochs left.
    const OFF: u64 = 0;

    /// Of a partial-loaded table that begins.
    pub(super) fn first(log2: u32) -> State {
        State::of(1, log2)
    }

    fn of(epoch: u64, log2: u32) -> State {
        State(epoch << Self::EPOCH_SHIFT | u64::from(log2) << Self::LOG2_SHIFT | Self::OVERFLOW)
    }

    pub(super) fn from_word(word: u64) -> State {
        State(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    pub(super) fn log2(self) -> u32 {
        (self.0 >> Self::LOG2_SHIFT) as u32 & 63
    }

    /// How often the table has begun anew; entries of other epochs are none.
    pub(in crate::rewo) fn epoch(self) -> u64 {
        self.0 >> Self::EPOCH_SHIFT
    }

    pub(super) fn is_off(self) -> bool {
        self.epoch() == Self::OFF
    }

    pub(in crate::rewo) fn is_full_loaded(self) -> bool {
        self.0 & Self::OVERFLOW == 0
    }

    /// Whether what appears in the persistent table must be cached, or said to be left out.
    pub(super) fn keeps_all(self) -> bool {
        self.is_full_loaded() || self.0 & Self::REFILLING != 0
    }

    /// With everything in it that is in the persistent table.
    pub(super) fn full(self) -> State {
        State(self.0 & !Self::OVERFLOW)
    }

    /// When something is left out or dropped; `None`: that is known.
    pub(super) fn left_out(self) -> Option<State> {
        let known = if self.0 & Self::REFILLING != 0 { Self::DROPPED } else { Self::OVERFLOW };
        (self.0 & known == 0).then_some(State(self.0 | Self::OVERFLOW | Self::DROPPED))
    }

    /// When the table begins anew with `1 << log2` buckets; `None`: it has that many.
    pub(super) fn anew(self, log2: u32) -> Option<State> {
        if self.is_off() || self.log2() == log2 {
            return None;
        }
        let epoch = if self.epoch() == EPOCH_MAX { Self::OFF } else { self.epoch() + 1 };
        Some(State::of(epoch, log2))
    }

    /// When a refill begins. Counted: two refills must not take each other's state for their own.
    pub(super) fn refilling(self) -> State {
        let refills = (self.0 + Self::REFILL) & Self::REFILLS_MASK;
        let others = self.0 & !(Self::REFILLS_MASK | Self::DROPPED);
        State(others | refills | Self::REFILLING)
    }

    /// When the refill that began with this state has found room for everything.
    pub(super) fn refilled(self) -> State {
        State(self.0 & !(Self::REFILLING | Self::OVERFLOW))
    }

    /// When a refill has ended otherwise.
    pub(super) fn not_refilled(self) -> State {
        State(self.0 & !Self::REFILLING)
    }
}
