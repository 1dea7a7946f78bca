//! The names of a pool's companions: files that begin with its name, beside it or in another directory.

/// Highest number of a segment, so that a next number always exists.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// What they are called.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// The pool file's name.
    pool: String,
}

impl Names {
    pub(super) fn new(pool: &str) -> Names {
        Names { pool: pool.to_owned() }
    }

    /// The checkpoint.
    pub(super) fn checkpoint(&self) -> String {
        format!("{}.safe", self.pool)
    }

    /// The checkpoint that is being written.
    pub(super) fn new_checkpoint(&self) -> String {
        format!("{}.safe.new", self.pool)
    }

    /// A segment of the log.
    pub(super) fn segment(&self, number: u64) -> String {
        format!("{}.log.{number}", self.pool)
    }

    /// The segment's number that a name says, if it is a segment's.
    pub(super) fn number_of(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(&self.pool)?.strip_prefix(".log.")?;
        let number = digits.parse().ok().filter(|&number| number <= NUMBER_MAX)?;
        // No other spelling of it is.
        (name == self.segment(number)).then_some(number)
    }

    /// Whether a name is that of one of these files.
    pub(super) fn are_of_pool(&self, name: &str) -> bool {
        name == self.checkpoint() || name == self.new_checkpoint() || self.number_of(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_called_so_is_a_segment() {
        let names = Names::new("p");
        assert_eq!(names.number_of(&names.segment(17)), Some(17));
        for name in [
            "p.log.",
            "p.log.+5",
            "p.log.05",
            "p.log.5.bak",
            "q.log.5",
            "p.log.18446744073709551615",
        ] {
            assert_eq!(names.number_of(name), None, "{name}");
            assert!(!names.are_of_pool(name));
        }
        assert!(names.are_of_pool("p.safe") && names.are_of_pool("p.safe.new"));
    }
}
