//! Counts with the noun that they count.

use indicatif::HumanCount;

/// `1 pair`, `2 pairs`, `3,000 pairs`: for nouns that only take an s.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", HumanCount(count))
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_thing_has_no_s() {
        assert_eq!(counted(0, "pair"), "0 pairs");
        assert_eq!(counted(1, "pair"), "1 pair");
        assert_eq!(counted(3000, "new key"), "3,000 new keys");
    }
}
