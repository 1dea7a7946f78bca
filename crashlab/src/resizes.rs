//! How many resizes a run may need.

/// Resizes of a run, its setup's included.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resizes {
    /// Until its last operation has ended.
    in_run: u64,
    /// Until none is under way. A resize that has lost count of what it moves ends only by another one.
    pub(crate) ended: u64,
}

impl Resizes {
    /// As many as there may be.
    pub(crate) const ANY: Resizes = Resizes { in_run: u64::MAX, ended: u64::MAX };

    /// Those of a run whose last one may be under way.
    pub(crate) fn of(in_run: u64) -> Resizes {
        Resizes { in_run, ended: in_run }
    }

    /// The larger number of each.
    pub(crate) fn most(self, other: Resizes) -> Resizes {
        Resizes { in_run: self.in_run.max(other.in_run), ended: self.ended.max(other.ended) }
    }

    /// What is wrong if there are more than in `most`.
    pub(crate) fn within(self, most: Resizes) -> Result<(), String> {
        if self.in_run > most.in_run {
            return Err(format!("{} resizes, {} are enough", self.in_run, most.in_run));
        }
        if self.ended > most.ended {
            let (ended, most) = (self.ended, most.ended);
            return Err(format!("{ended} resizes until none is under way, {most} are enough"));
        }
        Ok(())
    }
}
