//! The result of a demonstration.

use std::path::PathBuf;

/// The figures of a demonstration.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Directory of the files.
    pub dir: PathBuf,
    /// Files that were cut.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// Chunks that they were cut into.
    pub chunks: u64,
    /// Chunks with different digests: the keys of the pool.
    pub unique: u64,
    /// Bytes in chunks whose like was stored from elsewhere.
    pub duplicate_bytes: u64,
    /// The counts of reports at which the writing process was killed.
    pub kills: Vec<u64>,
    /// What drew these counts.
    pub seed: u64,
    /// Chunks that the writing process reported as stored.
    pub acknowledged: u64,
    /// Those of them that were missing or misplaced at any time.
    pub lost: u64,
    /// Whether every check found the pool sound.
    pub sound: bool,
    /// One for each kill.
    pub reopen_ms: Vec<f64>,
    /// Insertions a second, of all threads together.
    pub puts_per_s: f64,
    /// Lookups a second, of all threads together.
    pub gets_per_s: f64,
    /// How full the pool's index is.
    pub load_factor: f64,
    /// Bytes of the pool for each key.
    pub bytes_per_key: f64,
}

impl Outcome {
    /// What broke the promise, if anything did.
    pub fn breach(&self) -> Option<String> {
        if self.lost == 0 && self.sound {
            return None;
        }
        let state = if self.sound { "sound" } else { "not sound" };
        Some(format!(
            "{} of {} acknowledged chunks are lost, and the pool is {state}",
            self.lost, self.acknowledged
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lost_chunk_or_an_unsound_pool_is_a_breach() {
        let good = Outcome { acknowledged: 9, sound: true, ..Outcome::default() };
        assert_eq!(good.breach(), None);
        let lossy = Outcome { lost: 1, ..good.clone() };
        assert!(lossy.breach().is_some_and(|told| told.starts_with("1 of 9 ")));
        let unsound = Outcome { sound: false, ..good };
        assert!(unsound.breach().is_some());
    }
}
