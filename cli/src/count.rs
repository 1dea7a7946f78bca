//! Counts with the noun that they count.

/// `1 pair`, `2 pairs`, `3,000 pairs`: for nouns that only take an s.
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(count))
}

/// With a comma between thousands.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_thing_has_no_s() {
        assert_eq!(counted(0, "pair"), "0 pairs");
        assert_eq!(counted(1, "pair"), "1 pair");
        assert_eq!(counted(999, "new key"), "999 new keys");
        assert_eq!(counted(3000, "new key"), "3,000 new keys");
        assert_eq!(counted(1_234_567, "byte"), "1,234,567 bytes");
    }
}
